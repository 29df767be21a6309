//! Limits that can be overrun: against slow models with exact rationals, against golden vectors of their own, and the
//! bound that they promise, with costs that are reported after others were asked.
//!
//! `PROPTEST_CASES` runs more cases than the default.

#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "what stays as it is, is asked here")]
mod bucket;
#[path = "overrun/flight.rs"]
mod flight;
#[path = "overrun/golden.rs"]
mod golden;
#[path = "support/limits.rs"]
#[expect(dead_code, reason = "queues hold requests, and these are charged afterwards")]
mod limits;
#[path = "overrun/model.rs"]
mod model;
#[path = "overrun/specs.rs"]
mod specs;
#[path = "overrun/states.rs"]
mod states;
#[path = "support/vectors.rs"]
#[expect(dead_code, reason = "these vectors have a file of their own")]
mod vectors;
#[path = "support/walk.rs"]
#[expect(dead_code, reason = "clocks that step back have a test of their own")]
mod walk;

use bucket::{Answer, Bucket};
use limits::Made;
use model::Model;
use proptest::{prelude::*, test_runner::TestCaseResult};
use ratelimit_common::{
    limit::{Limit, StateKind},
    time::Nanos,
};
use specs::owing;
use walk::{Range, Step, Walk};

/// Where 64 bits of ticks wrap.
const WRAP: Nanos = Nanos(1 << 57);

fn config() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig::default();
    ProptestConfig { cases: if asked { default.cases } else { 100 }, failure_persistence: None, ..default }
}

/// Two years at any of the first two; every debt ends before the wrap.
fn young(start: u64) -> Range {
    let start = Nanos(start % (2 * Nanos::YEAR.0));
    Range { start, end: Nanos(start.0 + Nanos::YEAR.0), back: Nanos(0), idle: WRAP }
}

/// From the wrap on; a bucket goes untouched for three years at most.
fn old(start: u64) -> Range {
    let start = Nanos(WRAP.0 + start % (10 * Nanos::YEAR.0));
    Range { start, end: Nanos(start.0 + 10 * Nanos::YEAR.0), back: Nanos(0), idle: Nanos(3 * Nanos::YEAR.0) }
}

/// Runs a walk and fails at the first thing that is not as the model has it.
fn compare(made: &Made, range: Range, steps: &[Step]) -> TestCaseResult {
    let limit = made.limit();
    let mut bucket = Bucket::fresh(&limit, range.start);
    let mut model = Model::new(&made.spec, made.epoch);
    let mut walk = Walk::new(made, range);
    for &step in steps {
        let (now, cost) = walk.next(step);
        let expected = model.judge(now, cost);
        let answer = bucket.decide(&limit, now, cost);
        let at = || format!("cost {cost} at {now:?} of {made:?}, {answer:?}, {bucket:?}");
        prop_assert_eq!(model::Expected::of(&answer), expected, "{}", at());
        prop_assert!(answer.used <= limit.most_used(), "{}", at());
        promises(&limit, &bucket, now, &answer).map_err(|error| TestCaseError::fail(error + ": " + &at()))?;
        walk.got(cost, answer);
    }
    Ok(())
}

/// Whether the waits of an answer are exact, and what it says fits together.
fn promises(limit: &Limit, bucket: &Bucket, now: Nanos, answer: &Answer) -> Result<(), String> {
    let ensure = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
    let after = |wait: u64| bucket.ask(limit, Nanos(now.0.saturating_add(wait)), 0);
    ensure(!answer.never, "never")?;
    ensure(answer.allowed == answer.retry_after.is_none(), "a time to try again, or none")?;
    ensure(answer.owed == 0 || answer.remaining == 0, "units left and owed")?;
    ensure(answer.used == limit.capacity() - answer.remaining + answer.owed, "used")?;
    let Nanos(reset) = answer.reset_after;
    ensure(reset == 0 || after(reset).owed == 0, "owes at its reset")?;
    if let Some(Nanos(wait)) = answer.retry_after {
        ensure(wait > 0, "denied, to be retried at once")?;
        ensure(!after(wait - 1).allowed, "allowed before the time to try again")?;
        ensure(after(wait).allowed, "denied at the time to try again")?;
        // What a sliding counter has counted weighs on the next window, too.
        let slides = matches!(limit.kind(), StateKind::SlidingCounter | StateKind::WideSlidingCounter);
        ensure(slides || wait <= reset, "to be tried again after its reset")?;
    }
    Ok(())
}

/// Waits are exact whatever the clock has done before.
fn keeps_promises(made: &Made, range: Range, steps: &[Step]) -> TestCaseResult {
    let limit = made.limit();
    let mut bucket = Bucket::fresh(&limit, range.start);
    let mut walk = Walk::new(made, range);
    for &step in steps {
        let (now, cost) = walk.next(step);
        let answer = bucket.decide(&limit, now, cost);
        let at = || format!("cost {cost} at {now:?}, {answer:?}, {bucket:?}");
        promises(&limit, &bucket, now, &answer).map_err(|error| TestCaseError::fail(error + ": " + &at()))?;
        walk.got(cost, answer);
    }
    Ok(())
}

/// When a walk begins: with the table, or at any age.
fn start() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), limits::any_length(57), Just(u64::MAX)]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn decides_as_the_model(made in owing(limits::of), start in start(), steps in walk::in_order(56, 40)) {
        compare(&made, young(start), &steps)?;
    }

    #[test]
    fn waits_are_exact_after_a_clock_has_stepped_back(
        made in owing(limits::of), start in start(), steps in walk::any_order(56, 40),
    ) {
        keeps_promises(&made, Range { back: Nanos::from_secs(3_500), ..young(start) }, &steps)?;
    }

    #[test]
    fn decides_as_the_model_beyond_the_wrap(
        made in owing(limits::short), start in any::<u64>(), steps in walk::in_order(56, 40),
    ) {
        compare(&made, old(start), &steps)?;
    }
}
