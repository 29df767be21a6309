//! Tries a compiler and a linker together, by linking a small function into a BPF object, and remembers what worked.
//!
//! The function is compiled for the host, since that needs no build of `core`: whether `bpf-linker` can read what the
//! compiler wrote depends only on the LLVM versions of both.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, Result, ensure};

use crate::command;
use crate::toolchain::{Toolchain, stamp_path};

/// With references, atomics and iterators, so that the compiler's newest attributes are in its output.
const FUNCTION: &str = "\
#![no_std]
use core::sync::atomic::{AtomicU64, Ordering};
static SEEN: AtomicU64 = AtomicU64::new(0);
#[unsafe(no_mangle)]
pub extern \"C\" fn probe(words: &[u32; 8]) -> u32 {
    SEEN.store(1, Ordering::Relaxed);
    words.iter().copied().filter(|word| word % 3 == 1).map(|word| word.rotate_left(5)).sum()
}
";

/// The machine number of BPF in an ELF header.
const EM_BPF: u8 = 247;

/// A compiler's own words about its version.
pub struct Version(String);

impl Version {
    /// Asks the compiler.
    pub fn of(toolchain: &Toolchain) -> Result<Self> {
        let output = toolchain.command("rustc").arg("-vV").output().context("starting rustc")?;
        ensure!(output.status.success(), "`rustc -vV` of {} failed: {}", toolchain.name, output.status);
        Ok(Self(String::from_utf8(output.stdout).context("reading rustc's version")?))
    }

    /// The first line.
    pub fn summary(&self) -> &str {
        self.0.lines().next().unwrap_or_default()
    }

    /// The major version of the compiler's LLVM.
    pub fn llvm(&self) -> Option<u32> {
        let version = self.0.lines().find_map(|line| line.strip_prefix("LLVM version: "))?;
        version.split('.').next()?.parse().ok()
    }
}

/// What came of trying a compiler and a linker together.
pub enum ProbeResult {
    /// They work.
    Works,
    /// They do not; this is what the one that failed says.
    Fails(String),
}

/// Tries the two together, unless they are the pair that worked the last time.
pub fn probe(toolchain: &Toolchain, version: &Version, linker: &Path) -> Result<ProbeResult> {
    let stamp = stamp(toolchain, version, linker)?;
    let path = stamp_path(&command::target_dir()?);
    // The linker loads LLVM when it starts, which may have been removed since.
    let still_starts =
        || Command::new(linker).arg("--version").output().is_ok_and(|output| output.status.success());
    if fs::read_to_string(&path).is_ok_and(|remembered| remembered == stamp) && still_starts() {
        return Ok(ProbeResult::Works);
    }
    let verdict = link(toolchain, linker)?;
    if matches!(verdict, ProbeResult::Works) {
        fs::write(&path, stamp).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(verdict)
}

fn stamp(toolchain: &Toolchain, version: &Version, linker: &Path) -> Result<String> {
    let modified = fs::metadata(linker).and_then(|file| file.modified());
    let modified = modified.with_context(|| format!("reading the time of {}", linker.display()))?;
    let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    Ok(format!("{}\n{}\n{modified}\n{}", toolchain.name, linker.display(), version.0))
}

fn link(toolchain: &Toolchain, linker: &Path) -> Result<ProbeResult> {
    let directory = command::target_dir()?.join("bpf-probe");
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    let [source, bitcode, object] = ["probe.rs", "probe.bc", "probe.o"].map(|name| directory.join(name));
    fs::write(&source, FUNCTION).with_context(|| format!("writing {}", source.display()))?;

    let mut compile = toolchain.command("rustc");
    compile.args([
        "--edition=2024",
        "--crate-type=lib",
        "--emit=llvm-bc",
        "-O",
        "-Cdebuginfo=2",
        "-Cpanic=abort",
    ]);
    compile.arg("-o").args([&bitcode, &source]);
    let mut link = Command::new(linker);
    link.args(["--target=bpfel", "--cpu=v3", "--btf", "--export=probe", "-o"]).args([&object, &bitcode]);
    for program in [&mut compile, &mut link] {
        let output = program.output().with_context(|| format!("starting {}", command::render(program)))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Ok(ProbeResult::Fails(said.lines().next().unwrap_or_default().to_owned()));
        }
    }
    let elf = fs::read(&object).with_context(|| format!("reading {}", object.display()))?;
    let is_bpf = elf.starts_with(b"\x7fELF") && elf.get(18) == Some(&EM_BPF);
    Ok(if is_bpf { ProbeResult::Works } else { ProbeResult::Fails("it made no BPF object".to_owned()) })
}

#[cfg(test)]
mod tests {
    //! Reading what rustc says of itself.

    use super::*;

    #[test]
    fn reads_the_major_version_of_llvm() {
        let version = |text: &str| Version(text.to_owned());
        let nightly = version("rustc 1.97.0-nightly (e50aa6fba 2026-05-19)\nhost: x\nLLVM version: 22.1.4\n");
        assert_eq!(nightly.llvm(), Some(22));
        assert_eq!(nightly.summary(), "rustc 1.97.0-nightly (e50aa6fba 2026-05-19)");
        assert_eq!(version("LLVM version: 23\n").llvm(), Some(23));
        assert_eq!(version("rustc 1.97.0\n").llvm(), None);
    }
}
