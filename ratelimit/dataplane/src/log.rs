//! What the XDP program logs, through a ring buffer of its own.

use std::os::fd::{AsRawFd, RawFd};

use aya::Ebpf;
use aya_log::EbpfLogger;
use tokio::io::unix::AsyncFd;
use tracing::{Level, debug};

/// The program's log.
pub struct ProgramLog(EbpfLogger<&'static dyn log::Log>);

impl ProgramLog {
    /// The program's highest level: debug, if this process logs that, else none. Then the verifier takes logging out.
    pub(super) fn level() -> u8 {
        const DEBUG: u8 = 4;
        if tracing::enabled!(Level::DEBUG) { DEBUG } else { 0 }
    }

    /// The log of a loaded program; `None` if it does not log.
    pub(super) fn of(ebpf: &mut Ebpf) -> Option<Self> {
        if Self::level() == 0 {
            return None;
        }
        EbpfLogger::init(ebpf).inspect_err(|error| debug!(%error, "no log of the XDP program")).ok().map(Self)
    }

    /// Passes on whatever comes, for ever.
    pub async fn forward(self) {
        // SAFETY: the logger owns the descriptor, keeps it open as long as it lives, and always answers with the same.
        let Ok(mut log) = (unsafe { AsyncFd::register(self) }) else { return };
        while let Ok(mut ready) = log.readable_mut().await {
            ready.get_inner_mut().0.flush();
            ready.clear_ready();
        }
    }
}

impl AsRawFd for ProgramLog {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
