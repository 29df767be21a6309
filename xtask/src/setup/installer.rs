//! Installs Debian packages and runs other installation commands; where root or apt is missing it collects the commands
//! for the user instead.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::command;

/// One run of the set-up.
pub struct Installer {
    chatty: bool,
    package_lists_are_new: bool,
    for_the_user: Vec<String>,
}

/// Whether something is installed now.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installed {
    /// It is.
    Yes,
    /// It is not: the user has to run the commands that were noted.
    ByUser,
}

impl Installer {
    /// A chatty one also says what it found, not only what it does.
    pub fn new(chatty: bool) -> Self {
        Self { chatty, package_lists_are_new: false, for_the_user: Vec::new() }
    }

    /// Says that an item is there.
    pub fn found(&self, item: &str, what: &str) {
        if self.chatty {
            println!("setup: {item}: {what}");
        }
    }

    /// Says what is about to be done.
    pub fn doing(&self, what: &str) {
        println!("setup: {what}");
    }

    /// Installs those of the packages that are missing.
    pub fn packages(&mut self, names: &[&str]) -> Result<Installed> {
        let missing: Vec<&str> = names.iter().copied().filter(|name| !is_installed(name)).collect();
        if missing.is_empty() {
            return Ok(Installed::Yes);
        }
        let missing = missing.join(" ");
        if !command::is_root() || command::find_program("apt-get").is_none() {
            self.note_for_the_user("sudo apt-get update");
            self.note_for_the_user(&format!("sudo apt-get install --no-install-recommends {missing}"));
            return Ok(Installed::ByUser);
        }
        self.doing(&format!("installing {missing}"));
        if !self.package_lists_are_new {
            apt_get(&["update"])?;
            self.package_lists_are_new = true;
        }
        let install = ["install", "--yes", "--no-install-recommends"];
        apt_get(&[&install[..], &missing.split(' ').collect::<Vec<_>>()].concat())?;
        Ok(Installed::Yes)
    }

    /// Notes a command that only the user can run.
    pub fn note_for_the_user(&mut self, line: &str) {
        if !self.for_the_user.iter().any(|noted| noted == line) {
            self.for_the_user.push(line.to_owned());
        }
    }

    /// Fails with the commands that the user has to run, if there are any.
    pub fn finish(self) -> Result<()> {
        if self.for_the_user.is_empty() {
            return Ok(());
        }
        println!("setup: the rest needs root and apt-get (the names are Debian's). Run this:\n");
        for line in &self.for_the_user {
            println!("    {line}");
        }
        println!();
        bail!("set-up is not complete: run the commands above, then `cargo xtask setup` again");
    }
}

/// Asks no question, and shows what apt-get prints only if it fails.
fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut apt_get = Command::new("apt-get");
    apt_get.env("DEBIAN_FRONTEND", "noninteractive").args(arguments).stdin(Stdio::null());
    command::announce(&apt_get);
    let output = apt_get.output().context("starting apt-get")?;
    if !output.status.success() {
        let printed = [output.stdout, output.stderr].concat();
        println!("{}", String::from_utf8_lossy(&printed).trim_end());
        bail!("{} failed: {}", command::render(&apt_get), output.status);
    }
    Ok(())
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]).stderr(Stdio::null());
    query.output().is_ok_and(|output| output.stdout == b"installed")
}
