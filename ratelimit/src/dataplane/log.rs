//! What the XDP program logs, through a ring buffer of its own.

use std::os::fd::{AsRawFd, RawFd};

use aya::Ebpf;
use aya_log::EbpfLogger;
use tracing::{Level, debug};

/// The program's log, to be flushed whenever it can be read.
pub struct Log(EbpfLogger<&'static dyn log::Log>);

impl Log {
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

    /// Passes on what has come.
    pub fn flush(&mut self) {
        self.0.flush();
    }
}

impl AsRawFd for Log {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
