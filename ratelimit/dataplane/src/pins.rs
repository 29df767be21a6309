//! The instance's directory under the BPF file system: where links and maps outlive the daemon.
//!
//! `<root>/<instance>/links/<interface index>` and `<root>/<instance>/v<layout>/<map>`. Whoever changes anything there
//! holds a lock on the instance's directory, which ends with the process.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use aya::maps::MapData;
use nix::fcntl::{Flock, FlockArg};

use super::{Error, bpffs, raw};
use crate::policy::InstanceName;

/// Where BPF file systems are mounted.
const BPFFS: &str = "/sys/fs/bpf";

/// Where all instances are.
const ROOT: &str = "ratelimit";

/// Counts up when a pinned map changes its meaning.
pub(super) const LAYOUT: u32 = 2;

/// An instance's directory, not necessarily there.
#[derive(Clone, Debug)]
pub(super) struct Pins {
    instance: InstanceName,
    directory: PathBuf,
}

/// The right to change an instance's pins.
#[derive(Debug)]
pub(super) struct Lock {
    file: Flock<File>,
    /// Whether the directory was made for it.
    pub is_first: bool,
}

impl Lock {
    /// Somebody may look whether an instance is locked, which takes no time, at the very moment when it is to be
    /// locked.
    const TRIES: u32 = 10;
    const PAUSE: Duration = Duration::from_millis(20);

    /// Whether the directory is still the instance's. It is not if all pins were removed without this lock, as is done
    /// when a daemon does not answer; then the name may be another daemon's by now.
    pub(super) fn is_current(&self, pins: &Pins) -> bool {
        let here = self.file.metadata().map(|found| found.ino());
        let there = fs::metadata(&pins.directory).map(|found| found.ino());
        here.ok().zip(there.ok()).is_some_and(|(here, there)| here == there)
    }
}

impl Pins {
    /// # Errors
    /// There is no BPF file system.
    pub(super) fn new(instance: &InstanceName) -> Result<Self, Error> {
        if !bpffs::is_mounted(Path::new(BPFFS)) {
            return Err(Error::NoBpffs { path: BPFFS.into(), why: None });
        }
        let directory = Path::new(BPFFS).join(ROOT).join(instance.as_str());
        Ok(Self { instance: instance.clone(), directory })
    }

    /// The same for who begins to serve an instance: a BPF file system is mounted if there is none.
    ///
    /// # Errors
    /// There is none, and none can be mounted.
    pub(super) fn with_bpffs(instance: &InstanceName) -> Result<Self, Error> {
        bpffs::mount_if_missing(Path::new(BPFFS))?;
        Self::new(instance)
    }

    /// The instance that has pinned a link to this program on this interface.
    pub(super) fn holder(interface: u32, is_it: impl Fn(&Path) -> bool) -> Option<String> {
        let instances = fs::read_dir(Path::new(BPFFS).join(ROOT)).ok()?;
        let mut instances = instances.filter_map(Result::ok);
        let holder =
            instances.find(|found| is_it(&found.path().join("links").join(interface.to_string())))?;
        holder.file_name().into_string().ok()
    }

    /// The names of all that have a directory.
    pub(super) fn instances() -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(Path::new(BPFFS).join(ROOT)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter(|name| name.parse::<InstanceName>().is_ok()).collect())
    }

    pub(super) const fn instance(&self) -> &InstanceName {
        &self.instance
    }

    pub(super) fn maps(&self) -> PathBuf {
        self.directory.join(format!("v{LAYOUT}"))
    }

    /// Opens a pinned map.
    pub(super) fn map(&self, name: &str) -> Result<MapData, Error> {
        map_at(&self.maps(), name)
    }

    fn links(&self) -> PathBuf {
        self.directory.join("links")
    }

    pub(super) fn link(&self, interface: u32) -> PathBuf {
        self.links().join(interface.to_string())
    }

    /// Whether there is anything of this instance.
    pub(super) fn exist(&self) -> Result<bool, Error> {
        fs::exists(&self.directory).map_err(|error| Error::file(&self.directory, error))
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
        let mut tries = 0;
        loop {
            let is_first = self.make_directory()?;
            match self.flock(FlockArg::LockExclusiveNonblock)? {
                Some(file) => {
                    let lock = Lock { file, is_first };
                    // It may have been removed by whoever had the lock before.
                    if lock.is_current(self) {
                        return Ok(lock);
                    }
                }
                None if tries == Lock::TRIES => {
                    return Err(Error::Running { instance: self.instance.to_string(), process: None });
                }
                None => {
                    tries += 1;
                    thread::sleep(Lock::PAUSE);
                }
            }
        }
    }

    /// Whether somebody has the lock: a daemon, as a rule.
    pub(super) fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.exist()? && self.flock(FlockArg::LockSharedNonblock)?.is_none())
    }

    /// Makes the directory, and says whether it was not there.
    fn make_directory(&self) -> Result<bool, Error> {
        let failed = |error| Error::file(&self.directory, error);
        if let Some(root) = self.directory.parent() {
            fs::create_dir_all(root).map_err(failed)?;
        }
        // Whoever can open it can lock it.
        match fs::DirBuilder::new().mode(0o700).create(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            made => made.map(|()| true).map_err(failed),
        }
    }

    /// `None` if somebody else has it.
    fn flock(&self, how: FlockArg) -> Result<Option<Flock<File>>, Error> {
        let failed = |error| Error::file(&self.directory, error);
        let file = File::open(&self.directory).map_err(failed)?;
        match Flock::lock(file, how) {
            Ok(locked) => Ok(Some(locked)),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, other)) => Err(failed(other.into())),
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

    /// Detaches a link, whoever holds it open, and removes its pin.
    pub(super) fn remove_link(&self, interface: u32) -> Result<(), Error> {
        let path = self.link(interface);
        // Without the pin it is detached as well, only later; and there may be no such link.
        let _ = raw::detach_link(&path);
        remove(&path, |path| fs::remove_file(path))
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

    /// The directories of maps that other versions have left.
    pub(super) fn other_layouts(&self) -> Result<Vec<PathBuf>, Error> {
        let entries = fs::read_dir(&self.directory).map_err(|error| Error::file(&self.directory, error))?;
        let is_layout = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.strip_prefix('v').is_some_and(|number| number.parse::<u32>().is_ok()) && *path != self.maps()
        };
        Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_layout).collect())
    }

    /// Removes the maps of other versions, after their programs have been replaced.
    pub(super) fn remove_other_layouts(&self) -> Result<(), Error> {
        self.other_layouts()?.iter().try_for_each(|path| remove(path, |path| fs::remove_dir_all(path)))
    }

    /// Removes the maps, which must not be in use.
    pub(super) fn remove_maps(&self) -> Result<(), Error> {
        remove(&self.maps(), |path| fs::remove_dir_all(path))
    }
}

/// Opens a map that is pinned in a directory.
pub(super) fn map_at(directory: &Path, name: &str) -> Result<MapData, Error> {
    let path = directory.join(name);
    MapData::from_pin(&path).map_err(|error| Error::file(path, io_error(&error)))
}

/// What the system said, which is somewhere among the causes.
pub(super) fn io_error(error: &(dyn std::error::Error + 'static)) -> io::Error {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(number) = cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(number);
        }
        next = cause.source();
    }
    io::Error::other(error.to_string())
}

fn remove(path: &Path, how: impl Fn(&Path) -> io::Result<()>) -> Result<(), Error> {
    match how(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file(path, error)),
        _ => Ok(()),
    }
}
