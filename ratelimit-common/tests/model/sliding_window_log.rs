//! Sliding window log: every request ever counted, with its time and cost.

use ratelimit_common::time::Nanos;

use super::{Model, Numbers, Verdict, verdict};

pub struct Log {
    numbers: Numbers,
    /// Times never decrease: a request while the clock is back counts at the newest time.
    requests: Vec<(Nanos, u32)>,
}

impl Log {
    pub fn new(numbers: Numbers) -> Self {
        Self { numbers, requests: Vec::new() }
    }

    /// The cost of the requests in `(now - window, now]`, and of those that lie ahead because the clock stepped back.
    fn used(&self, now: Nanos) -> u64 {
        let counts = |time: Nanos| u128::from(time.0) + u128::from(self.numbers.per.0) > u128::from(now.0);
        self.requests.iter().filter(|(time, _)| counts(*time)).map(|&(_, cost)| u64::from(cost)).sum()
    }
}

impl Model for Log {
    fn judge(&self, now: Nanos, cost: u64) -> Verdict {
        verdict(self.used(now) + cost <= self.numbers.capacity)
    }

    fn record(&mut self, now: Nanos, cost: u32, allowed: bool) {
        if cost > 0 && (allowed || self.numbers.count_denied) {
            let newest = self.requests.last().map_or(Nanos(0), |&(time, _)| time);
            self.requests.push((now.max(newest), cost));
        }
    }

    fn remaining(&self, now: Nanos) -> Option<u64> {
        Some(self.numbers.capacity.saturating_sub(self.used(now)))
    }

    fn reset(&self, now: Nanos) -> Option<Nanos> {
        let newest = self.requests.last().map_or(0, |&(time, _)| time.0 + self.numbers.per.0);
        Some(Nanos(newest.saturating_sub(now.0)))
    }
}
