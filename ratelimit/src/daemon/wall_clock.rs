//! Notices when the system's clock is set, or goes on after the machine was suspended.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd, RawFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::{
        time::TimeSpec,
        timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
    },
};
use tokio::io::unix::AsyncFd;
use tracing::warn;

/// In the year 2200. Only that the timer is cancelled matters.
const NEVER: Duration = Duration::from_secs(7_258_118_400);

/// A timer that the kernel cancels when the clock is set.
pub struct ClockWatch(Option<AsyncFd<Timer>>);

struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl ClockWatch {
    /// Begins. If the system has no such timer, it says so once, and nothing is ever noticed here.
    #[must_use]
    pub fn watch() -> Self {
        Self(
            Self::try_watch()
                .inspect_err(|error| {
                    warn!(%error, "the kernel can't say when the clock is \
                set, so it is looked at once a minute")
                })
                .ok(),
        )
    }

    fn try_watch() -> io::Result<AsyncFd<Timer>> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = Timer(TimerFd::new(ClockId::CLOCK_REALTIME, flags)?);
        timer.arm()?;
        // SAFETY: the timer owns the descriptor, keeps it open as long as it lives, and always answers with the same.
        unsafe { AsyncFd::register(timer) }.map_err(io::Error::from)
    }

    /// Returns when the clock was set.
    pub async fn was_set(&mut self) {
        let Some(timer) = &mut self.0 else { return std::future::pending().await };
        if let Err(error) = cancelled(timer).await {
            warn!(%error, "the kernel no longer says when the clock is set, so it is looked at once a minute");
            self.0 = None;
        }
    }
}

impl Timer {
    fn arm(&self) -> nix::Result<()> {
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
        self.0.set(Expiration::OneShot(TimeSpec::from_duration(NEVER)), flags)
    }
}

/// Waits until the timer is cancelled, and arms it again.
async fn cancelled(timer: &mut AsyncFd<Timer>) -> io::Result<()> {
    loop {
        let mut ready = timer.readable_mut().await?;
        match ready.get_inner().0.wait() {
            Ok(()) => return Ok(ready.get_inner().arm()?),
            Err(Errno::EAGAIN) => ready.clear_ready(),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It can't be set here, since that is everybody's clock.
    #[tokio::test]
    async fn a_clock_that_goes_on_is_no_news() {
        let mut clock = ClockWatch(Some(ClockWatch::try_watch().unwrap()));
        let told = tokio::time::timeout(Duration::ZERO, clock.was_set()).await;
        assert!(told.is_err() && clock.0.is_some());
    }
}
