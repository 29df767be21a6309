//! Sliding window counter: the counts of two windows; the previous one weighs as much as the sliding window still
//! covers of it, and the product is rounded down.

use num_rational::BigRational;
use ratelimit_common::{limit::StateStorage, time::Nanos};

use super::{Model, Numbers, Verdict, floor, verdict, whole};

pub struct SlidingCounter {
    numbers: Numbers,
    /// Counts saturate here: what the state has room for.
    most: u64,
    window: u128,
    previous: u64,
    current: u64,
}

impl SlidingCounter {
    pub fn new(numbers: Numbers, place: StateStorage) -> Self {
        let narrow = narrow_most(numbers.per);
        let wide = place == StateStorage::UserSpace && numbers.amount > narrow;
        Self { numbers, most: if wide { u64::MAX } else { narrow }, window: 0, previous: 0, current: 0 }
    }

    /// The window that counts at `now`: one that has begun goes on if the clock steps back.
    fn counting(&self, now: Nanos) -> u128 {
        self.numbers.window(now).max(self.window)
    }

    /// The counts of the window before it and of itself.
    fn counts(&self, now: Nanos) -> (u64, u64) {
        match self.counting(now) - self.window {
            0 => (self.previous, self.current),
            1 => (self.current, 0),
            _ => (0, 0),
        }
    }

    /// What counts against the limit.
    fn sum(&self, now: Nanos) -> u128 {
        let (previous, current) = self.counts(now);
        // Before the window that counts has begun, the one before it is covered whole.
        let left = self.numbers.until_end(now, self.counting(now)).min(self.numbers.per);
        let covered = BigRational::new(left.0.into(), self.numbers.per.0.into());
        u128::from(current) + u128::from(floor(&(whole(previous) * covered)))
    }
}

/// What half of a state word can count besides the window's end: two counts of that size fit below one window's length
/// in 1/128 ns.
fn narrow_most(per: Nanos) -> u64 {
    let window = u128::from(per.0) * 128;
    let bits = (0..32).rev().find(|bits| 1_u128 << (2 * bits) <= window).unwrap_or(0);
    (1 << bits) - 1
}

impl Model for SlidingCounter {
    fn judge(&self, now: Nanos, cost: u64) -> Verdict {
        verdict(self.sum(now) + u128::from(cost) <= self.numbers.capacity.into())
    }

    fn record(&mut self, now: Nanos, cost: u32, allowed: bool) {
        if cost > 0 && (allowed || self.numbers.count_denied) {
            let (previous, current) = self.counts(now);
            self.window = self.counting(now);
            self.previous = previous;
            self.current = current.saturating_add(cost.into()).min(self.most);
        }
    }

    fn remaining(&self, now: Nanos) -> Option<u64> {
        Some(u128::from(self.numbers.capacity).saturating_sub(self.sum(now)) as u64)
    }

    fn reset(&self, now: Nanos) -> Option<Nanos> {
        Some(self.numbers.until_end(now, self.counting(now)))
    }
}
