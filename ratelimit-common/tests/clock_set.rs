//! The bound after the wall clock was set: whatever is done to it, in any stretch of real time a key gets at most what
//! it could get in one of that length with the clock left alone, and one limit more for each step forward in it. (With
//! `refill: interval`, and for a fixed window that can be overrun, for a step back after one forward, too.) If the
//! limit can be overrun, that holds for all but the last request of the stretch.
#![expect(clippy::expect_used, reason = "a test that can not go on has failed")]

#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "nothing is taken back or forgotten here")]
mod bucket;

use std::num::NonZeroU64;

use bucket::Bucket;
use proptest::{prelude::*, test_runner::TestCaseResult};
use ratelimit_common::{
    algorithm::realign::{ClockStep, realign},
    limit::{Algorithm, Limit, LimitSpec, Rate, Refill, StateKind, StateStorage},
    time::{Nanos, Now},
};

const SECOND: i128 = Nanos::SECOND.0 as i128;
/// When tables are made, by the wall clock as it is then.
const EPOCH: i128 = 1_764_288_000_123_456_789;

/// A table with one bucket, beside a wall clock that is set. Times are real ones, since the table was made.
struct Table {
    spec: LimitSpec,
    limit: Limit,
    bucket: Bucket,
    now: Nanos,
    /// What the wall clock said when the table was made, as it is set now and as windows are aligned to it.
    wall: i128,
    kept: i128,
    admitted: Vec<(Nanos, u64)>,
    forward: Vec<Nanos>,
}

impl Table {
    fn new(spec: LimitSpec, now: Nanos) -> Self {
        let limit = aligned(&spec, EPOCH);
        let bucket = Bucket::fresh(&limit, now);
        Self { spec, limit, bucket, now, wall: EPOCH, kept: EPOCH, admitted: Vec::new(), forward: Vec::new() }
    }

    fn window(&self) -> i128 {
        self.spec.rate.per.0.into()
    }

    fn until_end(&self) -> i128 {
        self.window() - (i128::from(self.now.0) + self.kept).rem_euclid(self.window())
    }

    fn wait(&mut self, by: i128) {
        self.now = Nanos(self.now.0 + u64::try_from(by.max(0)).expect("a time to wait"));
    }

    fn set(&mut self, by: i128) {
        self.wall += by;
        let Some(step) = ClockStep::of(self.wall - self.kept) else { return };
        self.kept = self.wall;
        let limit = aligned(&self.spec, self.kept);
        // A full bucket does not know that it owes it to a step forward.
        let is_bucket = self.limit.kind() == StateKind::Interval;
        let comes_after = is_bucket && !self.forward.is_empty();
        if matches!(step, ClockStep::Forward(_)) || comes_after {
            self.forward.push(self.now);
        }
        let phase = Nanos(self.kept.rem_euclid(self.window()) as u64);
        match &mut self.bucket {
            Bucket::Word(state) => *state = realign(&self.limit, &limit, step, *state, Now(self.now)),
            Bucket::Wide(state) => {
                *state = state.realigned(step, self.spec.rate.per, phase, Now(self.now));
            }
            // It counts back from the present, whatever the wall clock says.
            Bucket::Log(_) => {}
        }
        self.limit = limit;
    }

    /// All that passes at once, up to `most`.
    fn take(&mut self, most: u64) -> u64 {
        let left = self.bucket.ask(&self.limit, self.now, 0).remaining.min(most);
        let cost = u32::try_from(left).expect("a small limit");
        let answer = self.bucket.decide(&self.limit, self.now, cost.max(1));
        assert!(!answer.allowed || left > 0, "{answer:?}");
        if answer.allowed {
            self.admitted.push((self.now, left));
        }
        left
    }

    /// One request of all that passes at once, and so many 60ths of what can be owed.
    fn overrun(&mut self, parts: u64) {
        if !self.limit.overruns() {
            self.take(u64::MAX);
            return;
        }
        let most = (self.limit.most_used() - self.limit.capacity()) * parts / 60;
        let left = self.bucket.ask(&self.limit, self.now, 0).remaining;
        let cost = u32::try_from(left + most).expect("a small limit");
        if left > 0 {
            assert!(self.bucket.decide(&self.limit, self.now, cost).allowed);
            self.admitted.push((self.now, cost.into()));
        }
    }

    /// The most in a stretch of this length, ends included, with the clock left alone.
    fn worst(&self, length: u64) -> u128 {
        let (amount, window) = (u128::from(self.spec.rate.amount.get()), u128::from(self.spec.rate.per.0));
        let (capacity, length) = (u128::from(self.limit.capacity()), u128::from(length));
        // So many windows can end in it.
        let ends = length.div_ceil(window);
        match self.spec.algorithm {
            Algorithm::FixedWindow => amount * (1 + ends),
            Algorithm::SlidingWindowCounter if self.spec.overrun => amount * (1 + ends),
            Algorithm::SlidingWindowCounter => amount + (amount * length).div_ceil(window),
            Algorithm::SlidingWindowLog => amount * (1 + length / window),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => capacity + amount * ends,
        }
    }

    fn check(&self) -> TestCaseResult {
        for (first, &(from, _)) in self.admitted.iter().enumerate() {
            let mut sum = 0;
            for &(to, cost) in &self.admitted[first..] {
                let before = sum;
                sum += u128::from(cost);
                let sum = if self.spec.overrun { before } else { sum };
                let steps = self.forward.iter().filter(|&&step| from <= step && step <= to).count() as u128;
                // A window that a step forward begins may end so much sooner than the old one would have.
                let sooner = steps as u64 * (self.spec.rate.per.0 / 60).min(Nanos::SECOND.0);
                let most = self.worst(to.0 - from.0 + sooner) + steps * u128::from(self.limit.capacity());
                prop_assert!(sum <= most, "{sum} from {from:?} to {to:?}, bound {most}: {:?}", self.admitted);
            }
        }
        Ok(())
    }
}

fn aligned(spec: &LimitSpec, epoch: i128) -> Limit {
    let limit = spec.build(StateStorage::UserSpace).expect("a limit");
    limit.aligned(Nanos(epoch.rem_euclid(i128::from(spec.rate.per.0)) as u64))
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Take(u64),
    Overrun(u64),
    Wait(Length),
    Set(Length),
}

#[derive(Clone, Copy, Debug)]
enum Length {
    Nanos(i128),
    /// So many 60ths of a window.
    Parts(i128),
    /// To the current window's end, and so many windows and nanoseconds.
    End(i128, i128),
}

impl Length {
    fn of(self, table: &Table) -> i128 {
        match self {
            Self::Nanos(nanos) => nanos,
            Self::Parts(parts) => table.window() * parts / 60,
            Self::End(windows, nanos) => table.until_end() + windows * table.window() + nanos,
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let offset = prop_oneof![-1_i128..=1, -2 * SECOND..=2 * SECOND];
    let gap = prop_oneof![
        (0_i128..=120).prop_map(Length::Parts),
        (0_i128..=1, -1_i128..=1).prop_map(|(windows, nanos)| Length::End(windows, nanos)),
    ];
    let step = prop_oneof![
        (-2 * SECOND..=2 * SECOND).prop_map(Length::Nanos),
        (-200_i128..=200).prop_map(Length::Parts),
        (-4_i128..=3, offset).prop_map(|(windows, nanos)| Length::End(windows, nanos)),
        (-100_000_i128..=100_000).prop_map(|minutes| Length::Nanos(minutes * 60 * SECOND)),
    ];
    prop_oneof![
        3 => Just(Event::Take(u64::MAX)),
        1 => (1_u64..=5).prop_map(Event::Take),
        1 => (0_u64..=60).prop_map(Event::Overrun),
        3 => gap.prop_map(Event::Wait),
        2 => step.prop_map(Event::Set),
    ]
}

fn spec() -> impl Strategy<Value = LimitSpec> {
    let seconds = prop_oneof![prop::sample::select(vec![1_u64, 60, 3_600, 86_400]), 1_u64..=300_000];
    // A sliding counter of many in a short window is a wide one.
    let amount = prop_oneof![2 => 1_u64..=12, 2 => 1_u64..=1_000, 2 => Just(5_000_000)];
    let burst = prop::option::of(1_u64..=100);
    (prop::sample::select(Algorithm::ALL.as_slice()), amount, burst, seconds, any::<bool>()).prop_map(
        |(algorithm, amount, burst, seconds, overrun)| {
            let amount = if algorithm == Algorithm::SlidingWindowLog { amount.min(1_000) } else { amount };
            let rate = Rate { amount: number(amount), per: Nanos::from_secs(seconds) };
            let mut spec = LimitSpec::new(algorithm, rate);
            if algorithm == Algorithm::TokenBucket {
                (spec.refill, spec.burst) = (Refill::Interval, burst.map(number));
            }
            // Not where a debt could last longer than a year.
            let owing = LimitSpec { overrun, ..spec };
            if owing.build(StateStorage::UserSpace).is_ok() { owing } else { spec }
        },
    )
}

fn number(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN)
}

fn config() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig::default();
    ProptestConfig { cases: if asked { default.cases } else { 2_000 }, failure_persistence: None, ..default }
}

/// A full bucket loses what a refill brings; one that owes does not, so a refill that comes early is owed whole.
#[test]
fn a_refill_that_comes_early_pays_no_debt() -> TestCaseResult {
    let rate = Rate { amount: number(182), per: Nanos::SECOND };
    let mut spec = LimitSpec::new(Algorithm::TokenBucket, rate);
    (spec.refill, spec.burst, spec.overrun) = (Refill::Interval, Some(number(83)), true);
    let mut table = Table::new(spec, Nanos(0));
    table.wait(table.until_end() - SECOND / 100);
    // All 83, and 636 that are owed. Three refills come before the step, a fourth soon after it.
    table.overrun(46);
    table.wait(SECOND * 5 / 2);
    table.set(SECOND * 7 / 5);
    table.wait(SECOND / 5);
    table.take(u64::MAX);
    table.check()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_key_gets_more_than_its_limit_whatever_is_done_to_the_clock(
        spec in spec(), age in 0_u64..=1_000_000, events in prop::collection::vec(event(), 1..40),
    ) {
        let mut table = Table::new(spec, Nanos::from_secs(age));
        for event in events {
            match event {
                Event::Take(most) => drop(table.take(most)),
                Event::Overrun(parts) => table.overrun(parts),
                Event::Wait(length) => table.wait(length.of(&table)),
                Event::Set(length) => table.set(length.of(&table)),
            }
        }
        table.check()?;
    }
}
