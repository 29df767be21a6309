//! Slow, obvious models of the algorithms, written from their semantics with exact rationals. They know nothing of how
//! the code keeps its states.
//!
//! Clocks that step back: a request before the time that a bucket has come to is judged by what the bucket holds then,
//! and a window that has begun goes on counting, so nothing extra passes.

mod bound;
mod fixed_window;
mod interval;
mod leaky_bucket;
mod sliding_window_counter;
mod sliding_window_log;
mod token_bucket;

use num_rational::BigRational;
use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Refill, StateStorage},
    time::Nanos,
};

pub use bound::{Admitted, check as check_bound};
pub use leaky_bucket::Queue;

/// What a model says about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Denied,
    /// Within the stated precision of the code, which may do one or the other.
    Either,
}

/// One bucket. Costs that it is asked about are at least 1: a request of cost 0 is judged as one of cost 1.
pub trait Model {
    /// Whether `cost` passes.
    fn judge(&self, now: Nanos, cost: u64) -> Verdict;

    /// Takes what a request of `cost` was given; 0 takes nothing.
    fn record(&mut self, now: Nanos, cost: u32, allowed: bool);

    /// Whole units left, unless precision leaves that open.
    fn remaining(&self, now: Nanos) -> Option<u64>;

    /// The time until the window ends or the bucket is full, where precision does not matter.
    fn reset(&self, now: Nanos) -> Option<Nanos>;

    /// The time until a request that is admitted now leaves a queue.
    fn leaves(&self, _now: Nanos) -> Option<Nanos> {
        None
    }
}

/// The numbers of a limit.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    pub amount: u64,
    pub per: Nanos,
    pub capacity: u64,
    pub count_denied: bool,
    /// When the table was made, by the Unix clock.
    pub epoch: Nanos,
}

impl Numbers {
    pub fn of(spec: &LimitSpec, epoch: Nanos) -> Self {
        let amount = spec.rate.amount.get();
        let capacity = spec.burst.map_or(amount, |burst| burst.get());
        Self { amount, per: spec.rate.per, capacity, count_denied: spec.count_denied, epoch }
    }

    /// The number of the epoch-aligned window that `now` lies in.
    fn window(&self, now: Nanos) -> u128 {
        (u128::from(now.0) + u128::from(self.epoch.0)) / u128::from(self.per.0)
    }

    /// The time from `now` until the window of that number ends.
    fn until_end(&self, now: Nanos, window: u128) -> Nanos {
        let unix = u128::from(now.0) + u128::from(self.epoch.0);
        Nanos(((window + 1) * u128::from(self.per.0) - unix) as u64)
    }
}

/// The model of a limit that is kept in `place`, for a bucket that is fresh at `start`.
pub fn of(spec: &LimitSpec, place: StateStorage, epoch: Nanos, start: Nanos) -> Box<dyn Model> {
    let numbers = Numbers::of(spec, epoch);
    match spec.algorithm {
        Algorithm::TokenBucket if spec.refill == Refill::Interval => {
            Box::new(interval::Interval::new(numbers))
        }
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            Box::new(token_bucket::TokenBucket::new(numbers, start))
        }
        Algorithm::FixedWindow => Box::new(fixed_window::FixedWindow::new(numbers)),
        Algorithm::SlidingWindowLog => Box::new(sliding_window_log::Log::new(numbers)),
        Algorithm::SlidingWindowCounter => {
            Box::new(sliding_window_counter::SlidingCounter::new(numbers, place))
        }
    }
}

fn verdict(allowed: bool) -> Verdict {
    if allowed { Verdict::Allowed } else { Verdict::Denied }
}

fn whole(number: impl Into<i128>) -> BigRational {
    BigRational::from_integer(number.into().into())
}

/// `number` rounded down, which must be between 0 and what 64 bits hold.
fn floor(number: &BigRational) -> u64 {
    u64::try_from(number.floor().to_integer()).unwrap_or_else(|_| unreachable!("{number} does not fit"))
}
