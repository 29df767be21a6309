//! What a limit did to a whole recording.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
};

use ratelimit_common::time::Nanos;

/// The sums over a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests let through.
    pub allowed: u64,
    /// Requests denied.
    pub denied: u64,
    /// The longest that anybody had to wait: to come again, or to leave a queue.
    pub longest_wait: Nanos,
    /// The most units that one key got through in any time as long as the limit's rate is for.
    pub largest_burst: u64,
}

/// Counts what a limit does.
#[derive(Debug)]
pub(super) struct Tally {
    summary: Summary,
    /// The time of the limit's rate.
    period: Nanos,
    hasher: RandomState,
    /// What each key got through in the last period.
    recent: HashMap<u64, Recent>,
    /// When there are this many, those that got nothing of late are dropped.
    sweep_at: usize,
}

/// What one key got through, and when, oldest first.
#[derive(Debug, Default)]
struct Recent {
    units: u64,
    passed: VecDeque<(Nanos, u64)>,
}

const LEAST_SWEEP: usize = 1024;

impl Tally {
    pub(super) fn new(period: Nanos) -> Self {
        Self {
            summary: Summary::default(),
            period,
            hasher: RandomState::new(),
            recent: HashMap::new(),
            sweep_at: LEAST_SWEEP,
        }
    }

    pub(super) const fn summary(&self) -> Summary {
        self.summary
    }

    /// Counts a request that goes on at `leaves`, after `wait`.
    pub(super) fn allowed(&mut self, key: &[u8], leaves: Nanos, wait: Nanos, cost: u32) {
        self.summary.allowed += 1;
        self.waited(wait);
        if self.recent.len() >= self.sweep_at {
            self.sweep(Nanos(leaves.0.saturating_sub(wait.0)));
        }
        let recent = self.recent.entry(self.hasher.hash_one(key)).or_default();
        let units = recent.pass(leaves, cost.into(), self.period);
        self.summary.largest_burst = self.summary.largest_burst.max(units);
    }

    /// Counts a request that would be let through after `wait`, if ever.
    pub(super) fn denied(&mut self, wait: Option<Nanos>) {
        self.summary.denied += 1;
        self.waited(wait.unwrap_or_default());
    }

    fn waited(&mut self, wait: Nanos) {
        self.summary.longest_wait = self.summary.longest_wait.max(wait);
    }

    fn sweep(&mut self, now: Nanos) {
        let period = self.period;
        self.recent
            .retain(|_, recent| recent.passed.back().is_some_and(|(at, _)| !is_past(*at, now, period)));
        self.sweep_at = (2 * self.recent.len()).max(LEAST_SWEEP);
    }
}

impl Recent {
    /// The units of the last period, with those that pass now.
    fn pass(&mut self, at: Nanos, units: u64, period: Nanos) -> u64 {
        while let Some(&(earlier, passed)) =
            self.passed.front().filter(|(earlier, _)| is_past(*earlier, at, period))
        {
            self.units -= passed;
            self.passed.pop_front();
            debug_assert!(earlier <= at);
        }
        match self.passed.back_mut() {
            Some((last, passed)) if *last == at => *passed += units,
            _ => self.passed.push_back((at, units)),
        }
        self.units += units;
        self.units
    }
}

/// Whether a whole period has passed since `earlier`.
const fn is_past(earlier: Nanos, now: Nanos, period: Nanos) -> bool {
    now.0.saturating_sub(earlier.0) >= period.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = Nanos::SECOND.0;

    #[test]
    fn the_largest_burst_is_that_of_one_key_in_one_period() {
        let mut tally = Tally::new(Nanos::SECOND);
        for (key, at, cost) in
            [("a", 0, 3), ("b", 0, 4), ("a", SECOND - 1, 5), ("a", SECOND, 2), ("b", 2 * SECOND, 6)]
        {
            tally.allowed(key.as_bytes(), Nanos(at), Nanos(0), cost);
        }
        tally.denied(None);
        assert_eq!(
            tally.summary(),
            Summary { allowed: 5, denied: 1, longest_wait: Nanos(0), largest_burst: 8 }
        );
    }

    #[test]
    fn keys_that_are_gone_take_no_memory() {
        let mut tally = Tally::new(Nanos::SECOND);
        for number in 0..100_000_u64 {
            tally.allowed(&number.to_le_bytes(), Nanos(number * SECOND / 100), Nanos(0), 1);
        }
        assert!(tally.recent.len() <= LEAST_SWEEP, "{}", tally.recent.len());
        assert_eq!(tally.summary().largest_burst, 1);
    }
}
