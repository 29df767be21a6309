//! What older kernels would refuse in the XDP program's object, found without a virtual machine: `code` reads the
//! functions, `back_edges` and `stack` check them.
//!
//! The verifier of the kernel that runs the tests is newer and takes all of it.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};

use super::Finding;
use crate::{command, setup};

mod back_edges;
mod code;
mod stack;

use code::ObjectProgram;

/// Builds the object as the daemon embeds it, if it is not built yet, and checks it.
pub fn check() -> Result<Vec<Finding>> {
    let path = built()?;
    let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let program = ObjectProgram::read(&bytes).with_context(|| format!("reading {}", path.display()))?;
    findings(&program)
}

fn findings(program: &ObjectProgram) -> Result<Vec<Finding>> {
    let mut findings: Vec<Finding> = program.functions.iter().flat_map(back_edges::check).collect();
    let deepest = stack::deepest(program)?;
    println!("tidy: the XDP program's largest stack: {deepest}");
    findings.extend(deepest.finding());
    Ok(findings)
}

/// A breach at an instruction of a function, counted from 0.
fn finding(function: &str, instruction: usize, rule: String) -> Finding {
    Finding { path: format!("ratelimit-xdp/{function}"), line: instruction, rule }
}

/// Where the package's build script has put it, which only cargo knows. Checking runs the script, and leaves what
/// clippy needs as well.
fn built() -> Result<PathBuf> {
    setup::for_build()?;
    let mut cargo = command::cargo();
    // Beside a test, packages have the features that they have in clippy and in all other tiers.
    cargo.args(["check", "--quiet", "--lib", "--test", "generated"]);
    cargo.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let output = cargo.output().context("starting cargo")?;
    ensure!(output.status.success(), "the XDP program does not build: {}", command::render(&cargo));
    let messages = String::from_utf8_lossy(&output.stdout);
    let directory = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "build-script-executed")
        .filter_map(|message| message["out_dir"].as_str().map(PathBuf::from))
        .find(|directory| directory.join("ratelimit-xdp").is_file());
    Ok(directory.context("cargo names no directory with an XDP program")?.join("ratelimit-xdp"))
}
