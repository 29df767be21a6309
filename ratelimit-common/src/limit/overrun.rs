//! Limits that can be overrun, because costs are known only afterwards: how much can be owed, and which limits can't.

use super::{Algorithm, Limit, LimitError, LimitSpec, OnLimit, Refill, StateStorage, time_of_many};
use crate::time::{Nanos, Ticks};

/// What can be used of a limit that can be overrun, in capacities: its own, and ten that are owed.
const CAPACITIES: u64 = 11;

/// The longest time in which an empty bucket fills, of a window and of a refill's interval: eleven of them are at most
/// a year.
const LONGEST: Nanos = Nanos::from_secs(33 * 86_400);

impl LimitSpec {
    /// Whether the rest of the limit goes with `overrun`.
    pub(super) fn check_overrun(&self, place: StateStorage) -> Result<(), LimitError> {
        match self.overrun {
            true if place == StateStorage::Kernel => Err(LimitError::OverrunInKernel),
            true if self.count_denied => Err(LimitError::OverrunCountsDenied),
            true if self.on_limit == OnLimit::Delay => Err(LimitError::OverrunDelays),
            _ => Ok(()),
        }
    }

    /// Whether all that can be owed is paid within a year; an empty bucket fills in so many ticks.
    pub(super) fn check_debt(&self, full: u128) -> Result<(), LimitError> {
        let longest = u128::from(LONGEST.to_ticks().0);
        let has_windows = !self.algorithm.is_bucket() || self.refill == Refill::Interval;
        match self.overrun {
            true if has_windows && self.rate.per > LONGEST => return Err(LimitError::OverrunWindowTooLong),
            true if full > longest => {}
            _ => return Ok(()),
        }
        let most = longest * u128::from(self.rate.amount.get()) / u128::from(self.rate.per.to_ticks().0);
        Err(LimitError::OverrunTooLong { most: most.min(u128::from(u64::MAX)) as u64 })
    }

    /// The most units that a window's state has to count for this amount.
    pub(super) const fn most_units(&self, amount: u64) -> u64 {
        if self.overrun && matches!(self.algorithm, Algorithm::SlidingWindowCounter) {
            amount.saturating_mul(CAPACITIES)
        } else {
            amount
        }
    }
}

impl Limit {
    /// Whether a cost above what is left is charged whole, and owed. Never in the XDP program, where costs are known.
    #[must_use]
    #[inline(always)]
    pub const fn overruns(&self) -> bool {
        cfg!(not(target_arch = "bpf")) && self.overrun != 0
    }

    /// Whether a cost is charged whatever other limits say.
    #[must_use]
    pub const fn always_charges(&self) -> bool {
        self.counts_denied() || self.overruns()
    }

    /// The most units that can be used: the capacity, and what can be owed.
    #[must_use]
    #[inline(always)]
    pub const fn most_used(&self) -> u64 {
        self.times_owed(self.capacity)
    }

    /// The time until a bucket is fresh of which all is used and owed that can be.
    #[inline(always)]
    pub(crate) const fn most_time(&self) -> Ticks {
        Ticks(self.times_owed(self.full.0))
    }

    /// So much for each capacity that can be used.
    #[inline(always)]
    pub(crate) const fn times_owed(&self, of_one: u64) -> u64 {
        if self.overruns() { of_one.saturating_mul(CAPACITIES) } else { of_one }
    }

    /// The time of a cost that may be larger than all that can be used.
    pub(super) fn time_of_any(&self, cost: u32) -> Ticks {
        let time = time_of_many(self.unit, self.unit_fraction, cost.into());
        Ticks(time.min(u128::from(self.most_time().0)) as u64)
    }

    /// The units whose time is `time`, a part of one counted as one.
    pub(crate) fn units_of(&self, time: Ticks) -> u64 {
        let whole = self.units_in(time, self.most_used());
        let is_exact = time_of_many(self.unit, self.unit_fraction, whole) == u128::from(time.0);
        whole.saturating_add((!is_exact).into())
    }
}
