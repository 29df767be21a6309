//! What a package has beside the binary: its manual, completions, schemas and documents, and what others use it with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::tree::Tree;
use crate::command;

/// Directories of `config` that people copy from.
const FOR_OTHERS: [&str; 8] =
    ["bans", "crowdsec", "fail2ban", "grafana", "haproxy", "kubernetes", "lists", "prometheus"];

/// Example configurations, which name each other.
const EXAMPLES: [&str; 5] =
    ["application.yaml", "domains/edge.yaml", "every-key.yaml", "partners.txt", "ratelimit.yaml"];

/// Documents at the top of the sources; those in `docs` go with them.
const DOCUMENTS: [&str; 2] = ["README.md", "CONFIGURATION.md"];

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
    for name in FOR_OTHERS {
        copy_all(tree, &format!("usr/share/ratelimit/{name}"), &sources.join("config").join(name))?;
    }
    let documents = "usr/share/doc/ratelimit";
    for name in EXAMPLES {
        tree.copy(&format!("{documents}/examples/{name}"), &sources.join("config").join(name), 0o644)?;
    }
    for name in ["caddy", "envoy", "nginx", "traefik"] {
        copy_all(tree, &format!("{documents}/examples/{name}"), &sources.join("config").join(name))?;
    }
    for name in DOCUMENTS {
        tree.write_gz(&format!("{documents}/{name}.gz"), &read(&sources.join(name))?)?;
    }
    for path in files_in(&sources.join("docs"))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".md") {
            tree.write_gz(&format!("{documents}/docs/{name}.gz"), &read(&path)?)?;
        }
    }
    tree.write_gz(&format!("{documents}/changelog.gz"), &read(&sources.join("CHANGELOG.md"))?)?;
    // The unit of the sources is for a binary that somebody has put where administrators do.
    let unit = String::from_utf8(read(&sources.join("config/ratelimit.service"))?)?;
    ensure!(unit.contains("/usr/local/bin/"), "the unit starts another binary than it says");
    let unit =
        unit.replace("/usr/local/bin/", "/usr/bin/").replace("/etc/systemd/system/", "/lib/systemd/system/");
    tree.write("lib/systemd/system/ratelimit.service", unit.as_bytes(), 0o644)
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

/// Copies the files of a directory; those that can be run stay so.
fn copy_all(tree: &Tree, to: &str, directory: &Path) -> Result<()> {
    for path in files_in(directory)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mode = if read(&path)?.starts_with(b"#!") { 0o755 } else { 0o644 };
        tree.copy(&format!("{to}/{name}"), &path, mode)?;
    }
    Ok(())
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let reading = || format!("reading {}", directory.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).with_context(reading)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}
