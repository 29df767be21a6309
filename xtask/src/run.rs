//! `run`: builds, then becomes `ratelimit run`, as root.

use std::fs;
use std::os::unix::process::CommandExt as _;

use anyhow::{Context as _, Result, bail};

use crate::{build, command};

const BPFFS: &str = "/sys/fs/bpf";

/// Builds and starts the daemon in this process's place; returns only if that fails.
pub fn run(arguments: &[String]) -> Result<()> {
    let binary = build::release()?;
    if let Some(reason) = command::no_root_reason() {
        bail!("`ratelimit run` {reason}: run `{} run ...` as root", binary.display());
    }
    mount_bpffs()?;
    let mut daemon = command::as_root(&binary);
    daemon.arg("run").args(arguments);
    command::announce(&daemon);
    Err(daemon.exec()).with_context(|| format!("starting {}", command::render(&daemon)))
}

/// The daemon pins its maps and links there; most distributions mount it at boot.
fn mount_bpffs() -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("reading /proc/self/mounts")?;
    if is_mounted(&mounts) {
        return Ok(());
    }
    println!("{BPFFS} is not mounted: mounting it");
    command::run(command::as_root("mount").args(["-t", "bpf", "bpf", BPFFS]))
}

fn is_mounted(mounts: &str) -> bool {
    mounts.lines().any(|mount| {
        let mut fields = mount.split(' ').skip(1);
        fields.next() == Some(BPFFS) && fields.next() == Some("bpf")
    })
}

#[cfg(test)]
mod tests {
    //! Reading the mount table.

    use super::*;

    #[test]
    fn finds_a_bpf_file_system_at_its_place_only() {
        let cases = [
            ("sysfs /sys sysfs rw 0 0\nbpf /sys/fs/bpf bpf rw,mode=700 0 0\n", true),
            ("none /sys/fs/bpf bpf rw 0 0\n", true),
            ("tmpfs /sys/fs/bpf tmpfs rw 0 0\n", false),
            ("bpf /run/bpf bpf rw 0 0\n", false),
            ("", false),
        ];
        for (mounts, expected) in cases {
            assert_eq!(is_mounted(mounts), expected, "{mounts}");
        }
    }
}
