//! Time as the algorithms see it: nanoseconds since the bucket table was made, and the finer unit in which states keep
//! it.

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// One second.
    pub const SECOND: Self = Self(1_000_000_000);
    /// 365 days: the longest window, and the longest time that an empty bucket may take to fill.
    pub const YEAR: Self = Self(365 * 86_400 * 1_000_000_000);

    /// `count` seconds, saturating at 584 years.
    #[must_use]
    pub const fn from_secs(count: u64) -> Self {
        Self(count.saturating_mul(Self::SECOND.0))
    }
}

impl From<Nanos> for core::time::Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

impl From<core::time::Duration> for Nanos {
    /// Saturates at 584 years.
    fn from(duration: core::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A length of time, or a time since the table was made, in 1/128 ns: what bucket states are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Ticks(pub u64);

impl Ticks {
    /// A tick is a nanosecond shifted right by this.
    pub const SHIFT: u32 = 7;

    /// The same length in whole nanoseconds, rounded up: a wait of this long is long enough.
    #[must_use]
    pub const fn to_nanos_up(self) -> Nanos {
        Nanos(self.0.div_ceil(1 << Self::SHIFT))
    }
}

impl Nanos {
    /// The same length in ticks; wraps above 4.57 years.
    #[must_use]
    #[inline(always)]
    pub const fn to_ticks(self) -> Ticks {
        Ticks(self.0 << Ticks::SHIFT)
    }
}

/// The nanoseconds that 64 bits of ticks count.
const WRAP: u64 = 1 << (64 - Ticks::SHIFT);

/// The present, as nanoseconds since the table was made.
///
/// States keep 64 bits of ticks, which is 4.57 years. Until times ahead get there the order of any two times is plain.
/// From then on a time that is no further ahead than a limit's states can be counts as the future and all others as the
/// past, so limits go on to work; a bucket that nobody touched for more than two years may then look used when it is
/// not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now(pub Nanos);

impl Now {
    /// The furthest that a state can lie ahead of the clock that wrote it, with an hour for clocks that step back.
    pub const FAR: Ticks = Ticks((Nanos::YEAR.0 + 3_600 * Nanos::SECOND.0) << Ticks::SHIFT);

    /// The present in ticks, which is also the state of a bucket that is fresh now.
    #[must_use]
    #[inline(always)]
    pub const fn ticks(self) -> Ticks {
        self.0.to_ticks()
    }

    /// Whether 64 bits of ticks have not yet wrapped.
    #[inline(always)]
    pub(crate) const fn is_plain(self) -> bool {
        self.0.0 < WRAP
    }

    /// How far `later` lies ahead of `base` (the present, or a time somewhat after it), or zero if it does not. Nothing
    /// lies further ahead than `far`; that matters where times ahead have wrapped already, or could have.
    #[must_use]
    #[inline(always)]
    pub const fn ahead_of(self, base: Ticks, later: Ticks, far: Ticks) -> Ticks {
        let distance = later.0.wrapping_sub(base.0);
        let reach = if self.0.0 < Self::plain_until(far).0 { u64::MAX - base.0 } else { far.0 };
        Ticks(if distance <= reach { distance } else { 0 })
    }

    /// Until when neither times somewhat after the present nor what lies ahead of them by `far` can have wrapped.
    #[inline(always)]
    pub(crate) const fn plain_until(far: Ticks) -> Nanos {
        Nanos(WRAP.saturating_sub(far.0 >> (Ticks::SHIFT - 1)))
    }

    /// How far `time` lies ahead of the present, or zero if it does not.
    #[must_use]
    #[inline(always)]
    pub const fn ahead(self, time: Ticks, far: Ticks) -> Ticks {
        self.ahead_of(self.ticks(), time, far)
    }

    /// Whether `time` is not ahead, whatever limit it is of. Shortly before the wrap, times ahead that have wrapped
    /// look passed; that only chooses which bucket gives way in a full table.
    #[inline(always)]
    pub(crate) const fn has_passed(self, time: Ticks) -> bool {
        let distance = time.0.wrapping_sub(self.ticks().0);
        let reach = if self.is_plain() { u64::MAX - self.ticks().0 } else { Self::FAR.0 };
        distance == 0 || distance > reach
    }

    /// What to subtract from states so that their order as numbers is that of the times they stand for. After the wrap
    /// that is the furthest future, so that the furthest past comes next.
    #[inline(always)]
    pub(crate) const fn order_base(self) -> u64 {
        if self.is_plain() { 0 } else { self.ticks().0.wrapping_add(Self::FAR.0) }
    }

    /// The present plus `length`, as a state keeps it: always below the reserved [`crate::table::BUSY`].
    #[must_use]
    #[inline(always)]
    pub const fn plus(self, length: Ticks) -> Ticks {
        Ticks(Ticks(self.ticks().0.wrapping_add(length.0)).as_state())
    }
}

impl Ticks {
    /// A time as a state keeps it: always below the reserved [`crate::table::BUSY`].
    #[must_use]
    #[inline(always)]
    pub const fn as_state(self) -> u64 {
        if self.0 >= crate::table::BUSY { crate::table::BUSY - 1 } else { self.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_plain_for_four_and_a_half_years() {
        let now = Now(Nanos(Nanos::YEAR.0 * 4));
        assert_eq!(now.ahead(Nanos(3).to_ticks(), Ticks(1)), Ticks(0));
        assert_eq!(now.ahead(Ticks(now.ticks().0 + 5), Ticks(1)), Ticks(5));
    }

    #[test]
    fn after_the_wrap_only_the_near_future_lies_ahead() {
        let now = Now(Nanos(WRAP + 10));
        assert_eq!(now.ticks(), Ticks(10 << 7));
        assert_eq!(now.ahead(Ticks((10 << 7) + 9), Now::FAR), Ticks(9));
        assert_eq!(now.ahead(Ticks(u64::MAX - 4), Now::FAR), Ticks(0));
        assert_eq!(now.ahead(Ticks(9 << 7), Now::FAR), Ticks(0));
    }

    #[test]
    fn times_ahead_wrap_before_the_present_does() {
        let now = Now(Nanos(WRAP - 1));
        assert_eq!(now.plus(Ticks(0)), Ticks(crate::table::BUSY - 1), "not the reserved one");
        let later = now.plus(Ticks(1 << 40));
        assert_eq!(later, Ticks((1 << 40) - 128));
        assert_eq!(now.ahead(later, Ticks(1 << 41)), Ticks(1 << 40));
        assert_eq!(now.ahead(later, Ticks(1 << 39)), Ticks(0));
        assert_eq!(now.ahead_of(later, now.plus(Ticks(1 << 41)), Ticks(1 << 41)), Ticks(1 << 40));
        assert_eq!(now.ahead_of(later, now.ticks(), Ticks(1 << 41)), Ticks(0));
    }

    #[test]
    fn waits_are_rounded_up() {
        assert_eq!(Ticks(1).to_nanos_up(), Nanos(1));
        assert_eq!(Ticks(128).to_nanos_up(), Nanos(1));
        assert_eq!(Ticks(129).to_nanos_up(), Nanos(2));
    }
}
