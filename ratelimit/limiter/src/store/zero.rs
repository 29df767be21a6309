//! The zero of a store's time, on the clock that limits are judged by and on the one that windows are aligned to.

use ratelimit_common::{
    algorithm::realign::ClockStep,
    limit::Limit,
    time::{Nanos, Now},
};

use crate::clock::Clock;

/// What two clocks say at the zero of the store's time, in nanoseconds since the Unix epoch; maybe before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zero {
    /// The even one, which limits are judged by.
    clock: i128,
    /// The one that may be set, as windows are aligned to it.
    wall: i128,
}

impl Zero {
    /// The furthest that a clock can step back and find its time again: before that, time stands still.
    const STEPS_BACK: Nanos = Nanos::from_secs(3_600);

    /// The zero of a store that is made now.
    #[must_use]
    pub fn before(clock: &(impl Clock + ?Sized)) -> Self {
        Self::at(clock.now(), Now(Self::STEPS_BACK), clock.wall())
    }

    /// The zero of a store whose time is `present` when the clock says `now`. Its windows are aligned to a wall clock
    /// that said `wall` at that time.
    #[must_use]
    pub fn at(now: Nanos, present: Now, wall: Nanos) -> Self {
        let before = |time: Nanos| i128::from(time.0) - i128::from(present.0.0);
        Self { clock: before(now), wall: before(wall) }
    }

    /// The same with windows aligned to the wall clock as it is now, if it was set; else as it is.
    #[must_use]
    pub fn aligned(self, clock: &(impl Clock + ?Sized)) -> Self {
        let (now, wall) = (clock.now(), clock.wall());
        let new = Self { wall: i128::from(wall.0) - (i128::from(now.0) - self.clock), ..self };
        if self.step_to(new).is_some() { new } else { self }
    }

    /// How the wall clock was set between two alignments of one store.
    #[must_use]
    pub const fn step_to(self, new: Self) -> Option<ClockStep> {
        ClockStep::of(new.wall - self.wall)
    }

    /// The store's time when the clock says `now`. Before the zero it stands still.
    #[must_use]
    #[inline]
    pub fn since(self, now: Nanos) -> Now {
        let since = i128::from(now.0) - self.clock;
        Now(Nanos(if since < 0 { 0 } else { since as u64 }))
    }

    /// What the wall clock said at that time of the store, or would have said as it is set now.
    #[must_use]
    pub fn wall_at(self, time: Now) -> Nanos {
        let wall = self.wall + i128::from(time.0.0);
        Nanos(u64::try_from(wall.max(0)).unwrap_or(u64::MAX))
    }

    /// The limit with its windows aligned to the Unix epoch.
    #[must_use]
    pub fn align(self, limit: Limit) -> Limit {
        limit.aligned(self.phase(limit.period()))
    }

    /// How far into a window of this length the store's time begins.
    #[must_use]
    pub fn phase(self, window: Nanos) -> Nanos {
        Nanos(self.wall.rem_euclid(i128::from(window.0.max(1))) as u64)
    }
}
