//! The signals that the daemon acts on.

use nix::sys::signal::{
    SigSet,
    Signal::{SIGHUP, SIGINT, SIGTERM, SIGUSR2, SIGXFSZ},
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::policy::OnExit;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalRequest {
    /// To read the configuration again.
    Reload,
    /// To stop: its name, and what is to become of the limits if that is not up to the policy.
    Stop(&'static str, Option<OnExit>),
}

/// Those that have been caught.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    leave: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on they don't end the process.
    ///
    /// # Errors
    /// They can't be caught.
    pub fn catch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            leave: signal(SignalKind::user_defined2())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.terminate.recv() => SignalRequest::Stop("SIGTERM", None),
            _ = self.interrupt.recv() => SignalRequest::Stop("SIGINT", None),
            _ = self.leave.recv() => SignalRequest::Stop("SIGUSR2", Some(OnExit::Keep)),
            _ = self.hang_up.recv() => SignalRequest::Reload,
        }
    }
}

/// Makes the signals wait that [`Signals`] will catch; in threads that are started from here on, too. One waits for
/// ever: that a file has reached its limit, which whoever writes it is told as well.
///
/// # Errors
/// The system refuses.
pub fn block() -> nix::Result<SigSet> {
    let signals = [SIGTERM, SIGINT, SIGUSR2, SIGHUP];
    let set: SigSet = signals.into_iter().collect();
    (set | SigSet::from(SIGXFSZ)).thread_block()?;
    Ok(set)
}

/// Lets them come, in this thread.
///
/// # Errors
/// The system refuses.
pub fn unblock(blocked: &SigSet) -> nix::Result<()> {
    blocked.thread_unblock()
}
