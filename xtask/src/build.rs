//! `build`: the daemon's binary. `ratelimit/dataplane/build.rs` builds the BPF object that it embeds.

use std::path::PathBuf;

use anyhow::Result;

use crate::command;
use crate::setup;

/// How it is built.
#[derive(Clone, Copy)]
pub enum Profile {
    /// Without optimization.
    Dev,
    /// For use.
    Release,
    /// For packages.
    Dist,
}

impl Profile {
    /// What cargo calls it, and the directory that cargo puts the binary in.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Dev => ("dev", "debug"),
            Self::Release => ("release", "release"),
            Self::Dist => ("dist", "dist"),
        }
    }
}

/// Sets up and builds; says where the binary is.
pub fn run(profile: Profile) -> Result<()> {
    let binary = binary(profile)?;
    println!("built {}", binary.display());
    Ok(())
}

/// Sets up and builds the release binary, and returns its path.
pub fn release() -> Result<PathBuf> {
    binary(Profile::Release)
}

fn binary(profile: Profile) -> Result<PathBuf> {
    setup::for_build()?;
    let (name, directory) = profile.names();
    command::run(command::cargo().args(["build", "--profile", name, "--package", "ratelimit"]))?;
    Ok(command::target_dir()?.join(directory).join("ratelimit"))
}
