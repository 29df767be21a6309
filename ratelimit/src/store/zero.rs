//! The zero of a store's time, on the clock that limits are judged by.

use ratelimit_common::{
    limit::Limit,
    time::{Nanos, Now},
};

/// What the clock says at the zero of the store's time, in nanoseconds since the Unix epoch; maybe before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zero(i128);

impl Zero {
    /// The furthest that a clock can step back and find its time again: before that, time stands still.
    const STEPS_BACK: Nanos = Nanos::from_secs(3_600);

    /// The zero of a store that is made now.
    #[must_use]
    pub fn before(now: Nanos) -> Self {
        Self(i128::from(now.0) - i128::from(Self::STEPS_BACK.0))
    }

    /// The zero of a store whose time is `present` when the clock says `now`.
    #[must_use]
    pub fn at(now: Nanos, present: Now) -> Self {
        Self(i128::from(now.0) - i128::from(present.0.0))
    }

    /// The store's time when the clock says `now`. Before the zero it stands still.
    #[must_use]
    #[inline]
    pub fn since(self, now: Nanos) -> Now {
        let since = i128::from(now.0) - self.0;
        Now(Nanos(if since < 0 { 0 } else { since as u64 }))
    }

    /// The limit with its windows aligned to the Unix epoch.
    #[must_use]
    pub fn align(self, limit: Limit) -> Limit {
        let into_window = self.0.rem_euclid(i128::from(limit.period().0.max(1)));
        limit.aligned(Nanos(into_window as u64))
    }
}
