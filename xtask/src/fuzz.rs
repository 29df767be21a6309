//! `fuzz`: random frames through the parser, and random requests to the servers, for as long as wanted; needs a nightly
//! compiler, and installs `cargo-fuzz` if it is missing.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::command;

/// Where the seeds come from, besides what earlier runs have found: captures that others made, if they are here.
const CAPTURES: &str = "../shared/captures";

/// What is fuzzed.
struct Target {
    directory: &'static str,
    name: &'static str,
    /// Bytes of an input at most.
    longest: u32,
}

const PACKET: Target = Target { directory: "ratelimit-common/fuzz", name: "packet", longest: 2048 };
const TARGETS: [Target; 3] = [
    PACKET,
    Target { directory: "ratelimit/fuzz", name: "requests", longest: 1024 },
    Target { directory: "ratelimit/fuzz", name: "targets", longest: 256 },
];

/// Runs all targets for so many seconds together.
pub fn run(seconds: u32) -> Result<()> {
    let is_installed = Command::new("cargo").args(["fuzz", "--version"]).output();
    if !is_installed.is_ok_and(|output| output.status.success()) {
        command::run(command::cargo().args(["install", "--locked", "cargo-fuzz"]))?;
    }
    seed_packets()?;
    let each = seconds.div_ceil(u32::try_from(TARGETS.len())?);
    TARGETS.iter().try_for_each(|target| target.run(each))
}

impl Target {
    fn run(&self, seconds: u32) -> Result<()> {
        let Self { directory, name, longest } = self;
        println!("fuzzing {directory}, {name}, for {seconds} s");
        let mut fuzz = Command::new("cargo");
        fuzz.args(["+nightly", "fuzz", "run", "--fuzz-dir", directory, name, "--"]);
        fuzz.args([format!("-max_total_time={seconds}"), format!("-max_len={longest}")]);
        command::run(&mut fuzz)
    }
}

fn seed_packets() -> Result<()> {
    let captures = captures()?;
    if captures.is_empty() {
        println!("no captures at {CAPTURES}: beginning without seeds");
    } else {
        let mut seeds = command::cargo();
        seeds.args(["run", "--quiet", "--package", "ratelimit", "--example", "frames", "--"]);
        let Target { directory, name, .. } = PACKET;
        command::run(seeds.arg(format!("{directory}/corpus/{name}")).args(captures))?;
    }
    Ok(())
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
