//! The instance's directory under the BPF file system: where links and maps outlive the daemon.
//!
//! `<root>/<instance>/links/<interface index>` and `<root>/<instance>/v<layout>/<map>`. Whoever changes anything there holds
//! a lock on the instance's directory, which ends with the process.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::statfs::{BPF_FS_MAGIC, statfs},
};

use super::Error;
use crate::policy::InstanceName;

/// Where BPF file systems are mounted.
const BPFFS: &str = "/sys/fs/bpf";

/// Counts up when a pinned map changes its meaning.
pub(super) const LAYOUT: u32 = 1;

/// An instance's directory, not necessarily there.
#[derive(Clone, Debug)]
pub(super) struct Pins {
    instance: InstanceName,
    directory: PathBuf,
}

/// The right to change an instance's pins.
#[derive(Debug)]
pub(super) struct Lock {
    _file: Flock<File>,
}

impl Pins {
    /// # Errors
    /// There is no BPF file system.
    pub(super) fn new(instance: &InstanceName) -> Result<Self, Error> {
        let is_bpffs = statfs(BPFFS).is_ok_and(|found| found.filesystem_type() == BPF_FS_MAGIC);
        if !is_bpffs {
            return Err(Error::NoBpffs { path: BPFFS.into() });
        }
        let directory = Path::new(BPFFS).join("ratelimit").join(instance.as_str());
        Ok(Self { instance: instance.clone(), directory })
    }

    pub(super) const fn instance(&self) -> &InstanceName {
        &self.instance
    }

    pub(super) fn maps(&self) -> PathBuf {
        self.directory.join(format!("v{LAYOUT}"))
    }

    fn links(&self) -> PathBuf {
        self.directory.join("links")
    }

    pub(super) fn link(&self, interface: u32) -> PathBuf {
        self.links().join(interface.to_string())
    }

    /// Whether there is anything of this instance.
    pub(super) fn exist(&self) -> bool {
        self.directory.exists()
    }

    /// Makes the directories.
    pub(super) fn create(&self) -> Result<(), Error> {
        for directory in [self.links(), self.maps()] {
            fs::create_dir_all(&directory).map_err(|error| Error::file(directory, error))?;
        }
        Ok(())
    }

    /// Takes the lock, for which the directory is made if need be.
    ///
    /// # Errors
    /// [`Error::Running`] if somebody has it.
    pub(super) fn lock(&self) -> Result<Lock, Error> {
        loop {
            let failed = |error| Error::file(&self.directory, error);
            fs::create_dir_all(&self.directory).map_err(failed)?;
            let file = File::open(&self.directory).map_err(failed)?;
            let file =
                Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
                    nix::errno::Errno::EWOULDBLOCK => Error::Running { instance: self.instance.to_string() },
                    other => failed(other.into()),
                })?;
            // It may have been removed by whoever had the lock before.
            let inode = file.metadata().map_err(failed)?.ino();
            if fs::metadata(&self.directory).is_ok_and(|there| there.ino() == inode) {
                return Ok(Lock { _file: file });
            }
        }
    }

    /// The indices of the interfaces that have a pinned link.
    pub(super) fn linked(&self) -> Result<Vec<u32>, Error> {
        let entries = match fs::read_dir(self.links()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::file(self.links(), error)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter_map(|name| name.parse().ok()).collect())
    }

    /// Removes a link's pin, which detaches it unless somebody holds it open.
    pub(super) fn remove_link(&self, interface: u32) -> Result<(), Error> {
        remove(&self.link(interface), |path| fs::remove_file(path))
    }

    /// Removes everything of the instance: links first, so that no packet meets a program without its maps' names.
    pub(super) fn remove_all(&self) -> Result<(), Error> {
        for interface in self.linked()? {
            self.remove_link(interface)?;
        }
        remove(&self.directory, |path| fs::remove_dir_all(path))?;
        if let Some(root) = self.directory.parent() {
            // Other instances may be there.
            let _ = fs::remove_dir(root);
        }
        Ok(())
    }

    /// Removes the maps, which must not be in use.
    pub(super) fn remove_maps(&self) -> Result<(), Error> {
        remove(&self.maps(), |path| fs::remove_dir_all(path))
    }
}

fn remove(path: &Path, how: impl Fn(&Path) -> io::Result<()>) -> Result<(), Error> {
    match how(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file(path, error)),
        _ => Ok(()),
    }
}
