//! The control socket's file: making it, and removing it, without ever touching a file that is something else.

use std::{
    cell::Cell,
    fs::{self, File, FileType, Metadata},
    io,
    os::{
        fd::AsRawFd as _,
        unix::{
            fs::{FileTypeExt as _, MetadataExt as _},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::{
        socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket},
        stat::{Mode, fchmod},
    },
};

use thiserror::Error;

use crate::peer::{Peer, peer};

/// What can go wrong with a socket's file.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Another daemon answers there.
    #[error(
        "{path}: another daemon answers there{}: to replace it, stop it first ({}); to keep it, have it read its file with \
         `ratelimit reload`, or give this one another `instance:` or `control:`",
        process.map_or_else(String::new, |process| format!(", process {process}")),
        how_to_stop(*process),
        path = path.display()
    )]
    Taken {
        /// Where.
        path: PathBuf,
        /// Its process, unless it is too busy to say so.
        process: Option<i32>,
    },
    /// Something that is no socket stands where it is to be.
    #[error("{path}: {kind}, not a socket, and left alone: give `control:` another path", path = path.display())]
    NotASocket {
        /// Where.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// It, or a directory for it, can't be made.
    #[error(
        "{path}: can't make {what} ({source}): set `control:` to a path where this user may make files",
        path = path.display()
    )]
    Make {
        /// Where the socket is to be.
        path: PathBuf,
        /// What can't be made.
        what: String,
        /// Why not.
        source: io::Error,
    },
}

fn how_to_stop(process: Option<i32>) -> String {
    let process = process.map_or_else(|| "PROCESS".to_owned(), |process| process.to_string());
    format!("`systemctl stop ratelimit` if systemd started it, else `kill {process}`")
}

/// How many may wait to be answered.
const BACKLOG: i32 = 128;

/// A listening socket that removes its file when the daemon stops.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file, until it is removed: somebody else may make another one under its name.
    file: Cell<Option<(u64, u64)>>,
}

impl ControlSocket {
    /// Makes the socket. One that nobody listens at is left over from a daemon that died, and replaced; any other file
    /// that is in the way is left alone.
    ///
    /// # Errors
    /// Somebody listens there, something else is there, or the file can't be made.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let failed = |source| cannot_make(path, source);
        check_place(path)?;
        let directory = directory_of(path);
        make_directory(directory).map_err(|source| no_directory(path, source))?;
        let _turn = ReplaceLock::take(directory);
        make_room(path)?;
        let listener = listen_at(path).map_err(|errno| failed(errno.into()))?;
        let file = Cell::new(Some(identity(&fs::symlink_metadata(path).map_err(failed)?)));
        Ok(Self { listener, path: path.to_owned(), file })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is listened at.
    #[must_use]
    pub const fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Removes the file, if it is still there, so that the next daemon can have the place.
    pub fn remove(&self) {
        let Some(file) = self.file.take() else { return };
        let _turn = ReplaceLock::take(directory_of(&self.path));
        if fs::symlink_metadata(&self.path).is_ok_and(|there| identity(&there) == file) {
            // It may be gone with its directory.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The file must at no time be open to others: it gets the mode that its socket has.
fn listen_at(path: &Path) -> nix::Result<UnixListener> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    listen(&socket, Backlog::new(BACKLOG)?)?;
    Ok(socket.into())
}

/// Removes the socket of a daemon that is dead or, if it is still this process, stuck. Whatever else is there stays.
pub fn remove_left_over(path: &Path, stuck: Option<u32>) {
    let _turn = ReplaceLock::take(directory_of(path));
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let is_left_over = match peer(path) {
        Peer::Process(process) => stuck.is_some_and(|stuck| stuck == process.cast_unsigned()),
        Peer::Busy => stuck.is_some(),
        Peer::Nobody(error) => error.kind() == io::ErrorKind::ConnectionRefused,
    };
    if is_socket && is_left_over {
        // What can't be removed is replaced by the next daemon.
        let _ = fs::remove_file(path);
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn make_directory(directory: &Path) -> io::Result<()> {
    match fs::create_dir_all(directory) {
        // Which says less about what is wrong.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(io::ErrorKind::NotADirectory.into())
        }
        done => done,
    }
}

fn cannot_make(path: &Path, source: io::Error) -> SocketError {
    SocketError::Make { path: path.to_owned(), what: "the control socket".to_owned(), source }
}

/// Whether there is a place for a socket, as far as that can be told without making anything or asking who listens
/// there.
///
/// # Errors
/// Something else is there, or in the place of a directory.
pub fn check_place(path: &Path) -> Result<(), SocketError> {
    let directory = directory_of(path);
    // Those that are missing are made.
    let found = directory.ancestors().find_map(|parent| fs::metadata(parent).ok());
    if found.is_some_and(|found| !found.is_dir()) {
        return Err(no_directory(path, io::ErrorKind::NotADirectory.into()));
    }
    match fs::symlink_metadata(path).map(|found| found.file_type()) {
        Ok(found) if !found.is_socket() => {
            Err(SocketError::NotASocket { path: path.to_owned(), kind: kind(found) })
        }
        _ => Ok(()),
    }
}

fn no_directory(path: &Path, source: io::Error) -> SocketError {
    let what = format!("the directory {} for the control socket", directory_of(path).display());
    SocketError::Make { path: path.to_owned(), what, source }
}

/// Removes a socket that nobody listens at.
fn make_room(path: &Path) -> Result<(), SocketError> {
    let failed = |source| cannot_make(path, source);
    // A link is not followed: what it leads to is none of ours.
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed)?.file_type(),
    };
    if !found.is_socket() {
        return Err(SocketError::NotASocket { path: path.to_owned(), kind: kind(found) });
    }
    let taken = |process| SocketError::Taken { path: path.to_owned(), process };
    match peer(path) {
        Peer::Process(process) => Err(taken(Some(process))),
        Peer::Busy => Err(taken(None)),
        Peer::Nobody(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        // A socket of another kind, say.
        Peer::Nobody(error) => Err(failed(error)),
    }
}

fn kind(file: FileType) -> &'static str {
    [
        (file.is_file(), "a regular file"),
        (file.is_dir(), "a directory"),
        (file.is_symlink(), "a symbolic link"),
        (file.is_fifo(), "a named pipe"),
    ]
    .into_iter()
    .find_map(|(is, kind)| is.then_some(kind))
    .unwrap_or("a device")
}

/// The right to look at a socket in a directory and then to replace it: of two daemons that find the same dead one, the
/// second must not remove what the first has made. It is given back when dropped.
#[derive(Debug)]
struct ReplaceLock {
    _directory: Option<Flock<File>>,
}

impl ReplaceLock {
    const TRIES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);

    /// Waits, but not for long: whoever else locks this directory must not keep a daemon from its start or its end.
    /// Where directories can't be locked it goes without.
    fn take(directory: &Path) -> Self {
        let mut file = File::open(directory).ok();
        for _ in 0..Self::TRIES {
            let Some(unlocked) = file else { break };
            match Flock::lock(unlocked, FlockArg::LockExclusiveNonblock) {
                Ok(locked) => return Self { _directory: Some(locked) },
                Err((unlocked, nix::errno::Errno::EWOULDBLOCK)) => file = Some(unlocked),
                Err(_) => break,
            }
            thread::sleep(Self::PAUSE);
        }
        Self { _directory: None }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_a_dead_socket_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "precious").unwrap();
        fs::create_dir(at("directory")).unwrap();
        mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        drop(UnixListener::bind(at("dead")).unwrap());
        std::os::unix::fs::symlink(at("dead"), at("link")).unwrap();
        let _other_kind = UnixDatagram::bind(at("datagrams")).unwrap();
        let _alive = UnixListener::bind(at("alive")).unwrap();

        for (name, expected) in [
            ("file", "a regular file"),
            ("directory", "a directory"),
            ("pipe", "a named pipe"),
            ("link", "a symbolic link"),
            ("datagrams", "`control:`"),
            ("alive", &format!("process {}: to replace it, stop it first", std::process::id())),
        ] {
            let before = identity(&fs::symlink_metadata(at(name)).unwrap());
            let error = ControlSocket::bind(&at(name)).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(name), "{error}");
            assert_eq!(identity(&fs::symlink_metadata(at(name)).unwrap()), before, "{name}");
        }
        assert_eq!(fs::read(at("file")).unwrap(), b"precious");

        let socket = ControlSocket::bind(&at("dead")).unwrap();
        assert_eq!(fs::metadata(at("dead")).unwrap().mode() & 0o777, 0o600);
        assert!(matches!(peer(&at("dead")), Peer::Process(_)));
        drop(socket);
        assert!(!fs::exists(at("dead")).unwrap());
    }

    #[test]
    fn what_has_taken_its_place_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let socket = ControlSocket::bind(&path).unwrap();
        fs::rename(&path, directory.path().join("elsewhere")).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(socket);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn of_many_at_once_one_gets_the_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        let together = std::sync::Barrier::new(8);
        let bound: Vec<bool> = thread::scope(|scope| {
            let try_it = || {
                together.wait();
                let socket = ControlSocket::bind(&path).ok();
                together.wait();
                socket.is_some()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(try_it)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(bound.iter().filter(|bound| **bound).count(), 1, "{bound:?}");
    }
}
