//! `fuzz`: random frames through the parser, for as long as wanted; needs `cargo-fuzz` and a nightly compiler.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

use crate::command;

/// Where the seeds come from, besides what earlier runs have found: captures that others made, if they are here.
const CAPTURES: &str = "../shared/captures";

const FUZZ: &str = "ratelimit-common/fuzz";

/// Runs the parser's target for so many seconds.
pub fn run(seconds: u32) -> Result<()> {
    let is_installed = Command::new("cargo").args(["fuzz", "--version"]).output();
    if !is_installed.is_ok_and(|output| output.status.success()) {
        bail!("cargo-fuzz is not installed; do so with: cargo install cargo-fuzz");
    }
    let captures = captures()?;
    if captures.is_empty() {
        println!("no captures at {CAPTURES}: beginning without seeds");
    } else {
        let mut seeds = command::cargo();
        seeds.args(["run", "--quiet", "--package", "ratelimit", "--example", "frames", "--"]);
        command::run(seeds.arg(format!("{FUZZ}/corpus/packet")).args(captures))?;
    }
    let mut fuzz = Command::new("cargo");
    fuzz.args(["+nightly", "fuzz", "run", "--fuzz-dir", FUZZ, "packet", "--"]);
    fuzz.args([format!("-max_total_time={seconds}"), "-max_len=2048".to_owned()]);
    command::run(&mut fuzz)
}

fn captures() -> Result<Vec<String>> {
    if !Path::new(CAPTURES).exists() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(CAPTURES).context("reading the captures' folder")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pcap" || extension == "pcapng") {
            files.push(path.display().to_string());
        }
    }
    Ok(files)
}
