//! Limits around the end of the 4.57 years that a state can count, and around the time when states ahead get there.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::num::NonZeroU64;

use ratelimit_common::{
    algorithm,
    limit::{Algorithm, Limit, LimitSpec, OnLimit, Rate, Refill, StateStorage},
    time::{Nanos, Now},
};

const DAY: u64 = 86_400;
const WEEK: u64 = 7 * DAY;

fn spec(algorithm: Algorithm, amount: u64, seconds: u64, burst: u64) -> LimitSpec {
    let rate = Rate { amount: NonZeroU64::new(amount).unwrap(), per: Nanos::from_secs(seconds) };
    LimitSpec { burst: NonZeroU64::new(burst), ..LimitSpec::new(algorithm, rate) }
}

fn limit(spec: LimitSpec) -> Limit {
    spec.build(StateStorage::Kernel).unwrap()
}

/// A bucket that is made at its first request.
struct Bucket<'l> {
    limit: &'l Limit,
    state: Option<u64>,
}

impl Bucket<'_> {
    fn take(&mut self, at: Nanos, cost: u32) -> bool {
        let state = self.state.unwrap_or(algorithm::fresh(Now(at)));
        let (decision, state) = algorithm::decide(self.limit, state, Now(at), cost);
        self.state = Some(state);
        decision.allowed
    }
}

/// All of a bucket is there at any time after it was not used for as long as it fills, and nothing more.
#[test]
fn every_limit_admits_its_capacity_and_no_more_at_any_time() {
    let interval = |amount, seconds, burst| LimitSpec {
        refill: Refill::Interval,
        ..spec(Algorithm::TokenBucket, amount, seconds, burst)
    };
    let specs = [
        spec(Algorithm::TokenBucket, 1, DAY, 300),
        spec(Algorithm::TokenBucket, 1, 30 * DAY, 12),
        spec(Algorithm::TokenBucket, 1, 51 * WEEK, 1),
        spec(Algorithm::TokenBucket, 1_000, 1, 1_000),
        spec(Algorithm::LeakyBucket, 1, DAY, 300),
        interval(1, DAY, 300),
        interval(5, DAY, 5),
        interval(1, 51 * WEEK, 1),
        spec(Algorithm::FixedWindow, 5, DAY, 0),
        spec(Algorithm::FixedWindow, 5, 30 * DAY, 0),
        spec(Algorithm::FixedWindow, 1, 51 * WEEK, 0),
        spec(Algorithm::SlidingWindowCounter, 5, DAY, 0),
        spec(Algorithm::SlidingWindowCounter, 5, WEEK, 0),
        spec(Algorithm::SlidingWindowCounter, 5, 30 * DAY, 0),
        spec(Algorithm::SlidingWindowCounter, 5, 51 * WEEK, 0),
    ];
    let wrap = 1 << 57;
    for spec in specs {
        let limit = limit(spec);
        let capacity = spec.burst.unwrap_or(spec.rate.amount).get() as u32;
        // Long enough for a bucket to fill, and for two windows to end.
        let step = 2 * spec.rate.per.0.max(limit.fills_in().to_nanos_up().0) + 1;
        let mut bucket = Bucket { limit: &limit, state: None };
        let start = Nanos::from_secs(2 * DAY).0;
        let times = (0..).map(|index| start + index * step).take_while(|&at| at < 2 * wrap);
        let near = [wrap - step, wrap - step / 2, wrap - 2, wrap - 1, wrap, wrap + 1, wrap + step / 3];
        // A step may not be shorter, or this would take forever.
        let times = times.step_by((wrap / step / 5_000).max(1) as usize);
        for at in times.map(Nanos) {
            assert!(bucket.take(at, capacity), "full again: {spec:?} at {at:?}");
            assert!(!bucket.take(at, 1), "taken: {spec:?} at {at:?}");
        }
        // A key that nobody has seen has all of it.
        for at in near.map(Nanos) {
            let mut bucket = Bucket { limit: &limit, state: None };
            assert!(bucket.take(at, capacity), "new: {spec:?} at {at:?}");
            assert!(!bucket.take(at, 1), "taken: {spec:?} at {at:?}");
            assert!(!bucket.take(Nanos(at.0 + 1), 1), "still taken: {spec:?} at {at:?}");
        }
    }
}

#[test]
fn what_is_held_back_leaves_in_order_across_the_wrap() {
    let queue = LimitSpec { on_limit: OnLimit::Delay, ..spec(Algorithm::LeakyBucket, 1, DAY, 300) };
    let limit = queue.build(StateStorage::UserSpace).unwrap();
    let at = Nanos::from_secs(141_900_000);
    let mut bucket = Bucket { limit: &limit, state: None };
    assert!(bucket.take(at, 300));
    assert!(!bucket.take(at, 1));
    assert!(!bucket.take(Nanos(at.0 + DAY * 1_000_000_000 - 1), 1));
    assert!(bucket.take(Nanos(at.0 + DAY * 1_000_000_000), 1));
}
