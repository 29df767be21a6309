//! The embedding tier: a program of a workspace of its own (`ratelimit/limiter/example`) that embeds the limiter is
//! built from nothing, as its users build it, and run. It says itself whether the limits did what they say.

use std::{fs, io::ErrorKind};

use anyhow::{Context as _, Result};

use crate::command;
use crate::test::tier::{TierOutcome, run_command};

const EXAMPLE: &str = "ratelimit/limiter/example";

/// Builds and runs it.
pub fn run() -> Result<TierOutcome> {
    let example = command::workspace().join(EXAMPLE);
    // The versions that everything else is tested with.
    fs::copy(command::workspace().join("Cargo.lock"), example.join("Cargo.lock"))
        .context("copying Cargo.lock")?;
    let target = command::target_dir()?.join("embedding");
    match fs::remove_dir_all(&target) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing {}", target.display()));
        }
        _ => {}
    }
    let mut cargo = command::cargo();
    cargo.env("CARGO_TARGET_DIR", &target).env_remove("RUSTC_BOOTSTRAP");
    run_command(cargo.args(["run", "--quiet", "--manifest-path"]).arg(example.join("Cargo.toml")))
}
