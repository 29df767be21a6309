//! Token bucket with `refill: interval`: tokens are taken at once and come back `amount` at the end of each interval.

use ratelimit_common::time::Nanos;

use super::{Model, Numbers, Verdict, verdict};

pub struct Interval {
    numbers: Numbers,
    /// What was missing from a full bucket in the interval of that number.
    missing: i128,
    interval: u128,
}

impl Interval {
    pub fn new(numbers: Numbers) -> Self {
        Self { numbers, missing: 0, interval: 0 }
    }

    /// Tokens missing at `now`. In an earlier interval more are missing: what has come back since is not there yet.
    fn missing(&self, now: Nanos) -> i128 {
        if self.missing == 0 {
            return 0;
        }
        let refills = self.numbers.window(now) as i128 - self.interval as i128;
        (self.missing - refills * i128::from(self.numbers.amount)).max(0)
    }
}

impl Model for Interval {
    fn judge(&self, now: Nanos, cost: u64) -> Verdict {
        verdict(self.missing(now) + i128::from(cost) <= i128::from(self.numbers.capacity))
    }

    fn record(&mut self, now: Nanos, cost: u32, allowed: bool) {
        if cost == 0 || !(allowed || self.numbers.count_denied) {
            return;
        }
        let missing = self.missing(now);
        self.missing =
            if allowed { missing + i128::from(cost) } else { missing.max(self.numbers.capacity.into()) };
        self.interval = self.numbers.window(now);
    }

    fn remaining(&self, now: Nanos) -> Option<u64> {
        Some((i128::from(self.numbers.capacity) - self.missing(now)).max(0) as u64)
    }

    fn reset(&self, now: Nanos) -> Option<Nanos> {
        let missing = self.missing(now) as u128;
        let Some(earlier) = missing.div_ceil(self.numbers.amount.into()).checked_sub(1) else {
            return Some(Nanos(0));
        };
        Some(self.numbers.until_end(now, self.numbers.window(now) + earlier))
    }
}
