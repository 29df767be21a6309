//! Slow, obvious models of limits that can be overrun, with exact rationals. They know nothing of how the code keeps
//! states.
//!
//! Clocks do not step back here.

use num_rational::BigRational;
use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Refill},
    time::Nanos,
};

use super::bucket::Answer;

/// What can be used, in capacities.
const CAPACITIES: u128 = 11;

/// What is expected of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    pub allowed: bool,
    pub remaining: u64,
    pub owed: u64,
    pub cut: u64,
}

impl Expected {
    pub fn of(answer: &Answer) -> Self {
        let Answer { allowed, remaining, owed, cut, .. } = *answer;
        Self { allowed, remaining, owed, cut }
    }
}

/// One bucket.
pub struct Model {
    amount: u128,
    per: u128,
    capacity: u128,
    epoch: u128,
    kind: Kind,
}

enum Kind {
    Continuous(Continuous),
    Interval {
        missing: u128,
        interval: u128,
    },
    Sliding {
        previous: u128,
        current: u128,
        window: u128,
    },
    /// When each unit enters the window, in order.
    Log(Vec<u128>),
}

impl Model {
    pub fn new(spec: &LimitSpec, epoch: Nanos) -> Self {
        let amount = u128::from(spec.rate.amount.get());
        let capacity = spec.burst.map_or(amount, |burst| burst.get().into());
        let kind = match spec.algorithm {
            Algorithm::TokenBucket if spec.refill == Refill::Interval => {
                Kind::Interval { missing: 0, interval: 0 }
            }
            Algorithm::FixedWindow => Kind::Interval { missing: 0, interval: 0 },
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Kind::Continuous(Continuous::new(spec)),
            Algorithm::SlidingWindowCounter => Kind::Sliding { previous: 0, current: 0, window: 0 },
            Algorithm::SlidingWindowLog => Kind::Log(Vec::new()),
        };
        Self { amount, per: spec.rate.per.0.into(), capacity, epoch: epoch.0.into(), kind }
    }

    /// What a request gets, which is charged.
    pub fn judge(&mut self, now: Nanos, cost: u32) -> Expected {
        self.pass_to(now);
        if let Kind::Continuous(bucket) = &mut self.kind {
            return bucket.judge(cost);
        }
        let allowed = self.remaining(now) > 0;
        let room = CAPACITIES * self.capacity - self.counted(now);
        let taken = u128::from(cost).min(room);
        self.take(now, taken);
        let owed = self.owed(now);
        Expected {
            allowed,
            remaining: self.remaining(now) as u64,
            owed: owed as u64,
            cut: (u128::from(cost) - taken) as u64,
        }
    }

    fn window(&self, now: Nanos) -> u128 {
        (u128::from(now.0) + self.epoch) / self.per
    }

    /// All that comes back until the present.
    fn pass_to(&mut self, now: Nanos) {
        let (present, amount) = (self.window(now), self.amount);
        match &mut self.kind {
            Kind::Continuous(bucket) => bucket.pass_to(now),
            Kind::Interval { missing, interval } => {
                *missing = missing.saturating_sub(amount.saturating_mul(present - *interval));
                *interval = present;
            }
            Kind::Sliding { previous, current, window } => {
                while *window < present && (*previous > 0 || *current > 0) {
                    *previous = (*current).min(amount);
                    *current -= *previous;
                    *window += 1;
                }
                *window = present;
            }
            Kind::Log(_) => {}
        }
    }

    fn take(&mut self, now: Nanos, units: u128) {
        let (amount, per) = (self.amount as usize, self.per);
        match &mut self.kind {
            Kind::Continuous(_) => {}
            Kind::Interval { missing, .. } => *missing += units,
            Kind::Sliding { current, .. } => *current += units,
            Kind::Log(enters) => {
                for _ in 0..units {
                    let room = enters.len().checked_sub(amount).map_or(0, |before| enters[before] + per);
                    enters.push(room.max(now.0.into()));
                }
            }
        }
    }

    /// All units that count, and those that are owed.
    fn counted(&self, now: Nanos) -> u128 {
        match &self.kind {
            Kind::Continuous(_) => 0,
            Kind::Interval { missing, .. } => *missing,
            Kind::Sliding { current, .. } => *current,
            Kind::Log(enters) => {
                enters.iter().filter(|&&enters| enters + self.per > now.0.into()).count() as u128
            }
        }
    }

    fn owed(&self, now: Nanos) -> u128 {
        match &self.kind {
            Kind::Log(enters) => enters.iter().filter(|&&enters| enters > now.0.into()).count() as u128,
            _ => self.counted(now).saturating_sub(self.capacity),
        }
    }

    fn remaining(&self, now: Nanos) -> u128 {
        let weighs = match &self.kind {
            Kind::Sliding { previous, .. } => {
                let left = self.per - (u128::from(now.0) + self.epoch) % self.per;
                previous * left / self.per
            }
            _ => 0,
        };
        self.capacity.saturating_sub(self.counted(now) + weighs)
    }
}

/// Tokens that come back evenly. All times are in 1/128 ns, and that of a number of tokens is rounded down.
struct Continuous {
    unit: BigRational,
    capacity: u128,
    /// The time until it is full.
    missing: BigRational,
    at: u64,
}

fn whole(number: u128) -> BigRational {
    BigRational::from_integer(number.into())
}

impl Continuous {
    fn new(spec: &LimitSpec) -> Self {
        let unit =
            BigRational::new((u128::from(spec.rate.per.0) * 128).into(), spec.rate.amount.get().into());
        let capacity = spec.burst.unwrap_or(spec.rate.amount).get().into();
        Self { unit, capacity, missing: whole(0), at: 0 }
    }

    fn time_of(&self, units: u128) -> BigRational {
        (&self.unit * whole(units)).floor()
    }

    fn full(&self) -> BigRational {
        self.time_of(self.capacity)
    }

    /// The largest number of tokens whose time is not above `time`.
    fn units_in(&self, time: &BigRational) -> u128 {
        let quotient = (time / &self.unit).floor().to_integer();
        let mut units = u128::try_from(quotient).unwrap_or(0);
        while self.time_of(units + 1) <= *time {
            units += 1;
        }
        units
    }

    fn pass_to(&mut self, now: Nanos) {
        let passed = whole(u128::from(now.0 - self.at) * 128);
        self.missing = (&self.missing - passed).max(whole(0));
        self.at = now.0;
    }

    fn judge(&mut self, cost: u32) -> Expected {
        let allowed = &self.missing + self.time_of(1) <= self.full();
        let most = self.full() * whole(CAPACITIES);
        let room = self.units_in(&(&most - &self.missing));
        self.missing = (&self.missing + self.time_of(cost.into())).min(most);
        let left = self.full() - &self.missing;
        let (remaining, owed) = if left < whole(0) {
            let debt = -left;
            let paid = self.units_in(&debt);
            (0, paid + u128::from(self.time_of(paid) < debt))
        } else {
            (self.units_in(&left).min(self.capacity), 0)
        };
        let cut = u128::from(cost).saturating_sub(room);
        Expected { allowed, remaining: remaining as u64, owed: owed as u64, cut: cut as u64 }
    }
}
