//! What a package has beside the binary: its manual, completions, schemas and documents, and what others use it with.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::documents::{self, COPYRIGHT, DOCUMENTS};
use super::tree::Tree;
use crate::command;

/// Directories of `config` that people copy from.
const FOR_OTHERS: [&str; 8] =
    ["bans", "crowdsec", "fail2ban", "grafana", "haproxy", "kubernetes", "lists", "prometheus"];

/// Example configurations, which name each other, in `config`.
const EXAMPLES: [&str; 8] = [
    "application.yaml",
    "busy.html",
    "domains/edge.yaml",
    "every-key.yaml",
    "partners.txt",
    "proxy.yaml",
    "ratelimit.yaml",
    "several-daemons.yaml",
];

/// Directories of `config` with examples for gateways.
const GATEWAYS: [&str; 4] = ["caddy", "envoy", "nginx", "traefik"];

const UNIT: &str = "lib/systemd/system/ratelimit.service";

/// Adds them; `writer` is a binary that runs here, and writes some of them.
pub fn add(tree: &Tree, writer: &Path) -> Result<()> {
    manual(tree, writer)?;
    let printed = |arguments: &[&str]| command::quietly(Command::new(writer).args(arguments));
    for (path, arguments) in [
        ("usr/share/bash-completion/completions/ratelimit", &["completions", "bash"][..]),
        ("usr/share/fish/vendor_completions.d/ratelimit.fish", &["completions", "fish"]),
        ("usr/share/zsh/vendor-completions/_ratelimit", &["completions", "zsh"]),
        ("usr/share/ratelimit/ratelimit.schema.json", &["schema"]),
        ("usr/share/ratelimit/rules.schema.json", &["schema", "rules"]),
    ] {
        tree.write(path, printed(arguments)?.as_bytes(), 0o644)?;
    }
    let sources = command::workspace();
    for (from, to) in copies()? {
        let from = sources.join(from);
        // Those that can be run stay so.
        let mode = if read(&from)?.starts_with(b"#!") { 0o755 } else { 0o644 };
        tree.copy(&to, &from, mode)?;
    }
    documents::add(tree, &places()?)?;
    // The unit of the sources is for a binary that somebody has put where administrators do.
    let unit = String::from_utf8(read(&sources.join("config/ratelimit.service"))?)?;
    ensure!(unit.contains("/usr/local/bin/"), "the unit starts another binary than it says");
    let unit =
        unit.replace("/usr/local/bin/", "/usr/bin/").replace("/etc/systemd/system/", "/lib/systemd/system/");
    tree.write(UNIT, unit.as_bytes(), 0o644)
}

fn manual(tree: &Tree, writer: &Path) -> Result<()> {
    let directory = tree.directory("usr/share/man")?;
    command::quietly(Command::new(writer).arg("man").arg(&directory))?;
    for path in tree.files()?.iter().filter(|path| path.starts_with("usr/share/man/")) {
        let page = tree.root().join(path);
        let text = read(&page)?;
        fs::remove_file(&page).with_context(|| format!("removing {}", page.display()))?;
        tree.write_gz(&format!("{path}.gz"), &text)?;
    }
    Ok(())
}

/// What is copied as it is: paths in the sources, and in the package.
fn copies() -> Result<Vec<(String, String)>> {
    let mut copies = Vec::new();
    let mut directory = |from: String, to: String| -> Result<()> {
        for path in files_in(&command::workspace().join(&from))? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            copies.push((format!("{from}/{name}"), format!("{to}/{name}")));
        }
        Ok(())
    };
    for name in FOR_OTHERS {
        directory(format!("config/{name}"), format!("usr/share/ratelimit/{name}"))?;
    }
    for name in GATEWAYS {
        directory(format!("config/{name}"), format!("{DOCUMENTS}/examples/{name}"))?;
    }
    directory("docs/pictures".to_owned(), format!("{DOCUMENTS}/docs/pictures"))?;
    let example = |name| (format!("config/{name}"), format!("{DOCUMENTS}/examples/{name}"));
    copies.extend(EXAMPLES.map(example));
    copies.push(("packaging/debian/copyright".to_owned(), COPYRIGHT.to_owned()));
    Ok(copies)
}

/// Where in the package something is that a document may name: paths in the sources, and in the package.
pub fn places() -> Result<BTreeMap<String, String>> {
    let copies = copies()?;
    let directory = |path: &str| path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
    let mut places: BTreeMap<String, String> =
        copies.iter().map(|(from, to)| (directory(from), directory(to))).collect();
    places.extend(copies);
    for (from, to) in [
        ("config", &*format!("{DOCUMENTS}/examples")),
        ("config/ratelimit.service", UNIT),
        ("LICENSE-APACHE", COPYRIGHT),
        ("LICENSE-MIT", COPYRIGHT),
    ] {
        places.insert(from.to_owned(), to.to_owned());
    }
    Ok(places)
}

pub fn files_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let reading = || format!("reading {}", directory.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).with_context(reading)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    Ok(files)
}

pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}
