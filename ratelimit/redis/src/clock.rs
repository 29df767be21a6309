//! What a server's clock says, from what it said with earlier replies. Requests are void, and windows begin, by that
//! clock alone: those of the processes that ask may be hours apart.

use std::{
    sync::atomic::{AtomicI64, Ordering::Relaxed},
    time::Instant,
};

use crate::call::{batch::Times, number::Micros};

/// The estimate of one server's clock. Nothing is known before a reply was heard.
#[derive(Debug)]
pub(crate) struct ServerClock {
    started: Instant,
    /// What the server's clock said at the start, at least; `i64::MIN` as long as nobody knows.
    offset: AtomicI64,
}

const UNKNOWN: i64 = i64::MIN;

/// By how much the clock may be set back, or the estimate be wrong, before the script judges nothing by it. So much
/// later than it says a request may be charged that was given up, where another server has taken over whose clock is
/// behind.
const TOLERANCE: u64 = 250_000;

/// Windows are named by a time so much before the estimate, since the next window is named too.
const MARGIN: u64 = 5_000;

/// A reply that took longer on its way moves the estimate back by one part in so many.
const SMOOTHING: i64 = 16;

impl ServerClock {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), offset: AtomicI64::new(UNKNOWN) }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.offset.load(Relaxed) != UNKNOWN
    }

    /// What it says at a moment, rather less than more; 0 as long as nobody knows, so that what is dated by it is void.
    pub(crate) fn at(&self, moment: Instant) -> Micros {
        let time = self.since_start(moment).saturating_add(self.offset.load(Relaxed));
        Micros(u64::try_from(time).unwrap_or(0))
    }

    /// What a call is made with.
    pub(crate) fn times(&self) -> Times {
        let now = self.at(Instant::now()).0;
        Times { at: Micros(now.saturating_sub(MARGIN)), earliest: Micros(now.saturating_sub(TOLERANCE)) }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_reply_tells_the_time_whatever_this_machine_thinks_it_is() {
        let clock = ServerClock::new();
        let later = Instant::now() + Duration::from_secs(2);
        assert_eq!((clock.is_known(), clock.at(later)), (false, Micros(0)), "whatever it dates is void");
        clock.heard(Micros(5_000_000));
        let now = clock.at(Instant::now()).0;
        assert!(clock.is_known());
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
