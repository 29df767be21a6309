//! Makes Rust of the protocol's files, without a protobuf compiler on the machine, and keeps their descriptors for
//! reflection and for JSON.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use prost::Message as _;

const ROOT: &str = "proto";
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";

/// Writes a module for each package, and `ratelimit-protos.bin`, to `out_dir`.
pub fn compile(package_dir: &Path, out_dir: &Path) -> Result<()> {
    let root = package_dir.join(ROOT);
    println!("cargo::rerun-if-changed={}", root.display());
    let files = protox::compile([SERVICE], [&root]).with_context(|| format!("compiling {SERVICE}"))?;
    fs::write(out_dir.join("ratelimit-protos.bin"), files.encode_to_vec()).context("writing descriptors")?;
    tonic_prost_build::configure()
        .out_dir(out_dir)
        .compile_fds(files)
        .context("generating the protocol's types")
}
