//! `package`: Debian packages, and a tarball with a binary that needs no library.
//!
//! `dpkg-deb` makes the package of a tree that is put together here. It is Debian's own, and always there; tools around
//! it (`debhelper`, `cargo-deb`) would have to be installed and configured for no more than this tree. What is packaged
//! depends on the sources alone: times are that of the commit (`SOURCE_DATE_EPOCH`), and no path of the machine is in
//! it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};

use crate::test::tier::TierOutcome;
use crate::{command, packages, setup};

mod binary;
mod deb;
mod documents;
mod files;
mod licences;
mod tree;

use binary::Target;
use documents::DOCUMENTS;
use tree::Tree;

/// What is packaged.
#[derive(Args)]
pub struct Arguments {
    /// Only these; else all that can be had on this machine.
    #[arg(long, value_enum)]
    only: Vec<Form>,
    /// Packages target/debug/ratelimit, to try the packaging itself.
    #[arg(long, conflicts_with = "only")]
    debug: bool,
    /// Tests the Debian package for this machine, too, as `cargo xtask test --packages` tests that of the debug binary.
    #[arg(long)]
    test: bool,
}

/// A package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For Debian on x86-64.
    Amd64,
    /// For Debian on ARM.
    Arm64,
    /// A tarball for any Linux on x86-64.
    Static,
}

impl Form {
    /// The Debian package for the machine that this program runs on.
    fn of_this_machine() -> Result<Self> {
        let runs = |form: &Self| form.target().runs_here();
        [Self::Amd64, Self::Arm64]
            .into_iter()
            .find(runs)
            .context("packages are made on x86-64 and ARM machines")
    }

    const fn target(self) -> Target {
        match self {
            Self::Amd64 => binary::AMD64,
            Self::Arm64 => binary::ARM64,
            Self::Static => binary::STATIC,
        }
    }
}

/// Builds them, and says where they are and what could not be had.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::for_build()?;
    let make = if arguments.debug { debug } else { of_this_machine };
    if arguments.debug {
        println!("packaged {}", debug("")?.display());
    } else {
        forms(&arguments.only)?;
    }
    match arguments.test.then(|| packages::check(make)).transpose()? {
        Some(TierOutcome::NotRun(reason, _)) => bail!("not tested: {reason}"),
        _ => Ok(()),
    }
}

/// Packages those that are named, or what can be had.
fn forms(only: &[Form]) -> Result<()> {
    let all = [Form::Amd64, Form::Arm64, Form::Static];
    let forms = if only.is_empty() { &all[..] } else { only };
    for form in forms {
        match form.target().missing() {
            None => println!("packaged {}", package(*form, "")?.display()),
            Some(missing) if only.is_empty() => println!("not packaged for {form:?}: {missing}"),
            Some(missing) => bail!("{missing}"),
        }
    }
    Ok(())
}

/// Packages the debug binary for this machine, as a version that `suffix` makes a later one.
pub fn debug(suffix: &str) -> Result<PathBuf> {
    let target = Form::of_this_machine()?.target();
    let tree = tree("debug", &binary::debug()?, target)?;
    deb::build(&tree, target, suffix)
}

/// The Debian package for this machine, as a version that `suffix` makes a later one.
fn of_this_machine(suffix: &str) -> Result<PathBuf> {
    package(Form::of_this_machine()?, suffix)
}

fn package(form: Form, suffix: &str) -> Result<PathBuf> {
    let target = form.target();
    let binary = binary::dist(target)?;
    let tree = tree(target.architecture, &binary, target)?;
    match form {
        Form::Amd64 | Form::Arm64 => deb::build(&tree, target, suffix),
        Form::Static => tarball(&tree),
    }
}

/// All files but those that only Debian has.
fn tree(name: &str, binary: &Path, target: Target) -> Result<Tree> {
    let tree = Tree::new(&directory()?.join(name))?;
    tree.copy("usr/bin/ratelimit", binary, 0o755)?;
    // It writes its manual and completions itself where it can run.
    let writer = if target.runs_here() { binary.to_owned() } else { binary::debug()? };
    files::add(&tree, &writer)?;
    tree.write_gz(&format!("{DOCUMENTS}/third-party-licences.gz"), &licences::text(target.triple)?)?;
    Ok(tree)
}

/// Where packages are put together, and end up.
fn directory() -> Result<PathBuf> {
    let directory = command::target_dir()?.join("package");
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    Ok(directory)
}

fn tarball(tree: &Tree) -> Result<PathBuf> {
    let name = format!("ratelimit-{}-x86_64-static", version());
    let path = directory()?.join(format!("{name}.tar.xz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--xz", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", source_date()?)).arg(format!("--transform=s,^[.],{name},"));
    tar.arg("--file").arg(&path).arg("--directory").arg(tree.root()).arg(".");
    command::run(tar.env("XZ_OPT", "-6 --threads=1"))?;
    Ok(path)
}

/// The version of all packages of the workspace.
const fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The time that all files have: that of the commit, unless somebody says otherwise.
fn source_date() -> Result<String> {
    if let Ok(given) = env::var("SOURCE_DATE_EPOCH") {
        return Ok(given);
    }
    let mut git = Command::new("git");
    let said = command::quietly(git.current_dir(command::workspace()).args(["log", "-1", "--format=%ct"]))?;
    Ok(said.trim().to_owned())
}
