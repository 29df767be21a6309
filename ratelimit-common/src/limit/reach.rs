//! How far ahead of the present the times in a limit's states can lie, and what is later.

use super::{Limit, StateKind};
use crate::time::{Nanos, Now, Ticks};

/// By how much a clock may step back without admitting anything extra, at any time.
const HOUR: Ticks = Nanos::from_secs(3_600).to_ticks();

impl Limit {
    /// How far ahead of the present a state of this limit can lie, with an hour for clocks that step back.
    #[inline(always)]
    pub(crate) const fn far(&self) -> Ticks {
        Ticks(self.most_time().0.saturating_add(HOUR.0))
    }

    /// How far ahead of a window another can lie if the clock stepped back, their ends rounded up as in states.
    #[inline(always)]
    pub(crate) const fn far_of_windows(&self) -> Ticks {
        let rounding = 1_u64 << (self.count_bits & 63);
        Ticks((self.window.get() << Ticks::SHIFT).wrapping_add(rounding).wrapping_add(HOUR.0))
    }

    /// The same for states that lie ahead by the windows in which a bucket fills.
    #[inline(always)]
    pub(crate) const fn far_of_intervals(&self) -> Ticks {
        Ticks(self.far_of_windows().0.saturating_add(self.most_time().0))
    }

    /// How far ahead any time in a state of this limit can lie.
    pub(super) const fn furthest(&self) -> Ticks {
        match self.kind {
            StateKind::ArrivalTime | StateKind::Log => self.far(),
            StateKind::Interval => self.far_of_intervals(),
            StateKind::Window | StateKind::SlidingCounter | StateKind::WideSlidingCounter => {
                self.far_of_windows()
            }
        }
    }

    /// How far `time`, of a state whose times lie at most `far` ahead, lies ahead of `base`: see [`Now::ahead_of`]. In
    /// the first years that is a subtraction.
    #[inline(always)]
    pub(crate) fn ahead_of(&self, now: Now, base: Ticks, time: Ticks, far: impl FnOnce() -> Ticks) -> Ticks {
        if now.0 < self.plain_until {
            return Ticks(time.0.saturating_sub(base.0));
        }
        now.ahead_of(base, time, far())
    }

    /// Whether `time`, of a state of this limit, is more than `by` ahead of the present. In the first years only:
    /// later, `false`.
    #[inline(always)]
    pub(crate) fn lies_ahead(&self, now: Now, time: Ticks, by: u64) -> bool {
        now.0 < self.plain_until && time.0 > now.ticks().0.wrapping_add(by)
    }

    /// The later of the present and `time`, of a state whose times lie no further ahead than [`Self::far`].
    #[inline(always)]
    pub(crate) fn later(&self, now: Now, time: Ticks) -> Ticks {
        let present = now.ticks();
        if now.0 >= self.plain_until {
            return Ticks(present.0.wrapping_add(now.ahead(time, self.far()).0));
        }
        if time.0 > present.0 { time } else { present }
    }
}
