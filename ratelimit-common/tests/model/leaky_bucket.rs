//! Leaky bucket: a FIFO queue with a place for each unit. A unit leaves when the one before it has had its time, and
//! its place is free once it has had its own.
//!
//! For limits whose unit takes a whole number of 1/128 ns, so that nothing is rounded, and clocks that do not step
//! back.

use num_rational::BigRational;
use ratelimit_common::time::Nanos;

use super::{Model, Numbers, Verdict, floor, verdict, whole};

pub struct Queue {
    numbers: Numbers,
    /// The time of one unit in nanoseconds.
    unit: BigRational,
    /// When each place that was taken is free again, in order.
    free_at: Vec<BigRational>,
}

impl Queue {
    pub fn new(numbers: Numbers) -> Self {
        let unit = BigRational::new(numbers.per.0.into(), numbers.amount.into());
        Self { numbers, unit, free_at: Vec::new() }
    }

    fn taken(&self, now: Nanos) -> u64 {
        self.free_at.iter().filter(|&free_at| *free_at > whole(now.0)).count() as u64
    }

    /// When a unit that enters now leaves.
    fn turn(&self, now: Nanos) -> BigRational {
        self.free_at.last().cloned().unwrap_or_else(|| whole(now.0)).max(whole(now.0))
    }
}

impl Model for Queue {
    fn judge(&self, now: Nanos, cost: u64) -> Verdict {
        verdict(self.taken(now) + cost <= self.numbers.capacity)
    }

    fn record(&mut self, now: Nanos, cost: u32, allowed: bool) {
        if allowed {
            self.free_at.retain(|free_at| *free_at > whole(now.0));
            for _ in 0..cost {
                self.free_at.push(self.turn(now) + &self.unit);
            }
        } else if cost > 0 && self.numbers.count_denied {
            // As if just filled.
            let fill = |place: u64| whole(now.0) + &self.unit * whole(place + 1);
            self.free_at = (0..self.numbers.capacity).map(fill).collect();
        }
    }

    fn remaining(&self, now: Nanos) -> Option<u64> {
        Some(self.numbers.capacity - self.taken(now))
    }

    fn reset(&self, now: Nanos) -> Option<Nanos> {
        self.leaves(now)
    }

    fn leaves(&self, now: Nanos) -> Option<Nanos> {
        Some(Nanos(floor(&(self.turn(now) - whole(now.0)).ceil())))
    }
}
