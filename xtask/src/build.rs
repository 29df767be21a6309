//! `build`: the daemon's binary. `ratelimit/dataplane/build.rs` builds the BPF object that it embeds.

use std::path::PathBuf;

use anyhow::Result;

use crate::command;
use crate::setup;

/// Sets up and builds; says where the binary is.
pub fn run(debug: bool) -> Result<()> {
    let binary = binary(debug)?;
    println!("built {}", binary.display());
    Ok(())
}

/// Sets up and builds the release binary, and returns its path.
pub fn release() -> Result<PathBuf> {
    binary(false)
}

fn binary(debug: bool) -> Result<PathBuf> {
    setup::for_build()?;
    let mut cargo = command::cargo();
    cargo.arg("build").args((!debug).then_some("--release")).args(["--package", "ratelimit"]);
    command::run(&mut cargo)?;
    let profile = if debug { "debug" } else { "release" };
    Ok(command::target_dir()?.join(profile).join("ratelimit"))
}
