//! The licences of all crates that the binary contains, those of the XDP program included: their files, each text once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::command;

/// The packages whose dependencies are linked.
const ROOTS: [&str; 2] = ["ratelimit", "ratelimit-ebpf"];

/// How the names of files begin that say what a crate's licence is.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// A crate of others.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    licence: String,
    authors: String,
    texts: Vec<String>,
}

/// The file for the package: all crates, then all texts with the crates that have them.
pub fn text(triple: &str) -> Result<Vec<u8>> {
    let crates = crates(triple)?;
    let mut text =
        "The program contains these crates, and Rust's standard library (MIT OR Apache-2.0).\n\n".to_owned();
    let mut by_text: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Crate { name, licence, authors, texts } in &crates {
        writeln!(text, "{name}: {licence}{authors}")?;
        texts.iter().for_each(|licence| by_text.entry(licence).or_default().push(name));
    }
    let mut ordered: Vec<_> = by_text.into_iter().map(|(licence, names)| (names, licence)).collect();
    ordered.sort();
    for (names, licence) in ordered {
        write!(text, "\n{}\n{}\n\n{}\n", "-".repeat(80), names.join(", "), licence.trim())?;
    }
    Ok(text.into_bytes())
}

fn crates(triple: &str) -> Result<BTreeSet<Crate>> {
    let mut cargo = command::cargo();
    cargo.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", triple]);
    let metadata: Value =
        serde_json::from_str(&command::quietly(&mut cargo)?).context("reading cargo's metadata")?;
    let packages: BTreeMap<&str, &Value> =
        list(&metadata["packages"]).map(|package| (word(&package["id"]), package)).collect();
    let linked = linked(&metadata, &packages);
    let foreign =
        linked.iter().filter_map(|id| packages.get(id)).filter(|package| !package["source"].is_null());
    foreign.map(|package| read(package)).collect()
}

/// The ids of what the roots depend on, as far as it is linked.
fn linked<'m>(metadata: &'m Value, packages: &BTreeMap<&'m str, &'m Value>) -> BTreeSet<&'m str> {
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).map(|node| (word(&node["id"]), node)).collect();
    let is_root = |package: &&&Value| ROOTS.contains(&word(&package["name"])) && package["source"].is_null();
    let mut open: Vec<&str> = packages.values().filter(is_root).map(|package| word(&package["id"])).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        // A procedural macro makes code, and is not in it.
        let is_macro = packages.get(id).is_some_and(|package| {
            list(&package["targets"]).any(|target| list(&target["kind"]).any(|kind| kind == "proc-macro"))
        });
        if is_macro || !found.insert(id) {
            continue;
        }
        let dependencies = nodes.get(id).into_iter().flat_map(|node| list(&node["deps"]));
        let is_linked =
            |dependency: &&Value| list(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
        open.extend(dependencies.filter(is_linked).map(|dependency| word(&dependency["pkg"])));
    }
    found
}

fn read(package: &Value) -> Result<Crate> {
    let name = format!("{} {}", word(&package["name"]), word(&package["version"]));
    let directory =
        Path::new(word(&package["manifest_path"])).parent().context("a crate without a directory")?;
    let mut files: Vec<_> = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let is_licence = |path: &&std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file() && NAMES.iter().any(|beginning| name.starts_with(beginning))
    };
    let texts = files.iter().filter(is_licence).map(|path| {
        let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(String::from_utf8_lossy(&text).replace('\r', ""))
    });
    let texts: Vec<String> = texts.collect::<Result<_>>()?;
    // Whoever has packed no licence says at least who they are.
    let names: Vec<&str> = list(&package["authors"]).map(word).collect();
    let authors =
        if texts.is_empty() { format!(" (no file; by {})", names.join(", ")) } else { String::new() };
    Ok(Crate { name, licence: word(&package["license"]).to_owned(), authors, texts })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
