//! The algorithms against slow, obvious models with exact rationals: any limit that the configuration accepts, any
//! arrivals, costs, idle times, and clocks that step back.
//!
//! `PROPTEST_CASES` runs more cases than the default. What is compared, and to what precision, stands with each model.

#[path = "support/agreement.rs"]
mod agreement;
#[path = "support/bucket.rs"]
mod bucket;
#[path = "support/limits.rs"]
mod limits;
mod model;
#[path = "properties/states.rs"]
mod states;
#[path = "properties/undo.rs"]
mod undo;
#[path = "support/walk.rs"]
mod walk;

use bucket::{Answer, Bucket};
use limits::Made;
use model::{Admitted, Model, Numbers, Queue, Verdict};
use proptest::{prelude::*, test_runner::TestCaseResult};
use ratelimit_common::{
    limit::{Limit, StateKind},
    time::Nanos,
};
use walk::{Range, Step, Walk};

/// Where 64 bits of ticks wrap.
const WRAP: Nanos = Nanos(1 << 57);
/// How far a clock may step back at any age.
const BACK: Nanos = Nanos::from_secs(3_500);
/// Until here the order of times is plain and every debt that the tests make ends before the wrap.
const PLAIN: Nanos = Nanos(Nanos::YEAR.0 / 2 * 9);

fn config() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig::default();
    ProptestConfig { cases: if asked { default.cases } else { 100 }, failure_persistence: None, ..default }
}

/// Uptimes up to 4.5 years, at any of which the walk may begin, and debts and windows that end before the wrap. A clock
/// may step back by an hour, in the first year by any time.
fn plain(made: &Made, start: u64) -> Range {
    let ahead = made.horizon().0 + made.spec.rate.per.0 / 4 + 2 * BACK.0;
    let young = start.is_multiple_of(2);
    let most = if young { Nanos::YEAR } else { PLAIN };
    let end = most.min(Nanos(WRAP.0 - ahead));
    let back = if young { most } else { BACK };
    Range { start: Nanos(start).min(end), end, back, idle: Nanos(WRAP.0 - ahead) }
}

/// Uptimes from the wrap to 20 years; a clock may step back by an hour, and a bucket go untouched for three years.
fn beyond(start: u64) -> Range {
    let end = Nanos(Nanos::YEAR.0 * 20);
    let start = Nanos(WRAP.0 + start % (end.0 - WRAP.0));
    Range { start, end, back: BACK, idle: Nanos(Nanos::YEAR.0 * 3) }
}

/// However long a bucket goes untouched and whatever the wrap makes of its state, what passes stays within the bound.
fn bounded(made: &Made, range: Range, steps: &[Step]) -> TestCaseResult {
    let limit = made.limit();
    let mut bucket = Bucket::fresh(&limit, range.start);
    let mut walk = Walk::new(made, range);
    let mut admitted = Vec::new();
    for &step in steps {
        let (now, cost) = walk.next(step);
        let answer = bucket.decide(&limit, now, cost);
        let latest = walk.got(cost, answer);
        if answer.allowed {
            admitted.push(Admitted { stamp: now, latest, cost });
        }
    }
    model::check_bound(&made.spec, made.epoch, &admitted).map_err(TestCaseError::fail)
}

/// Runs a walk and fails at the first thing that is not as the model has it.
fn decisions(made: &Made, range: Range, steps: &[Step]) -> TestCaseResult {
    let mut model = model::of(&made.spec, made.place, made.epoch, range.start);
    compare(made, range, steps, model.as_mut())
}

fn compare(made: &Made, range: Range, steps: &[Step], model: &mut dyn Model) -> TestCaseResult {
    let limit = made.limit();
    let mut bucket = Bucket::fresh(&limit, range.start);
    let mut walk = Walk::new(made, range);
    let mut admitted = Vec::new();
    for &step in steps {
        let (now, cost) = walk.next(step);
        let leaves = model.leaves(now);
        let verdict = model.judge(now, cost.max(1).into());
        let answer = bucket.decide(&limit, now, cost);
        let at = || format!("cost {cost} at {now:?}, {answer:?}");
        prop_assert!(agrees(verdict, answer.allowed), "expected {verdict:?}: {}", at());
        model.record(now, cost, answer.allowed);
        numbers(&limit, model, now, leaves, &answer).map_err(|error| fail(error, at()))?;
        let latest = walk.got(cost, answer);
        comes_true(&limit, &bucket, &walk, cost, &answer).map_err(|error| fail(error, at()))?;
        if answer.allowed {
            admitted.push(Admitted { stamp: now, latest, cost });
        }
    }
    model::check_bound(&made.spec, made.epoch, &admitted).map_err(TestCaseError::fail)
}

/// Whether what the answer promises comes true, as far as the promise lies within the range of the walk.
fn comes_true(
    limit: &Limit,
    bucket: &Bucket,
    walk: &Walk<'_>,
    cost: u32,
    answer: &Answer,
) -> Result<(), String> {
    let now = walk.now();
    if answer.retry_after.is_none_or(|wait| walk.covers(wait)) {
        agreement::check(limit, bucket, now, cost, answer)?;
    }
    if limits::fills(limit) && walk.covers(answer.reset_after) {
        agreement::check_reset(limit, bucket, now, answer.reset_after)?;
    }
    Ok(())
}

fn fail(error: String, at: String) -> TestCaseError {
    TestCaseError::fail(format!("{error}: {at}"))
}

fn agrees(verdict: Verdict, allowed: bool) -> bool {
    match verdict {
        Verdict::Allowed => allowed,
        Verdict::Denied => !allowed,
        Verdict::Either => true,
    }
}

/// The numbers of an answer against what the model has after the request.
fn numbers(
    limit: &Limit,
    model: &dyn Model,
    now: Nanos,
    leaves: Option<Nanos>,
    answer: &Answer,
) -> Result<(), String> {
    let expected = model.remaining(now);
    if expected.is_some_and(|expected| expected != answer.remaining) {
        return Err(format!("expected {expected:?} remaining"));
    }
    let expected = model.reset(now);
    if expected.is_some_and(|expected| expected != answer.reset_after) {
        return Err(format!("expected a reset after {expected:?}"));
    }
    if limit.delays() && answer.allowed && leaves.is_some() && leaves != answer.leaves_after {
        return Err(format!("expected to leave after {leaves:?}"));
    }
    if answer.leaves_after.is_some() != (limit.delays() && answer.allowed) {
        return Err("a time to leave".into());
    }
    Ok(())
}

macro_rules! decides_as_the_model {
    ($($name:ident: $kind:ident, $steps:expr;)*) => {
        // Each kind of state has a line.
        const _: fn(StateKind) = |kind| match kind {
            $(StateKind::$kind => {})*
        };

        $(mod $name {
            use super::*;

            proptest! {
                #![proptest_config(config())]

                #[test]
                fn decides_as_the_model(
                    made in limits::of(StateKind::$kind), start in start(), steps in walk::any_order(58, $steps),
                ) {
                    decisions(&made, plain(&made, start), &steps)?;
                }

                #[test]
                fn decides_as_the_model_beyond_the_wrap(
                    made in limits::short(StateKind::$kind), start in any::<u64>(), steps in walk::any_order(57, $steps),
                ) {
                    decisions(&made, beyond(start), &steps)?;
                }
            }
        })*
    };
}

decides_as_the_model! {
    token_bucket: ArrivalTime, 60;
    token_bucket_interval: Interval, 60;
    fixed_window: Window, 60;
    sliding_window_counter: SlidingCounter, 60;
    wide_sliding_window_counter: WideSlidingCounter, 60;
    sliding_window_log: Log, 30;
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_leaky_bucket_is_a_queue_with_a_place_for_each_unit(
        made in limits::queue(), start in start(), steps in walk::in_order(58, 60),
    ) {
        let mut queue = Queue::new(Numbers::of(&made.spec, made.epoch));
        compare(&made, plain(&made, start), &steps, &mut queue)?;
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn stays_within_the_bound_after_any_idle_time(
        made in states::kind().prop_flat_map(limits::short), start in any::<u64>(), steps in walk::any_order(58, 60),
    ) {
        bounded(&made, Range { idle: Nanos(u64::MAX), ..beyond(start) }, &steps)?;
    }
}

/// When a walk begins: with the table, or at any age.
fn start() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), limits::any_length(57), Just(u64::MAX)]
}
