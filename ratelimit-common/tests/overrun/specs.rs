//! Limits that can be overrun as a proptest strategy: those of the other tests, made to fit.

use std::num::NonZeroU64;

use proptest::prelude::*;
use ratelimit_common::{
    limit::{Algorithm, LimitError, LimitSpec, OnLimit, Refill, StateKind, StateStorage},
    time::Nanos,
};

use super::limits::Made;

/// The longest window.
const LONGEST: Nanos = Nanos::from_secs(33 * 86_400);

/// Where products of a cost and an amount stay below 2^64, times of costs are exact to 1/128 ns.
const EXACT: u64 = 1 << 28;

/// What the model of a log has patience for.
const LOG_MOST: u64 = 200;

/// Limits of all kinds, made of those that `of` gives.
pub fn owing<S: Strategy<Value = Made>>(
    of: impl Fn(StateKind) -> S + 'static,
) -> impl Strategy<Value = Made> {
    prop::sample::select(StateKind::ALL.as_slice()).prop_flat_map(of).prop_map(fitted)
}

/// The same limit, if it could be overrun, or one near it that can.
pub fn fitted(made: Made) -> Made {
    let mut spec = LimitSpec { overrun: true, count_denied: false, on_limit: OnLimit::Reject, ..made.spec };
    if spec.algorithm.is_bucket() && spec.refill == Refill::Continuous {
        spec.rate.amount = spec.rate.amount.min(at_least_one(EXACT));
        spec.burst = spec.burst.map(|burst| burst.min(at_least_one(EXACT)));
    }
    if spec.algorithm == Algorithm::SlidingWindowLog {
        spec.rate.amount = spec.rate.amount.min(at_least_one(LOG_MOST));
    }
    loop {
        match spec.build(StateStorage::UserSpace) {
            Ok(_) => return Made { spec, place: StateStorage::UserSpace, ..made },
            Err(LimitError::OverrunTooLong { most: 0 } | LimitError::OverrunWindowTooLong) => {
                spec.rate.per = spec.rate.per.min(LONGEST);
            }
            Err(LimitError::BurstTooLong { most } | LimitError::OverrunTooLong { most }) => {
                spec.burst = Some(at_least_one(most));
            }
            Err(LimitError::AmountTooLarge { most }) => spec.rate.amount = at_least_one(most),
            Err(LimitError::RateTooHigh) => spec.rate.amount = at_least_one(spec.rate.per.0),
            Err(error) => unreachable!("{spec:?}: {error}"),
        }
    }
}

fn at_least_one(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN)
}
