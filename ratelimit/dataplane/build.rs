//! Builds the XDP program (package `ratelimit-ebpf`) and puts its object at `$OUT_DIR/ratelimit-xdp`, where the crate
//! embeds it from.
//!
//! It finds the compiler and the linker but installs neither: `cargo xtask setup` does.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use toolchain::Toolchain;

#[path = "../../xtask/src/toolchain.rs"]
mod toolchain;

const PACKAGE: &str = "ratelimit-ebpf";
const PROGRAM: &str = "ratelimit-xdp";

/// Variables (by prefix) that the outer cargo or its user set for the host's build, and that would break the inner one.
const FOREIGN_VARIABLES: &[&str] = &[
    "CARGO_BUILD_",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_INCREMENTAL",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
    "CARGO_UNSTABLE_",
    "RUSTC_LINKER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTDOC",
    "RUSTFLAGS",
];

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
    let out_dir = PathBuf::from(variable("OUT_DIR")?);
    let package_dir = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let workspace = package_dir.ancestors().nth(2).context("the package is not in a workspace")?;
    let target_dir = target_dir(&out_dir)?;

    let (toolchain, linker) = tools(&target_dir)?;
    rerun_if_changed(workspace, &target_dir, &toolchain, &linker);

    let object = build(workspace, &target_dir.join("ebpf"), &toolchain, &linker)?;
    let embedded = out_dir.join(PROGRAM);
    fs::copy(&object, &embedded)
        .with_context(|| format!("copying {} to {}", object.display(), embedded.display()))?;
    Ok(())
}

/// The outer cargo's target directory: `OUT_DIR` is `TARGET_DIR/[TRIPLE/]PROFILE/build/PACKAGE-HASH/out`.
fn target_dir(out_dir: &Path) -> Result<PathBuf> {
    let dir = out_dir.ancestors().nth(4).context("OUT_DIR is too short a path")?;
    let has_triple = dir.file_name() == Some(&variable("TARGET")?);
    let dir = if has_triple { dir.parent().unwrap_or(dir) } else { dir };
    Ok(dir.to_owned())
}

/// The compiler and the linker that `cargo xtask setup` has tried, else the preferred ones.
fn tools(target_dir: &Path) -> Result<(Toolchain, PathBuf)> {
    let stamp = fs::read_to_string(toolchain::stamp_path(target_dir)).unwrap_or_default();
    let mut tried = stamp.lines();
    let name = tried.next().unwrap_or_default();
    let path = Path::new(tried.next().unwrap_or_default());

    let toolchains = Toolchain::all();
    let toolchain = toolchains.iter().find(|toolchain| toolchain.name == name).or(toolchains.first());
    let Some(toolchain) = toolchain else {
        bail!("no compiler for the BPF object (a Rust nightly with rust-src): run `cargo xtask setup`");
    };
    let linkers = toolchain::linkers();
    let Some(linker) = linkers.iter().find(|linker| *linker == path).or(linkers.first()) else {
        bail!("bpf-linker is missing: run `cargo xtask setup`");
    };
    Ok((toolchain.clone(), linker.clone()))
}

fn rerun_if_changed(workspace: &Path, target_dir: &Path, toolchain: &Toolchain, linker: &Path) {
    for source in ["Cargo.lock", "Cargo.toml", PACKAGE, "ratelimit-common/Cargo.toml", "ratelimit-common/src"]
    {
        println!("cargo::rerun-if-changed={}", workspace.join(source).display());
    }
    for tool in [&toolchain.bin.join("rustc"), linker] {
        println!("cargo::rerun-if-changed={}", tool.display());
    }
    // Cargo takes a missing file for a changed one.
    let stamp = toolchain::stamp_path(target_dir);
    if stamp.exists() {
        println!("cargo::rerun-if-changed={}", stamp.display());
    }
}

/// Runs the inner cargo; returns the path of the object.
///
/// Its target directory is its own, since the outer cargo holds the lock on that of the profile; and one for all of the
/// outer cargo's profiles, so that `core` is built once.
fn build(workspace: &Path, target_dir: &Path, toolchain: &Toolchain, linker: &Path) -> Result<PathBuf> {
    let target = bpf_target()?;
    let mut cargo = toolchain.command("cargo");
    remove_foreign_variables(&mut cargo);
    cargo
        .current_dir(workspace)
        .args(["build", "--quiet", "--locked", "--release", "-Zbuild-std=core"])
        .args(["--package", PACKAGE, "--bin", PROGRAM, "--target", target])
        .arg("--target-dir")
        .arg(target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags(workspace, toolchain)?)
        // The linker optimizes all crates as one.
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env(format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_")), linker);

    let output = cargo.output().with_context(|| format!("running {cargo:?}"))?;
    if !output.status.success() {
        io::stderr().write_all(&output.stderr).context("writing the compiler's messages")?;
        bail!("{PACKAGE} does not build with {} ({})", toolchain.name, toolchain.bin.display());
    }
    // A quiet build prints warnings only; cargo shows a build script's output only in this form.
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        println!("cargo::warning={line}");
    }
    Ok(target_dir.join(target).join("release").join(PROGRAM))
}

fn bpf_target() -> Result<&'static str> {
    let big_endian = variable("CARGO_CFG_TARGET_ENDIAN")? == "big";
    Ok(if big_endian { "bpfeb-unknown-none" } else { "bpfel-unknown-none" })
}

fn remove_foreign_variables(cargo: &mut Command) {
    for (name, _) in env::vars_os() {
        if FOREIGN_VARIABLES.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            cargo.env_remove(name);
        }
    }
}

/// `target-cpu=v3`: an atomic operation's result can be used only from there on (kernel 5.12). `--btf` and debug
/// information: the kernel and `bpftool` show types and source lines.
///
/// `--disable-expand-memcpy-in-order`: the linker asks LLVM to keep the loads and stores of a copy in pairs, unless it
/// is told not to. LLVM then expands no `memset` at all, so that memory is zeroed by calls of a loop over single bytes.
///
/// The names of source files are the same wherever they lie, so that the object depends on what they say alone.
fn rustflags(workspace: &Path, toolchain: &Toolchain) -> Result<OsString> {
    let cargo_home = variable("CARGO_HOME").map(PathBuf::from).ok();
    let cargo_home = cargo_home.or_else(|| Some(env::home_dir()?.join(".cargo"))).unwrap_or_default();
    let sysroot = toolchain.bin.parent().unwrap_or(&toolchain.bin);
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let architecture = variable("CARGO_CFG_TARGET_ARCH")?;
    let architecture = architecture.to_string_lossy();
    let flags = [
        &format!("--cfg=bpf_target_arch=\"{architecture}\""),
        "-Cdebuginfo=2",
        "-Clink-arg=--btf",
        &remap(&cargo_home, "/usr/src/cargo"),
        &remap(sysroot, "/usr/src/rust"),
        &remap(workspace, "."),
        "-Clink-arg=--disable-expand-memcpy-in-order",
        "-Ctarget-cpu=v3",
    ];
    Ok(flags.join("\x1f").into())
}

fn variable(name: &str) -> Result<OsString> {
    env::var_os(name).with_context(|| format!("cargo did not set {name}"))
}
