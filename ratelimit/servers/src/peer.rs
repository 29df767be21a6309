//! Who listens at a socket, asked without ever waiting: a daemon that is stopped does not answer, but it listens.

use std::{io, os::fd::AsRawFd as _, path::Path};

use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt::PeerCredentials,
    },
};

/// Who listens.
#[derive(Debug)]
pub enum Peer {
    /// This process.
    Process(i32),
    /// Somebody, who has let so many wait that nobody else gets a place.
    Busy,
    /// Nobody that could be reached, and why.
    Nobody(io::Error),
}

/// Looks who listens at `path`.
pub fn peer(path: &Path) -> Peer {
    match process(path) {
        Ok(process) => Peer::Process(process),
        Err(Errno::EAGAIN) => Peer::Busy,
        Err(errno) => Peer::Nobody(errno.into()),
    }
}

fn process(path: &Path) -> nix::Result<i32> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let stream = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(getsockopt(&stream, PeerCredentials)?.pid())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_listener_that_accepts_nothing_keeps_nobody_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        assert!(matches!(peer(&path), Peer::Nobody(_)));
        let listener = UnixListener::bind(&path).unwrap();
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
        let mut first = Vec::new();
        let is_full = (0..10).any(|_| match peer(&path) {
            Peer::Process(process) => {
                first.push(process);
                false
            }
            Peer::Busy => true,
            Peer::Nobody(error) => panic!("{error}"),
        });
        assert!(is_full && !first.is_empty(), "{first:?}");
        assert!(first.iter().all(|process| process.cast_unsigned() == std::process::id()));
    }
}
