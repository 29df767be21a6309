//! Debian's kernels: which package has one, and getting it. A package is downloaded and unpacked below the target
//! directory, and never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::Kernel;
use crate::command;

/// What is used of an unpacked package.
pub struct Files {
    /// What the machine boots.
    pub image: PathBuf,
    /// The directory that has `lib/modules/RELEASE`.
    pub root: PathBuf,
    /// The kernel's release, as in `uname -r`.
    pub release: String,
}

/// The files of a kernel, if they are there.
pub fn files(kernel: Kernel) -> Result<Option<Files>> {
    let root = kernel.directory()?.join("package");
    let Ok(entries) = fs::read_dir(root.join("boot")) else { return Ok(None) };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let release = names.filter_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned)).next();
    Ok(release.map(|release| Files {
        image: root.join("boot").join(format!("vmlinuz-{release}")),
        root,
        release,
    }))
}

/// Downloads and unpacks a kernel. The names of packages change with each security update, so apt is asked.
pub fn get(kernel: Kernel) -> Result<()> {
    if command::is_root() {
        command::quietly(Command::new("apt-get").arg("update"))?;
    }
    let (version, is_cloud) = kernel.parts();
    let pattern = format!("^linux-image-{}[.]", version.replace('.', "[.]"));
    let found = command::quietly(Command::new("apt-cache").args(["search", "--names-only", &pattern]))?;
    let package = newest(&found, version, is_cloud)
        .with_context(|| format!("apt knows no package of Linux {version} for amd64"))?;
    let directory = kernel.directory()?;
    let unfinished = directory.join("unfinished");
    fs::create_dir_all(&unfinished).with_context(|| format!("making {}", unfinished.display()))?;
    command::quietly(Command::new("apt-get").args(["download", package]).current_dir(&directory))?;
    let archive = downloaded(&directory, package)?;
    command::quietly(Command::new("dpkg-deb").arg("--extract").args([&archive, &unfinished]))?;
    fs::remove_file(&archive).with_context(|| format!("removing {}", archive.display()))?;
    // Only now, so that nobody takes half a package for a whole one.
    fs::rename(&unfinished, directory.join("package")).context("putting the package into its place")
}

/// The newest package of a version, among the lines of `apt-cache search`.
fn newest<'s>(found: &'s str, version: &str, is_cloud: bool) -> Option<&'s str> {
    let names = found.lines().filter_map(|line| line.split(' ').next());
    let end = if is_cloud { "-cloud-amd64" } else { "-amd64" };
    let of_kind = names.filter(|name| {
        let release = name.strip_prefix("linux-image-").and_then(|name| name.strip_prefix(version));
        // A word in the middle is another kind: "-cloud", "-rt".
        let has_words = |middle: &str| middle.split('-').any(|part| part.starts_with(char::is_alphabetic));
        let middle = release.and_then(|release| release.strip_suffix(end));
        // 6.12 is no 6.1.
        middle.is_some_and(|middle| middle.starts_with('.') && !has_words(middle))
    });
    of_kind.max_by_key(|name| numbers(name))
}

/// All numbers in a text: they order releases as people do.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|character: char| !character.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

fn downloaded(directory: &Path, package: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut archives =
        names.filter(|name| name.ends_with(".deb") && name.starts_with(&format!("{package}_")));
    archives
        .next()
        .map(|name| directory.join(name))
        .with_context(|| format!("apt-get downloaded no {package}"))
}

#[cfg(test)]
mod tests {
    //! Which package has a kernel.

    use super::*;

    const FOUND: &str = "\
linux-image-6.1.0-9-cloud-amd64 - Linux 6.1 for x86-64 cloud (signed)
linux-image-6.1.0-56-amd64 - Linux 6.1 for 64-bit PCs (signed)
linux-image-6.1.0-56-amd64-dbg - Debug symbols for linux-image-6.1.0-56-amd64
linux-image-6.1.0-56-amd64-unsigned - Linux 6.1 for 64-bit PCs
linux-image-6.1.0-56-cloud-amd64 - Linux 6.1 for x86-64 cloud (signed)
linux-image-6.1.0-56-cloud-amd64-unsigned - Linux 6.1 for x86-64 cloud
linux-image-6.1.0-57-rt-amd64 - Linux 6.1 for 64-bit PCs, PREEMPT_RT (signed)
linux-image-6.1.0-40-cloud-amd64 - Linux 6.1 for x86-64 cloud (signed)
linux-image-6.12.117+deb12-amd64 - Linux 6.12 for 64-bit PCs (signed)
linux-image-6.12.117+deb12-cloud-amd64 - Linux 6.12 for x86-64 cloud (signed)
linux-image-6.12.94+deb12-cloud-amd64 - Linux 6.12 for x86-64 cloud (signed)
";

    #[test]
    fn takes_the_newest_of_the_kind_that_is_asked_for() {
        for (version, is_cloud, expected) in [
            ("6.1", true, Some("linux-image-6.1.0-56-cloud-amd64")),
            ("6.1", false, Some("linux-image-6.1.0-56-amd64")),
            ("6.12", true, Some("linux-image-6.12.117+deb12-cloud-amd64")),
            ("6.12", false, Some("linux-image-6.12.117+deb12-amd64")),
            ("6.11", true, None),
        ] {
            assert_eq!(newest(FOUND, version, is_cloud), expected, "{version}, cloud: {is_cloud}");
        }
    }
}
