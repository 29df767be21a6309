//! The tiers of other kernels: kernel tests in a virtual machine that runs one of Debian's kernels.
//!
//! QEMU emulates the processor, so that no hardware virtualisation is needed, and a test takes five to ten times as
//! long as on the machine itself. So a tier runs a selection of the tests (see [`selection`]).

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use guest::Guest;

use crate::test::tier::TierOutcome;
use crate::{command, kernel};

mod guest;
mod image;
mod libraries;
pub mod packages;
pub mod selection;

/// A kernel of Debian's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kernel {
    /// Debian 12's, built for clouds.
    #[value(name = "6.1")]
    Linux6_1,
    /// Debian 12's, as it is installed by default.
    #[value(name = "6.1-stock")]
    Linux6_1Stock,
    /// Debian 13's, built for clouds; also among Debian 12's packages.
    #[value(name = "6.12")]
    Linux6_12,
    /// Debian 13's, as it is installed by default.
    #[value(name = "6.12-stock")]
    Linux6_12Stock,
}

impl Kernel {
    /// What the summary calls its tier.
    pub const fn tier(self) -> &'static str {
        match self {
            Self::Linux6_1 => "linux 6.1",
            Self::Linux6_1Stock => "linux 6.1-stock",
            Self::Linux6_12 => "linux 6.12",
            Self::Linux6_12Stock => "linux 6.12-stock",
        }
    }

    /// Its version, and whether it is built for clouds.
    const fn parts(self) -> (&'static str, bool) {
        match self {
            Self::Linux6_1 => ("6.1", true),
            Self::Linux6_1Stock => ("6.1", false),
            Self::Linux6_12 => ("6.12", true),
            Self::Linux6_12Stock => ("6.12", false),
        }
    }

    /// Where its files are: below the target directory, nothing is installed.
    fn directory(self) -> Result<PathBuf> {
        let (version, is_cloud) = self.parts();
        let name = if is_cloud { version.to_owned() } else { format!("{version}-stock") };
        Ok(command::target_dir()?.join("kernels").join(name))
    }
}

/// Which tests of the kernel tier run in a guest.
#[derive(Debug, Clone, Copy)]
pub enum Choice<'f> {
    /// Those that are selected for guests, if their names contain the filter.
    Selected(Option<&'f str>),
    /// All whose names contain the filter.
    Any(&'f str),
}

/// The tier of a kernel, which other tiers need not wait for.
pub enum Started {
    /// A guest runs its tests.
    Running(Guest),
    /// There is nothing to wait for.
    Ended(TierOutcome),
}

impl Started {
    /// Waits for its end.
    pub fn outcome(self) -> Result<TierOutcome> {
        match self {
            Self::Running(guest) => guest.wait(),
            Self::Ended(outcome) => Ok(outcome),
        }
    }
}

/// Starts the tier of one kernel, or what somebody asks for of it.
pub fn start(kernel: Kernel, choice: Choice<'_>) -> Result<Started> {
    if let Some(reason) = not_here(kernel)? {
        return Ok(Started::Ended(TierOutcome::not_run(reason)));
    }
    let program = kernel::build()?;
    let names = selection::choose(&program, choice)?;
    if names.is_empty() {
        return Ok(Started::Ended(TierOutcome::LeftOut));
    }
    let files = packages::files(kernel)?.context("the kernel's files are gone")?;
    let initramfs = image::build(&files, &program, &names, &kernel.directory()?)?;
    Guest::start(&files.image, &initramfs, &kernel.directory()?).map(Started::Running)
}

/// Programs that make and run a guest, and Debian's packages of them.
pub const PROGRAMS: [(&str, &str); 7] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("depmod", "kmod"),
    ("modprobe", "kmod"),
    ("ip", "iproute2"),
    ("setpriv", "util-linux"),
];

/// Why the tier can't run on this machine, if it can't.
fn not_here(kernel: Kernel) -> Result<Option<String>> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(Some("needs an x86-64 machine".to_owned()));
    }
    if let Some((name, package)) = PROGRAMS.iter().find(|(name, _)| command::find_program(name).is_none()) {
        return Ok(Some(format!(
            "needs {name} (Debian's package {package}), which set-up could not install"
        )));
    }
    if packages::files(kernel)?.is_none() {
        let directory = kernel.directory()?;
        return Ok(Some(format!(
            "needs Debian's kernel in {}, which set-up could not get",
            directory.display()
        )));
    }
    Ok(None)
}
