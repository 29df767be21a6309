//! The limits: each algorithm, with each flag, small and large numbers.

use std::num::NonZeroU64;

use ratelimit_common::{
    limit::{Algorithm, Limit, LimitSpec, OnLimit, Rate, Refill, StateStorage},
    time::Nanos,
};
use ratelimit_limiter::store::remote::SoftLimit;

/// A limit, the same with other numbers, and a soft limit below both.
pub struct Rule {
    pub limits: [Limit; 2],
    pub soft: Option<SoftLimit>,
}

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;

/// Amounts, and the time that they are for.
const RATES: [(u64, u64); 10] = [
    (1, SECOND),
    (3, SECOND),
    (10, 250 * MILLI),
    (5, MILLI),
    (7, 60 * SECOND),
    (100, 3_600 * SECOND),
    (8_000, SECOND),
    (100, 7 * 86_400 * SECOND),
    (2_000_000, SECOND),
    (1_000_000_007, 86_400 * SECOND),
];

pub fn rules() -> Vec<Rule> {
    let mut rules = Vec::new();
    for (index, (amount, per)) in RATES.into_iter().enumerate() {
        for spec in specs(amount, per) {
            // Every other one has a soft limit, if there is room below it.
            let soft = (rules.len() + index) % 2 == 0;
            rules.extend(rule(spec, soft));
        }
    }
    rules
}

fn specs(amount: u64, per: u64) -> Vec<LimitSpec> {
    use Algorithm::{LeakyBucket, TokenBucket};
    let rate = Rate { amount: NonZeroU64::new(amount).unwrap(), per: Nanos(per) };
    let mut specs = Vec::new();
    for algorithm in Algorithm::ALL {
        let plain = LimitSpec::new(algorithm, rate);
        specs.push(plain);
        specs.push(LimitSpec { count_denied: true, ..plain });
        specs.push(LimitSpec { overrun: true, ..plain });
        if algorithm.is_bucket() {
            specs.push(LimitSpec { burst: NonZeroU64::new(amount * 2 + 1), ..plain });
        }
        if algorithm == LeakyBucket {
            specs.push(LimitSpec { on_limit: OnLimit::Delay, ..plain });
        }
        if algorithm == TokenBucket {
            let interval = LimitSpec { refill: Refill::Interval, ..plain };
            specs.push(interval);
            specs.push(LimitSpec { count_denied: true, burst: NonZeroU64::new(amount * 3), ..interval });
            specs.push(LimitSpec { overrun: true, burst: NonZeroU64::new(amount + 2), ..interval });
        }
    }
    specs
}

fn rule(spec: LimitSpec, has_soft: bool) -> Option<Rule> {
    let amount = spec.rate.amount.get();
    let fewer = NonZeroU64::new(amount - amount / 3)?;
    let burst = spec.burst.and_then(|burst| NonZeroU64::new(burst.get() - burst.get() / 4));
    let other = LimitSpec { rate: Rate { amount: fewer, ..spec.rate }, burst, ..spec };
    let limits = [spec.build(StateStorage::UserSpace).ok()?, other.build(StateStorage::UserSpace).ok()?];
    let least = limits[0].capacity().min(limits[1].capacity());
    let below = NonZeroU64::new(least / 2).filter(|_| has_soft);
    let soft = below.map(|limit| SoftLimit { limit, lasts: Nanos(spec.rate.per.0 / 3 + 500 * MILLI) });
    Some(Rule { limits, soft })
}
