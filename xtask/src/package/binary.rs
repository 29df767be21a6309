//! The binaries of packages: for which machines, and how they are built so that they depend on the sources alone.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::{build, command};

/// A machine.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What Debian calls it.
    pub architecture: &'static str,
    /// What Rust calls it.
    pub triple: &'static str,
    /// The C compiler for the C code of crates.
    cc: &'static str,
    /// What links it.
    linker: &'static str,
    /// Debian's package of the compiler.
    package: &'static str,
}

pub const AMD64: Target = Target {
    architecture: "amd64",
    triple: "x86_64-unknown-linux-gnu",
    cc: "x86_64-linux-gnu-gcc",
    linker: "x86_64-linux-gnu-gcc",
    package: "gcc",
};
pub const ARM64: Target = Target {
    architecture: "arm64",
    triple: "aarch64-unknown-linux-gnu",
    cc: "aarch64-linux-gnu-gcc",
    linker: "aarch64-linux-gnu-gcc",
    package: "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
};
pub const STATIC: Target = Target {
    architecture: "static",
    triple: "x86_64-unknown-linux-musl",
    cc: "musl-gcc",
    // Rust brings musl itself; what `musl-gcc` links asks for its loader, and crashes.
    linker: "x86_64-linux-gnu-gcc",
    package: "musl-tools",
};

/// Where the sources and the crates are, as far as the binary knows.
const SOURCES: &str = "/usr/src/ratelimit";
const CRATES: &str = "/usr/src/cargo";

impl Target {
    /// Whether this machine runs what is built for it.
    pub fn runs_here(self) -> bool {
        self.triple.starts_with(env::consts::ARCH)
    }

    /// What has to be installed before it can be built for, if anything.
    pub fn missing(self) -> Option<String> {
        let Self { triple, cc, package, .. } = self;
        let mut rustc = Command::new("rustc");
        let libraries = rustc.args(["--print", "target-libdir", "--target", triple]);
        let libraries = command::quietly(libraries).unwrap_or_default();
        if !Path::new(libraries.trim()).is_dir() {
            return Some(format!("no Rust for {triple}: `rustup target add {triple}`"));
        }
        let is_missing = command::find_program(cc).is_none();
        is_missing.then(|| format!("no {cc}: `apt-get install {package}`"))
    }
}

/// The debug binary for this machine, without its debug information.
pub fn debug() -> Result<PathBuf> {
    build::run(build::Profile::Dev)?;
    let binary = command::target_dir()?.join("debug/ratelimit");
    let stripped = super::directory()?.join("ratelimit-debug");
    command::run(Command::new("strip").arg("-o").arg(&stripped).arg(binary))?;
    Ok(stripped)
}

/// The binary for use.
pub fn dist(target: Target) -> Result<PathBuf> {
    let Target { triple, cc, linker, .. } = target;
    let variable = triple.to_uppercase().replace('-', "_");
    let mut cargo = command::cargo();
    cargo.args(["build", "--locked", "--profile", "dist", "--package", "ratelimit", "--target", triple]);
    cargo
        .env(format!("CARGO_TARGET_{variable}_LINKER"), linker)
        .env(format!("CARGO_TARGET_{variable}_RUSTFLAGS"), flags()?);
    cargo.env(format!("CC_{}", triple.replace('-', "_")), cc);
    // A variable of the user's would come before these.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command::run(&mut cargo)?;
    Ok(command::target_dir()?.join(triple).join("dist/ratelimit"))
}

/// Paths of this machine are not in messages of panics.
fn flags() -> Result<String> {
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(env::home_dir()?.join(".cargo"))).unwrap_or_default();
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let target = remap(&command::target_dir()?, &format!("{SOURCES}/target"));
    Ok([remap(&cargo_home, CRATES), remap(command::workspace(), SOURCES), target].join(" "))
}
