//! Makes Rust of the protocol's files, without a protobuf compiler on the machine, and keeps their descriptors for
//! reflection and for JSON.

use std::{env, fs, path::Path, process::ExitCode};

use anyhow::{Context as _, Result};
use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};

const ROOT: &str = "proto";
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";

/// What a request is made of; in `wire` its strings are bytes.
const OF_REQUESTS: [&str; 2] = ["RateLimitRequest", "RateLimitDescriptor"];
/// The units of time, which have no strings, and where they are.
const UNITS: (&str, &str) = (".envoy.type.v3", "crate::proto::wire::units");

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let variable = |name| env::var_os(name).with_context(|| format!("cargo did not set {name}"));
    compile(Path::new(&variable("CARGO_MANIFEST_DIR")?), Path::new(&variable("OUT_DIR")?))
}

/// Writes a module for each package, and `ratelimit-protos.bin`, to `out_dir`; and the same of requests whose strings
/// need not be text to `out_dir/wire`.
fn compile(package_dir: &Path, out_dir: &Path) -> Result<()> {
    let root = package_dir.join(ROOT);
    println!("cargo::rerun-if-changed={}", root.display());
    let files = protox::compile([SERVICE], [&root]).with_context(|| format!("compiling {SERVICE}"))?;
    fs::write(out_dir.join("ratelimit-protos.bin"), files.encode_to_vec()).context("writing descriptors")?;
    let wire = out_dir.join("wire");
    fs::create_dir_all(&wire).context("making a directory")?;
    tonic_prost_build::configure()
        .out_dir(wire)
        .extern_path(UNITS.0, UNITS.1)
        .compile_fds(with_bytes(files.clone()))
        .context("generating what comes over the wire")?;
    tonic_prost_build::configure()
        .out_dir(out_dir)
        .build_server(false)
        .compile_fds(files)
        .context("generating the protocol's types")
}

/// The messages of requests alone, with bytes where they have strings. On the wire both are the same.
fn with_bytes(mut files: FileDescriptorSet) -> FileDescriptorSet {
    for file in &mut files.file {
        file.service.clear();
        if file.package().starts_with("envoy.") {
            file.message_type.retain(|message| OF_REQUESTS.contains(&message.name()));
        }
        file.message_type.iter_mut().for_each(make_bytes);
    }
    files
}

fn make_bytes(message: &mut DescriptorProto) {
    for field in message.field.iter_mut().filter(|field| field.r#type() == Type::String) {
        field.set_type(Type::Bytes);
    }
    message.nested_type.iter_mut().for_each(make_bytes);
}
