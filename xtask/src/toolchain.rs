//! Finds what compiles and links the BPF object: a Rust compiler that may use unstable features and has the sources of
//! `core`, and `bpf-linker`. It installs nothing, and tries nothing out.
//!
//! `ratelimit/dataplane/build.rs` includes this file too, so that the build uses exactly what `cargo xtask setup` has
//! tried.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Rust compiler that can build `core` for a BPF target.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// What people and the stamp file call it.
    pub name: &'static str,
    /// The directory of its `cargo` and `rustc`.
    pub bin: PathBuf,
    /// Whether it is a stable release, which takes unstable flags only when told to.
    bootstrap: bool,
}

impl Toolchain {
    /// All usable compilers of this machine, the preferred one first.
    pub fn all() -> Vec<Self> {
        [Self::nightly(), Self::system()].into_iter().flatten().filter(Self::has_core_sources).collect()
    }

    /// Prepares to run one of its programs, with unstable features enabled.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.env("RUSTC", self.bin.join("rustc")).env_remove("RUSTC_BOOTSTRAP");
        if self.bootstrap {
            command.env("RUSTC_BOOTSTRAP", "1");
        }
        command
    }

    /// rustup's nightly.
    fn nightly() -> Option<Self> {
        let output = Command::new("rustup")
            .args(["which", "--toolchain", "nightly", "rustc"])
            .env("RUSTUP_AUTO_INSTALL", "0")
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let rustc = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        Some(Self { name: "rustup nightly", bin: rustc.parent()?.to_owned(), bootstrap: false })
    }

    /// The distribution's packages (Debian: `cargo-web` and `rust-web-src`).
    fn system() -> Option<Self> {
        let bin = PathBuf::from("/usr/bin");
        let is_here = bin.join("cargo").is_file() && bin.join("rustc").is_file();
        is_here.then_some(Self { name: "system", bin, bootstrap: true })
    }

    fn has_core_sources(&self) -> bool {
        let library = Path::new("lib/rustlib/src/rust/library");
        self.bin.parent().is_some_and(|sysroot| sysroot.join(library).join("Cargo.lock").is_file())
    }
}

/// Every `bpf-linker` on the path, then the one that `cargo install` put where the path may not lead (as under sudo).
pub fn linkers() -> Vec<PathBuf> {
    let cargo_home =
        env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = Vec::new();
    for directory in env::split_paths(&path).chain(cargo_home.map(|home| home.join("bin"))) {
        let linker = directory.join("bpf-linker");
        if linker.is_file() && !found.contains(&linker) {
            found.push(linker);
        }
    }
    found
}

/// Where `cargo xtask setup` notes the pair that it has tried: the compiler's name in the first line, the linker's path
/// in the second, then what identifies their versions.
pub fn stamp_path(target_dir: &Path) -> PathBuf {
    target_dir.join("bpf-toolchain")
}
