//! A limit's numbers for a store that decides elsewhere, in another language: times of costs, and how far states count.

use super::{Limit, StateKind, time_of_many};
use crate::{algorithm::low_bits, time::Ticks};

impl Limit {
    /// The time that `units` take at the rate, rounded down to a tick, and no more than that of all that can be used.
    #[must_use]
    pub fn time_of_units(&self, units: u64) -> Ticks {
        let time = time_of_many(self.unit, self.unit_fraction, units);
        Ticks(time.min(u128::from(self.most_time().0)) as u64)
    }

    /// The time of one unit: whole ticks, and a fraction in 1/2^64 ticks.
    #[must_use]
    pub const fn unit_time(&self) -> (Ticks, u64) {
        (self.unit, self.unit_fraction)
    }

    /// The time until a bucket is fresh of which all is used and owed that can be.
    #[must_use]
    pub const fn longest_time(&self) -> Ticks {
        self.most_time()
    }

    /// How far a window of its states counts; it stands still there.
    #[must_use]
    pub const fn counts_up_to(&self) -> u64 {
        match self.kind {
            StateKind::SlidingCounter => low_bits(self.count_bits / 2),
            StateKind::Interval | StateKind::Window => low_bits(self.count_bits),
            StateKind::ArrivalTime | StateKind::Log | StateKind::WideSlidingCounter => u64::MAX,
        }
    }
}
