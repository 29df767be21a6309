//! What time it is: nanoseconds since the Unix epoch, by a clock that goes forward evenly, and by the system's, which
//! may be set, to align windows to.
//!
//! The algorithms know no clock; whoever asks them brings the time from here, or passes one in.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Instant, SystemTime},
};

use ratelimit_common::time::Nanos;

/// Tells the time.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use ratelimit_limiter::{Nanos, clock::Clock};
///
/// /// What an event loop has read from the system's clock at the beginning of its turn.
/// struct OfTurn(AtomicU64);
///
/// impl Clock for OfTurn {
///     fn now(&self) -> Nanos {
///         Nanos(self.0.load(Ordering::Relaxed))
///     }
/// }
/// ```
pub trait Clock {
    /// The present, since the Unix epoch. It may stand still; if it steps back, nothing extra is admitted.
    fn now(&self) -> Nanos;

    /// The same moment by the wall clock, which may be set. It is read when rules are put in force, to align windows
    /// to.
    fn wall(&self) -> Nanos {
        self.now()
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Nanos {
        (**self).now()
    }

    fn wall(&self) -> Nanos {
        (**self).wall()
    }
}

/// CLOCK_MONOTONIC, moved to the Unix epoch by an offset that is fixed when the clock is made.
///
/// Setting the system's time does not move it. Its copies agree.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    made: Instant,
    made_at: Nanos,
}

impl MonotonicClock {
    /// A clock that agrees with the system's time now.
    #[must_use]
    pub fn new() -> Self {
        Self { made: Instant::now(), made_at: system() }
    }
}

/// The system's time.
fn system() -> Nanos {
    let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Nanos(u64::try_from(since_epoch.as_nanos()).unwrap_or(0))
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Nanos {
        let elapsed = self.made.elapsed();
        let elapsed = elapsed.as_secs() * Nanos::SECOND.0 + u64::from(elapsed.subsec_nanos());
        Nanos(self.made_at.0.saturating_add(elapsed))
    }

    fn wall(&self) -> Nanos {
        system()
    }
}

/// A clock that goes where it is told, also back. Its copies are the same clock.
#[derive(Clone, Debug, Default)]
pub struct FakeClock(Arc<Fake>);

#[derive(Debug, Default)]
struct Fake {
    now: AtomicU64,
    /// By how much the wall clock is ahead of it, as a wrapped number.
    ahead: AtomicU64,
}

impl FakeClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn new(now: Nanos) -> Self {
        Self(Arc::new(Fake { now: AtomicU64::new(now.0), ahead: AtomicU64::new(0) }))
    }

    /// Moves it to `now`.
    pub fn set(&self, now: Nanos) {
        self.0.now.store(now.0, Ordering::Release);
    }

    /// Moves it forward.
    pub fn advance(&self, by: Nanos) {
        self.0.now.fetch_add(by.0, Ordering::AcqRel);
    }

    /// Moves it back.
    pub fn step_back(&self, by: Nanos) {
        self.0.now.fetch_sub(by.0, Ordering::AcqRel);
    }

    /// Sets the wall clock forward, as people and NTP do, or a suspended machine that wakes up.
    pub fn set_wall_forward(&self, by: Nanos) {
        self.0.ahead.fetch_add(by.0, Ordering::AcqRel);
    }

    /// Sets the wall clock back.
    pub fn set_wall_back(&self, by: Nanos) {
        self.0.ahead.fetch_sub(by.0, Ordering::AcqRel);
    }
}

impl Clock for FakeClock {
    #[inline]
    fn now(&self) -> Nanos {
        Nanos(self.0.now.load(Ordering::Acquire))
    }

    fn wall(&self) -> Nanos {
        Nanos(self.now().0.wrapping_add(self.0.ahead.load(Ordering::Acquire)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_agrees_with_the_system_and_its_copies_agree() {
        let system = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let clock = MonotonicClock::new();
        let copy = clock;
        let (before, first, second, after) = (system(), clock.now(), copy.now(), system());
        assert!(first <= second);
        // The system's time may be corrected while the test runs.
        let tolerance = Nanos::SECOND.0;
        assert!(first.0 + tolerance >= before && second.0 <= after + tolerance, "{before} {first:?} {after}");
    }

    #[test]
    fn a_fake_clock_goes_where_it_is_told() {
        let clock = FakeClock::new(Nanos(100));
        let copy = clock.clone();
        clock.advance(Nanos(50));
        assert_eq!(copy.now(), Nanos(150));
        clock.step_back(Nanos(70));
        assert_eq!(copy.now(), Nanos(80));
        copy.set(Nanos(7));
        assert_eq!(clock.now(), Nanos(7));
        clock.set_wall_forward(Nanos(10));
        copy.set_wall_back(Nanos(3));
        assert_eq!((clock.now(), clock.wall()), (Nanos(7), Nanos(14)));
    }
}
