//! The two clocks: the one that packets are judged by, and the one that windows align to.

use nix::time::{ClockId, clock_gettime};
use ratelimit_common::time::Nanos;

use super::Error;

/// CLOCK_MONOTONIC, which is what the XDP program reads.
///
/// # Errors
/// The system has no such clock.
pub fn monotonic() -> Result<Nanos, Error> {
    read(ClockId::CLOCK_MONOTONIC)
}

/// What tells the time since the Unix epoch: the system's clock, or a test's.
pub type WallClock = fn() -> Result<Nanos, Error>;

/// Time since the Unix epoch, by a clock that people and programs set.
pub(super) fn unix() -> Result<Nanos, Error> {
    read(ClockId::CLOCK_REALTIME)
}

fn read(clock: ClockId) -> Result<Nanos, Error> {
    let time = clock_gettime(clock)
        .map_err(|error| Error::System { what: "reading the clock", source: error.into() })?;
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec()).unwrap_or(0);
    Ok(Nanos(Nanos::from_secs(seconds).0.saturating_add(nanos)))
}
