//! The compiler and the linker of the BPF object, which must agree on their LLVM version.
//!
//! Any pair that works is taken as it is. Else a compiler is installed if there is none, and a linker for its LLVM; if
//! no linker can be had for it (a nightly newer than every packaged LLVM), the distribution's compiler is.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use super::installer::{Installed, Installer};
use super::probe::{self, ProbeResult, Version};
use crate::command;
use crate::toolchain::{Toolchain, linkers};

/// The last version that was tried; it supports LLVM 21 to 23.
const LINKER_VERSION: &str = "0.13.0";

/// Debian's newest compiler and its sources.
const SYSTEM_COMPILER: &[&str] = &["cargo-web", "rust-web-src"];

/// Finds a pair that works, or installs what is missing of one.
pub fn ensure(installer: &mut Installer) -> Result<()> {
    if Toolchain::all().is_empty() && install_compiler(installer)? == Installed::ByUser {
        return Ok(());
    }
    if working_pair(installer)? {
        return Ok(());
    }
    for toolchain in Toolchain::all() {
        match install_linker(installer, &toolchain) {
            Ok(Installed::ByUser) => return Ok(()),
            Ok(Installed::Yes) if working_pair(installer)? => return Ok(()),
            Ok(Installed::Yes) => {}
            Err(error) => failed(installer, "bpf-linker", format!("{error:#}")),
        }
    }
    install_system_pair(installer)
}

/// Looks for a compiler and a linker that work together.
fn working_pair(installer: &Installer) -> Result<bool> {
    for toolchain in Toolchain::all() {
        let version = Version::of(&toolchain)?;
        for linker in linkers() {
            match probe::probe(&toolchain, &version, &linker)? {
                ProbeResult::Works => {
                    let compiler = format!("{}, {}", toolchain.name, version.summary());
                    installer.found("compiler of the BPF object", &compiler);
                    installer.found("linker of the BPF object", &linker.display().to_string());
                    return Ok(true);
                }
                ProbeResult::Fails(why) => {
                    let pair = format!("{} with {}", linker.display(), toolchain.name);
                    installer.doing(&format!("{pair} does not work: {why}"));
                }
            }
        }
    }
    Ok(false)
}

/// Tries rustup first: it needs no root.
fn install_compiler(installer: &mut Installer) -> Result<Installed> {
    if command::find_program("rustup").is_some() {
        let mut rustup = Command::new("rustup");
        if has_nightly() {
            installer.doing("adding the sources of `core` to rustup's nightly");
            rustup.args(["component", "add", "rust-src", "--toolchain", "nightly"]);
        } else {
            installer.doing("installing rustup's nightly with the sources of `core`");
            rustup.args(["toolchain", "install", "nightly"]);
            rustup.args(["--profile", "minimal", "--component", "rust-src"]);
        }
        match command::run(&mut rustup) {
            Ok(()) if !Toolchain::all().is_empty() => return Ok(Installed::Yes),
            Ok(()) => failed(installer, "rustup's nightly", "the sources are not where they should be"),
            Err(error) => failed(installer, "rustup's nightly", error),
        }
    }
    installer.packages(SYSTEM_COMPILER)
}

fn has_nightly() -> bool {
    let mut list = Command::new("rustup");
    list.args(["run", "nightly", "true"]).env("RUSTUP_AUTO_INSTALL", "0");
    list.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Builds the linker with the LLVM of this compiler's major version.
fn install_linker(installer: &mut Installer, toolchain: &Toolchain) -> Result<Installed> {
    let llvm = Version::of(toolchain)?.llvm().context("rustc does not say which LLVM it has")?;
    let feature = format!("llvm-{llvm}");
    let mut install = command::cargo();
    install.args(["install", "--quiet", "bpf-linker", "--version", LINKER_VERSION, "--locked", "--force"]);
    install.args(["--no-default-features", "--features", &feature]);

    if llvm_prefix(llvm).is_none() || command::find_program("apt-get").is_some() {
        let development_files = format!("llvm-{llvm}-dev");
        if installer.packages(&[&development_files])? == Installed::ByUser {
            let line = format!("LLVM_PREFIX=$(llvm-config-{llvm} --prefix) {}", command::render(&install));
            installer.note_for_the_user(&line);
            return Ok(Installed::ByUser);
        }
    }
    let prefix = llvm_prefix(llvm).with_context(|| format!("there is no llvm-config-{llvm}"))?;
    installer.doing(&format!(
        "building bpf-linker with LLVM {llvm}, for {} (takes a few minutes)",
        toolchain.name
    ));
    command::run(install.env("LLVM_PREFIX", prefix))?;
    Ok(Installed::Yes)
}

/// Where the LLVM of this major version is installed.
fn llvm_prefix(major: u32) -> Option<PathBuf> {
    [format!("llvm-config-{major}"), "llvm-config".to_owned()].iter().find_map(|program| {
        let output = Command::new(program).args(["--version", "--prefix"]).output().ok()?;
        let output = String::from_utf8(output.stdout).ok()?;
        let (version, prefix) = output.split_once('\n')?;
        version.starts_with(&format!("{major}.")).then(|| PathBuf::from(prefix.trim()))
    })
}

fn install_system_pair(installer: &mut Installer) -> Result<()> {
    let is_system = |toolchain: &Toolchain| toolchain.name == "system";
    if Toolchain::all().iter().any(is_system) {
        bail!("no bpf-linker works with any compiler here: build one with the LLVM that `rustc -vV` names");
    }
    if installer.packages(SYSTEM_COMPILER)? == Installed::ByUser || working_pair(installer)? {
        return Ok(());
    }
    let toolchain = Toolchain::all().into_iter().find(is_system);
    let toolchain = toolchain.context("the distribution's compiler has no sources of `core`")?;
    if install_linker(installer, &toolchain)? == Installed::Yes {
        ensure!(
            working_pair(installer)?,
            "bpf-linker was built, but does not link what {} made",
            toolchain.name
        );
    }
    Ok(())
}

fn failed(installer: &Installer, what: &str, why: impl Display) {
    installer.doing(&format!("{what}: failed ({why}); trying something else"));
}
