//! Gets what virtual machines with other kernels need. What can't be had is said; the tests in them are listed as not
//! run.

use anyhow::Result;

use super::installer::{Installed, Installer};
use crate::command;
use crate::vm::{self, Kernel, packages};

/// Finds or gets the programs, and a kernel, which is not installed.
pub fn ensure(installer: &mut Installer, kernel: Kernel) {
    let tier = kernel.tier();
    if let Err(error) = programs(installer).and_then(|installed| match installed {
        Installed::Yes => files(installer, kernel),
        Installed::ByUser => Ok(()),
    }) {
        installer.doing(&format!("tests on {tier} will not run: {error:#}"));
    }
}

fn programs(installer: &mut Installer) -> Result<Installed> {
    let mut missing = Vec::new();
    for (name, package) in vm::PROGRAMS {
        match command::find_program(name) {
            Some(path) => installer.found(name, &path.display().to_string()),
            None => missing.push(package),
        }
    }
    installer.packages(&missing)
}

fn files(installer: &Installer, kernel: Kernel) -> Result<()> {
    match packages::files(kernel)? {
        Some(files) => installer.found(kernel.tier(), &files.image.display().to_string()),
        None => {
            installer.doing(&format!("getting Debian's kernel for {}", kernel.tier()));
            packages::get(kernel)?;
        }
    }
    Ok(())
}
