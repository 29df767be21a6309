//! Fixed window: a count that belongs to one window and is forgotten with it.

use ratelimit_common::time::Nanos;

use super::{Model, Numbers, Verdict, verdict};

pub struct FixedWindow {
    numbers: Numbers,
    window: u128,
    count: u128,
}

impl FixedWindow {
    pub fn new(numbers: Numbers) -> Self {
        Self { numbers, window: 0, count: 0 }
    }

    /// The window that counts at `now`: one that has begun goes on if the clock steps back.
    fn counting(&self, now: Nanos) -> u128 {
        self.numbers.window(now).max(self.window)
    }

    fn count(&self, now: Nanos) -> u128 {
        if self.counting(now) == self.window { self.count } else { 0 }
    }
}

impl Model for FixedWindow {
    fn judge(&self, now: Nanos, cost: u64) -> Verdict {
        verdict(self.count(now) + u128::from(cost) <= self.numbers.capacity.into())
    }

    fn record(&mut self, now: Nanos, cost: u32, allowed: bool) {
        if cost > 0 && (allowed || self.numbers.count_denied) {
            self.count = self.count(now) + u128::from(cost);
            self.window = self.counting(now);
        }
    }

    fn remaining(&self, now: Nanos) -> Option<u64> {
        Some(u128::from(self.numbers.capacity).saturating_sub(self.count(now)) as u64)
    }

    fn reset(&self, now: Nanos) -> Option<Nanos> {
        Some(self.numbers.until_end(now, self.counting(now)))
    }
}
