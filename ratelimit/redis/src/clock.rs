//! What a server's clock says, from what it said with earlier replies. Requests are void, and windows begin, by that
//! clock alone: those of the processes that ask may be hours apart.

use std::{
    sync::atomic::{AtomicI64, Ordering::Relaxed},
    time::{Instant, SystemTime},
};

use crate::call::{batch::Times, number::Micros};

/// The estimate of one server's clock.
#[derive(Debug)]
pub(crate) struct ServerClock {
    started: Instant,
    /// What the server's clock said at the start, at least; `i64::MIN` as long as nobody knows.
    offset: AtomicI64,
}

const UNKNOWN: i64 = i64::MIN;

/// By how much the clock may be set back, or the estimate be wrong, before requests are refused.
const TOLERANCE: u64 = 1_000_000;

/// Windows are named by a time so much before the estimate, since the next window is named too.
const MARGIN: u64 = 5_000;

/// A reply that took longer on its way moves the estimate back by one part in so many.
const SMOOTHING: i64 = 16;

impl ServerClock {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), offset: AtomicI64::new(UNKNOWN) }
    }

    /// What it says at a moment, rather less than more; by the system's clock as long as nobody knows.
    pub(crate) fn at(&self, moment: Instant) -> Micros {
        let offset = self.offset.load(Relaxed);
        if offset == UNKNOWN {
            return system(moment);
        }
        Micros(u64::try_from(self.since_start(moment).saturating_add(offset)).unwrap_or(0))
    }

    /// What a call is made with.
    pub(crate) fn times(&self) -> Times {
        let now = self.at(Instant::now());
        let is_known = self.offset.load(Relaxed) != UNKNOWN;
        let earliest = if is_known { now.0.saturating_sub(TOLERANCE) } else { 0 };
        Times { at: Micros(now.0.saturating_sub(MARGIN)), earliest: Micros(earliest) }
    }

    /// A reply has just come that says so.
    pub(crate) fn heard(&self, said: Micros) {
        let new = self.offset_of(said);
        let old = self.offset.load(Relaxed);
        // The less time a reply took, the larger it is.
        let offset = if old == UNKNOWN || new >= old { new } else { old + (new - old) / SMOOTHING };
        self.offset.store(offset, Relaxed);
    }

    /// The clock is not what it was taken for.
    pub(crate) fn set(&self, said: Micros) {
        self.offset.store(self.offset_of(said), Relaxed);
    }

    fn offset_of(&self, said: Micros) -> i64 {
        i64::try_from(said.0).unwrap_or(i64::MAX / 2) - self.since_start(Instant::now())
    }

    fn since_start(&self, moment: Instant) -> i64 {
        let micros = |later: Instant, earlier: Instant| {
            i64::try_from(later.saturating_duration_since(earlier).as_micros()).unwrap_or(i64::MAX / 2)
        };
        micros(moment, self.started) - micros(self.started, moment)
    }
}

fn system(moment: Instant) -> Micros {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let then = now + moment.saturating_duration_since(Instant::now());
    Micros(u64::try_from(then.as_micros()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_reply_tells_the_time_whatever_this_machine_thinks_it_is() {
        let clock = ServerClock::new();
        assert!(clock.at(Instant::now()).0 > 1_000_000_000_000_000);
        assert_eq!(clock.times().earliest, Micros(0));
        clock.heard(Micros(5_000_000));
        let now = clock.at(Instant::now()).0;
        assert!((5_000_000..6_000_000).contains(&now), "{now}");
        let later = clock.at(Instant::now() + Duration::from_secs(2)).0;
        assert!((7_000_000..8_000_000).contains(&later), "{later}");
        clock.heard(Micros(3_000_000));
        assert!(clock.at(Instant::now()).0 > 4_000_000, "one slow reply moves it little");
        clock.set(Micros(3_000_000));
        let now = clock.at(Instant::now()).0;
        assert!((3_000_000..4_000_000).contains(&now), "{now}");
    }
}
