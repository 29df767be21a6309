//! Notices when network interfaces come, go or change.

use std::{
    io,
    os::fd::{AsRawFd, RawFd},
    time::Duration,
};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::libc;
use tokio::{io::unix::AsyncFd, time};
use tracing::warn;

/// Changes come in bursts: an interface is made, named, and set up.
const QUIET: Duration = Duration::from_millis(50);

/// The multicast group about interfaces, from the kernel's interface.
const RTNLGRP_LINK: u32 = 1;

/// Announcements of the kernel.
pub struct Links {
    announcements: Option<AsyncFd<Announcements>>,
    /// Something has changed, and this is when to tell.
    due: Option<time::Instant>,
}

struct Announcements(Socket);

impl AsRawFd for Announcements {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Links {
    /// Listens. If the system refuses, it says so once, and nothing is ever noticed.
    #[must_use]
    pub fn watch() -> Self {
        let announcements =
            Self::try_watch().inspect_err(|error| warn!(%error, "interfaces can't be watched")).ok();
        // Before it was heard, something may have.
        Self { announcements, due: Some(time::Instant::now()) }
    }

    fn try_watch() -> io::Result<AsyncFd<Announcements>> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        socket.add_membership(RTNLGRP_LINK)?;
        socket.set_non_blocking(true)?;
        // SAFETY: the socket owns the descriptor, keeps it open as long as it lives, and always answers with the same.
        unsafe { AsyncFd::register(Announcements(socket)) }.map_err(io::Error::from)
    }

    /// Returns when something has changed. What that is has to be looked up, so that nothing is missed if announcements
    /// are lost. It may be given up at any time; nothing is missed then either.
    pub async fn changed(&mut self) {
        if self.due.is_none() {
            let Some(announcements) = &mut self.announcements else { return std::future::pending().await };
            if let Err(error) = drained(announcements).await {
                warn!(%error, "interfaces can't be watched any more");
                self.announcements = None;
            }
            self.due = Some(time::Instant::now() + QUIET);
        }
        if let Some(due) = self.due {
            time::sleep_until(due).await;
        }
        self.due = None;
    }
}

/// Waits for announcements and reads all of them.
async fn drained(announcements: &mut AsyncFd<Announcements>) -> io::Result<()> {
    let mut ready = announcements.readable_mut().await?;
    loop {
        match ready.get_inner().0.recv_from_full() {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // Some were lost, because they were too many.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(error) => return Err(error),
        }
    }
    ready.clear_ready();
    Ok(())
}
