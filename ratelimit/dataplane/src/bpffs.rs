//! The BPF file system, mounted where it is missing: as `bpftool` does, and systemd on most machines.

use std::{
    fs::File,
    io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use nix::{
    fcntl::{Flock, FlockArg},
    mount::{MsFlags, mount},
    sys::statfs::{BPF_FS_MAGIC, FsType, SYSFS_MAGIC, fstatfs, statfs},
};
use tracing::info;

use super::Error;

/// Whether it is there.
pub(super) fn is_mounted(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == BPF_FS_MAGIC)
}

/// Mounts it if it is not there, and nothing else either.
///
/// # Errors
/// Something else is there, or it can't be mounted.
pub(super) fn mount_if_missing(path: &Path) -> Result<(), Error> {
    if is_mounted(path) {
        return Ok(());
    }
    mount_at(path).map_err(|why| Error::NoBpffs { path: PathBuf::from(path), why: Some(why) })
}

fn mount_at(path: &Path) -> io::Result<()> {
    let directory = File::open(path)?;
    if kind(&directory)? != SYSFS_MAGIC {
        return Err(io::Error::other("another file system is there"));
    }
    let _turn = turn(directory);
    if is_mounted(path) {
        return Ok(());
    }
    // As systemd does it: what is pinned is for root, unless root says otherwise.
    mount(Some("bpf"), path, Some("bpf"), MsFlags::empty(), Some("mode=0700"))?;
    info!(path = %path.display(), "mounted a BPF file system");
    Ok(())
}

/// Locks the kernel's own empty directory: of two daemons that mount, the second would hide what the first pins.
/// Whoever else locks it must not keep a daemon from its start for long.
fn turn(mut directory: File) -> Option<Flock<File>> {
    for _ in 0..TRIES {
        match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Some(locked),
            Err((unlocked, _)) => directory = unlocked,
        }
        thread::sleep(PAUSE);
    }
    None
}

const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

fn kind(directory: &File) -> io::Result<FsType> {
    Ok(fstatfs(directory.as_fd())?.filesystem_type())
}
