//! Limits as proptest strategies: anything that the configuration accepts, with its edges, for one kind of state each.

use std::num::NonZeroU64;

use proptest::prelude::*;
use ratelimit_common::{
    limit::{Algorithm, Limit, LimitError, LimitSpec, OnLimit, Rate, Refill, StateKind, StateStorage},
    time::Nanos,
};

/// A limit, and where and for which table it is built.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    pub spec: LimitSpec,
    pub place: StateStorage,
    pub epoch: Nanos,
}

impl Made {
    pub fn limit(&self) -> Limit {
        let built = self.spec.build(self.place);
        built.unwrap_or_else(|error| unreachable!("{self:?}: {error}")).aligned(self.epoch)
    }

    /// The longest time from the present until the bucket is idle whatever it was charged, rounded up.
    pub fn horizon(&self) -> Nanos {
        let rate = self.spec.rate;
        let capacity = self.spec.burst.unwrap_or(rate.amount).get();
        let full = u128::from(rate.per.0) * u128::from(capacity) / u128::from(rate.amount.get()) + 2;
        Nanos(match self.limit().kind() {
            StateKind::ArrivalTime => full as u64,
            StateKind::SlidingCounter | StateKind::WideSlidingCounter => full as u64 + 3 * rate.per.0,
            StateKind::Interval | StateKind::Window | StateKind::Log => full as u64 + 2 * rate.per.0,
        })
    }
}

/// Whether such a bucket fills as time passes. Other kinds count requests, in windows that end.
pub fn fills(limit: &Limit) -> bool {
    match limit.kind() {
        StateKind::ArrivalTime | StateKind::Interval => true,
        StateKind::Window | StateKind::SlidingCounter | StateKind::WideSlidingCounter | StateKind::Log => {
            false
        }
    }
}

/// A number below 2^`bits`, each length of digits as likely as any other.
pub fn any_length(bits: u32) -> impl Strategy<Value = u64> {
    (1..=bits).prop_flat_map(|bits| (1_u64 << (bits - 1))..=(u64::MAX >> (64 - bits)))
}

fn unit() -> impl Strategy<Value = Nanos> {
    prop::sample::select(vec![1, 60, 900, 3_600, 86_400, 604_800]).prop_map(Nanos::from_secs)
}

/// From 1 a week to 100 M/s, 100 Gbit/s in bytes, a few in a few nanoseconds (where every 1/128 ns counts), and
/// whatever else fits.
fn rate() -> impl Strategy<Value = (u64, Nanos)> {
    let extremes = vec![
        (1, Nanos::from_secs(604_800)),
        (1, Nanos::YEAR),
        (100_000_000, Nanos::SECOND),
        (12_500_000_000, Nanos::SECOND),
        (u64::MAX, Nanos::YEAR),
        (u64::MAX, Nanos(1)),
    ];
    prop_oneof![
        4 => (1_u64..=12, unit()),
        3 => (any_length(27), unit()),
        1 => (64_u64..=12_500_000_000, Just(Nanos::SECOND)),
        1 => prop::sample::select(extremes),
        2 => (1_u64..=200, (1_u64..=50).prop_map(Nanos)),
        2 => (any_length(45), any_length(55).prop_map(|per| Nanos(per.min(Nanos::YEAR.0)))),
    ]
}

/// Rates of windows of an hour at most.
fn short_rate() -> impl Strategy<Value = (u64, Nanos)> {
    let unit = prop::sample::select(vec![1, 60, 900, 3_600]).prop_map(Nanos::from_secs);
    (prop_oneof![1_u64..=12, any_length(33)], unit)
}

fn burst() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![2 => Just(None), 3 => (1_u64..=12).prop_map(Some), 3 => any_length(64).prop_map(Some)]
}

fn epoch() -> impl Strategy<Value = Nanos> {
    prop_oneof![Just(0), Just(1_764_288_000_123_456_789), any_length(61)].prop_map(Nanos)
}

/// Limits whose states are of `kind`.
pub fn of(kind: StateKind) -> impl Strategy<Value = Made> {
    made(kind, rate(), |spec| spec)
}

/// The same with windows, and times to fill, of an hour at most.
pub fn short(kind: StateKind) -> impl Strategy<Value = Made> {
    made(kind, short_rate(), |mut spec| {
        let most = spec.rate.amount.get() * (Nanos::from_secs(3_600).0 / spec.rate.per.0);
        spec.burst = spec.burst.map(|burst| burst.min(at_least_one(most)));
        spec
    })
}

/// Queues whose unit takes a whole number of 1/128 ns, and that have few places.
pub fn queue() -> impl Strategy<Value = Made> {
    let unit = prop_oneof![
        (any_length(45), 1_u64..=20).prop_map(|(nanos, amount)| (amount, nanos * amount)),
        (any_length(45), 1_u64..=20).prop_map(|(parts, count)| (128 * count, parts * count)),
    ];
    (unit, 1_u64..=20, any::<bool>()).prop_map(|((amount, per), burst, count_denied)| {
        let rate = Rate { amount: at_least_one(amount), per: Nanos(per) };
        let mut spec = LimitSpec::new(Algorithm::LeakyBucket, rate);
        (spec.burst, spec.count_denied, spec.on_limit) =
            (Some(at_least_one(burst)), count_denied, OnLimit::Delay);
        fitted(StateKind::ArrivalTime, spec, StateStorage::UserSpace, Nanos(0))
    })
}

fn made(
    kind: StateKind,
    rate: impl Strategy<Value = (u64, Nanos)>,
    narrow: impl Fn(LimitSpec) -> LimitSpec,
) -> impl Strategy<Value = Made> {
    let flags = any::<(bool, bool, bool)>();
    (rate, burst(), flags, epoch()).prop_map(move |((amount, per), burst, (denied, delay, kernel), epoch)| {
        let mut spec = LimitSpec::new(algorithm(kind, delay), Rate { amount: at_least_one(amount), per });
        spec.count_denied = denied;
        match kind {
            StateKind::ArrivalTime => spec.burst = burst.map(at_least_one),
            StateKind::Interval => (spec.refill, spec.burst) = (Refill::Interval, burst.map(at_least_one)),
            _ => {}
        }
        if spec.algorithm == Algorithm::LeakyBucket {
            spec.on_limit = OnLimit::Delay;
        }
        let place = if kernel { StateStorage::Kernel } else { StateStorage::UserSpace };
        fitted(kind, narrow(spec), place, epoch)
    })
}

fn algorithm(kind: StateKind, delay: bool) -> Algorithm {
    match kind {
        StateKind::ArrivalTime if delay => Algorithm::LeakyBucket,
        StateKind::ArrivalTime | StateKind::Interval => Algorithm::TokenBucket,
        StateKind::Window => Algorithm::FixedWindow,
        StateKind::Log => Algorithm::SlidingWindowLog,
        StateKind::SlidingCounter | StateKind::WideSlidingCounter => Algorithm::SlidingWindowCounter,
    }
}

/// The limit with the numbers nearest to those given that the configuration accepts, and that give states of `kind`.
pub fn fitted(kind: StateKind, mut spec: LimitSpec, place: StateStorage, epoch: Nanos) -> Made {
    let place = match kind {
        StateKind::SlidingCounter => StateStorage::Kernel,
        StateKind::Log | StateKind::WideSlidingCounter => StateStorage::UserSpace,
        StateKind::ArrivalTime if spec.on_limit == OnLimit::Delay => StateStorage::UserSpace,
        StateKind::ArrivalTime | StateKind::Interval | StateKind::Window => place,
    };
    loop {
        let most = match spec.build(place) {
            Ok(limit) if kind == StateKind::WideSlidingCounter && limit.kind() != kind => {
                // Just too large for half a word.
                spec.rate.amount = at_least_one((spec.rate.amount.get() + 1).next_power_of_two());
                continue;
            }
            Ok(_) => return Made { spec, place, epoch },
            Err(LimitError::BurstTooLong { most }) => {
                spec.burst = Some(at_least_one(most));
                continue;
            }
            Err(LimitError::RateTooHigh) => spec.rate.per.0 * 128,
            Err(LimitError::LogTooLarge) => 10_000,
            Err(LimitError::AmountTooLarge { most }) => most,
            Err(error) => unreachable!("{spec:?}: {error}"),
        };
        spec.rate.amount = at_least_one(most);
    }
}

fn at_least_one(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN)
}
