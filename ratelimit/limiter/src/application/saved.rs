//! The state file: counts that are to survive a restart. Read at start, written now and then and on a clean stop,
//! replaced in one step.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use ratelimit_common::time::{Nanos, Now};

use crate::{
    clock::{Clock, MonotonicClock},
    policy::StoreSettings,
    store::{
        MemoryStore, Zero,
        memory::{NoState, Saved, most_bytes},
    },
};

/// The counts could not be saved.
#[derive(Debug, thiserror::Error)]
#[error("{}: the counts could not be saved: {error}; check that its directory is there, can be written to, and has room", .path.display())]
pub struct SaveError {
    /// The state file.
    pub path: PathBuf,
    /// What went wrong, which is said above.
    pub error: io::Error,
}

/// Why a state file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It can't be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is none.
    #[error(transparent)]
    NoState(#[from] NoState),
    /// It is too large.
    #[error("larger than any file that was saved here")]
    TooLarge,
}

/// Why a state file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It has no place.
    #[error("its directory is not there: make it, or name another file")]
    NoDirectory,
    /// The directory is there, as far as that can be told.
    #[error("its directory can't be looked at ({0}): check its permissions, or name another file")]
    Directory(io::Error),
    /// It is no file.
    #[error("a directory: name a file in it")]
    IsDirectory,
    /// What it holds can't be used.
    #[error("{0}; all counts would start at zero")]
    Content(#[from] ReadError),
}

/// Whether counts could be saved where the settings say, and read from what is there.
///
/// # Errors
/// Why not.
pub fn check(settings: &StoreSettings) -> Result<(), StateError> {
    let Some(path) = &settings.state_file else { return Ok(()) };
    check_place(path)?;
    Ok(read(path, settings.max_keys, &MonotonicClock::new()).map(drop)?)
}

/// Says what is wrong with the place of a state file, as far as that shows before it is written.
pub(super) fn check_place(path: &Path) -> Result<(), StateError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match fs::metadata(directory.unwrap_or(Path::new("."))) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(StateError::NoDirectory),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(StateError::Directory(error));
        }
        Err(_) => return Err(StateError::NoDirectory),
    }
    if path.is_dir() { Err(StateError::IsDirectory) } else { Ok(()) }
}

/// The store that was saved, and its zero, with windows as they were aligned then; `None` if there is no file.
pub(super) fn read(
    path: &Path,
    max_keys: u64,
    clock: &(impl Clock + ?Sized),
) -> Result<Option<(MemoryStore, Zero)>, ReadError> {
    // What waits for a writer, or never ends, is none.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file").into());
    }
    let mut bytes = Vec::new();
    file.take(most_bytes(max_keys) + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes(max_keys) {
        return Err(ReadError::TooLarge);
    }
    let restored = MemoryStore::restore(&bytes, max_keys)?;
    // After a clock that was set back, time goes on from where it was, and so do windows, until they are aligned anew.
    let (now, wall) = (clock.now(), clock.wall());
    let away = wall.0.saturating_sub(restored.clock.0);
    let present = Now(Nanos(restored.now.0.0.saturating_add(away)));
    let zero = Zero::at(now, present, Nanos(restored.clock.0.saturating_add(away)));
    Ok(Some((restored.store, zero)))
}

/// Bytes that are written at once.
const BUFFER: usize = 1 << 17;

/// Replaces the file.
pub(super) fn write(path: &Path, saved: &Saved) -> Result<(), SaveError> {
    replace(path, saved).map_err(|error| SaveError { path: path.to_owned(), error })
}

fn replace(path: &Path, saved: &Saved) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    // One that a stop in the middle left.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    let mut file = BufWriter::with_capacity(BUFFER, file);
    saved.write(&mut file)?;
    file.into_inner()?.sync_all()?;
    fs::rename(&new, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
