//! `tidy`: checks what a program can check of the invariants (ARCHITECTURE.md) and the house rules (CONTRIBUTING.md),
//! in every file that git knows or would add.
//!
//! This file reads the files and prints; `rules` has the rules, `source` knows just enough Rust for them. `links`
//! follows the links of documents, `glossary` looks for its types, `dependencies` checks what packages depend on,
//! `object` the XDP program as it was built.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::command;

mod dependencies;
mod glossary;
mod links;
mod object;
mod rules;
mod source;

/// A breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    path: String,
    /// From 1; of a function in the object, the instruction, from 0.
    line: usize,
    rule: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.rule)
    }
}

/// Checks the workspace; prints each finding.
pub fn run() -> Result<()> {
    let paths = paths()?;
    let mut findings = rules::check_paths(&paths);
    let mut texts = BTreeMap::new();
    for path in &paths {
        if let Some(text) = read_text(path)? {
            findings.extend(rules::check_file(path, &text));
            texts.insert(path.as_str(), text);
        }
    }
    findings.extend(links::check(&paths, &texts));
    findings.extend(glossary::check(&texts));
    findings.extend(dependencies::check()?);
    findings.extend(object::check()?);
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} findings", findings.len());
    }
    println!("tidy: {} files, nothing to say", paths.len());
    Ok(())
}

/// The files that git tracks, and new ones that it would.
fn paths() -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(command::workspace());
    let output = git.output().context("starting git")?;
    ensure!(output.status.success(), "git failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let names = String::from_utf8(output.stdout).context("reading the names of files")?;
    Ok(names.split_terminator('\0').map(str::to_owned).collect())
}

/// Reads a file, unless it is none (deleted, or a link to elsewhere) or not text.
fn read_text(path: &str) -> Result<Option<String>> {
    let full = command::workspace().join(path);
    if !fs::symlink_metadata(&full).is_ok_and(|file| file.is_file()) {
        return Ok(None);
    }
    let bytes = fs::read(&full).with_context(|| format!("reading {path}"))?;
    Ok(String::from_utf8(bytes).ok())
}
