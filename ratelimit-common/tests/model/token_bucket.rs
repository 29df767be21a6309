//! Token bucket with continuous refill: tokens that come back evenly, as rationals.
//!
//! The one rounding that the code is allowed is modelled too: the time that an admission takes is rounded down to 1/128
//! ns, so it takes a little less than its cost. The code gets that time from a 64-bit fraction that is rounded up;
//! where cost times amount reaches 2^64 it may be one 1/128 ns more, so there the model keeps a least and a most.

use num_rational::BigRational;
use ratelimit_common::time::Nanos;

use super::{Model, Numbers, Verdict, floor, whole};

/// Parts of a nanosecond that times are rounded to.
const PARTS: u64 = 128;

/// A number of tokens that is known up to the stated precision.
#[derive(Clone, Debug)]
struct Between {
    least: BigRational,
    most: BigRational,
}

pub struct TokenBucket {
    numbers: Numbers,
    /// The time in which one token comes back, in 1/128 ns.
    unit: BigRational,
    /// What the bucket holds.
    full: Between,
    /// What was there at the time `at`.
    tokens: Between,
    at: Nanos,
}

impl TokenBucket {
    pub fn new(numbers: Numbers, start: Nanos) -> Self {
        let unit = BigRational::new(
            (u128::from(numbers.per.0) * u128::from(PARTS)).into(),
            u128::from(numbers.amount).into(),
        );
        let full = worth(&numbers, &unit, numbers.capacity);
        Self { tokens: full.clone(), full, numbers, unit, at: start }
    }

    fn worth(&self, units: u64) -> Between {
        worth(&self.numbers, &self.unit, units)
    }

    /// Tokens at `now`. Before `at` there are fewer: what has come back since is not there yet.
    fn tokens(&self, now: Nanos) -> Between {
        let passed = whole(i128::from(now.0) - i128::from(self.at.0)) * whole(PARTS);
        let come = passed / &self.unit;
        Between {
            least: (&self.tokens.least + &come).min(self.full.least.clone()),
            most: (&self.tokens.most + &come).min(self.full.most.clone()),
        }
    }

    /// The time until the bucket is full.
    fn until_full(&self, now: Nanos) -> Option<Nanos> {
        let missing = self.full.clone().known()? - self.tokens(now).known()?;
        Some(Nanos(floor(&(missing * &self.unit / whole(PARTS)).ceil())))
    }
}

/// The tokens that a cost of `units` takes, and that a capacity of `units` holds: their time is rounded down.
fn worth(numbers: &Numbers, unit: &BigRational, units: u64) -> Between {
    let time = (unit * whole(units)).floor();
    let exact = u128::from(units) * u128::from(numbers.amount) < 1 << 64;
    let most = if exact { time.clone() } else { &time + whole(1) };
    Between { least: time / unit, most: most / unit }
}

impl Between {
    fn known(self) -> Option<BigRational> {
        (self.least == self.most).then_some(self.least)
    }
}

impl Model for TokenBucket {
    fn judge(&self, now: Nanos, cost: u64) -> Verdict {
        let (tokens, takes) = (self.tokens(now), self.worth(cost));
        if cost > self.numbers.capacity || takes.least > tokens.most {
            Verdict::Denied
        } else if takes.most <= tokens.least {
            Verdict::Allowed
        } else {
            Verdict::Either
        }
    }

    fn record(&mut self, now: Nanos, cost: u32, allowed: bool) {
        if cost == 0 || !(allowed || self.numbers.count_denied) {
            return;
        }
        let tokens = self.tokens(now);
        let takes = self.worth(cost.into());
        self.tokens = if allowed {
            Between { least: tokens.least - takes.most, most: tokens.most - takes.least }
        } else {
            // Drained to empty, not into debt, and a debt stays.
            Between { least: tokens.least.min(whole(0)), most: tokens.most.min(whole(0)) }
        };
        self.at = now;
    }

    fn remaining(&self, now: Nanos) -> Option<u64> {
        let tokens = self.tokens(now).known()?;
        let mut units = if tokens < whole(0) { 0 } else { floor(&tokens) };
        while units < self.numbers.capacity && self.worth(units + 1).known()? <= tokens {
            units += 1;
        }
        self.worth(units).known().map(|_| units)
    }

    fn reset(&self, now: Nanos) -> Option<Nanos> {
        self.until_full(now)
    }

    fn leaves(&self, now: Nanos) -> Option<Nanos> {
        self.until_full(now)
    }
}
