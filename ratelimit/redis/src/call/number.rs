//! Numbers as the script has them: integers below 2^53 in doubles.

use ratelimit_common::time::{Nanos, Ticks};

/// The largest count that the script is told. Sums of counts and costs stay below 2^53.
const MOST: u64 = 1 << 52;

/// Above all times and counts.
pub(crate) const BEYOND: f64 = (1_u64 << 53) as f64;

const TICKS_A_MICRO: u64 = 128_000;

/// A time by the server's clock, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Micros(pub(crate) u64);

impl Micros {
    /// The first whole microsecond that is not before a time.
    pub(crate) const fn up(time: Nanos) -> Self {
        Self(time.0.div_ceil(1_000))
    }

    /// The last whole microsecond that is not after a time.
    pub(crate) const fn down(time: Nanos) -> Self {
        Self(time.0 / 1_000)
    }

    pub(crate) fn number(self) -> f64 {
        exact(self.0)
    }

    pub(crate) const fn plus(self, micros: u64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

/// A count, or a number that is not larger than any count can be.
pub(crate) fn exact(number: u64) -> f64 {
    number.min(MOST) as f64
}

/// Whether something holds.
pub(crate) fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

/// A length of time as microseconds and the ticks beyond them.
pub(crate) fn pair(time: Ticks) -> [f64; 2] {
    [(time.0 / TICKS_A_MICRO) as f64, (time.0 % TICKS_A_MICRO) as f64]
}

/// The ticks that a state lies ahead of the present, at most so many.
pub(crate) fn ahead(now: Micros, micros: u64, ticks: u64, most: Ticks) -> Ticks {
    let Some(micros) = micros.checked_sub(now.0) else { return Ticks(0) };
    let ahead = u128::from(micros) * u128::from(TICKS_A_MICRO) + u128::from(ticks);
    Ticks(u64::try_from(ahead).unwrap_or(u64::MAX).min(most.0))
}
