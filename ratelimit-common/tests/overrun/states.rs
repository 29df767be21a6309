//! States of limits that can be overrun: when they may be forgotten, what a changed limit and a refund make of them,
//! and that no state, time or cost makes the code panic.

use std::num::NonZeroU64;

use ratelimit_common::{
    algorithm::{self, sliding_window_counter::WideState, sliding_window_log},
    limit::{Algorithm, LimitError, LimitSpec, OnLimit, Rate, Refill, StateStorage},
    table::BUSY,
    time::Now,
};

use super::*;

/// From the first moment that a bucket is idle, it and a fresh one answer alike for ever.
fn idle_is_fresh(made: &Made, range: Range, steps: &[Step]) -> TestCaseResult {
    let limit = made.limit();
    let mut bucket = Bucket::fresh(&limit, range.start);
    let mut twin = None;
    let mut walk = Walk::new(made, range);
    let mut used = false;
    for &step in steps {
        let (now, cost) = walk.next(step);
        if used && twin.is_none() && bucket.is_idle(&limit, now) {
            twin = Some(Bucket::fresh(&limit, now));
        }
        let answer = bucket.decide(&limit, now, cost);
        if let Some(twin) = &mut twin {
            prop_assert_eq!(twin.decide(&limit, now, cost), answer, "{:?} at {:?}", twin, now);
        }
        used |= answer.used > 0;
        let idle = bucket.is_idle(&limit, now);
        prop_assert!(!idle || answer.used == 0, "{answer:?}, idle: {bucket:?} at {now:?}");
        walk.got(cost, answer);
    }
    let Nanos(reset) = bucket.ask(&limit, walk.now(), 0).reset_after;
    // What the last window has counted weighs on the next one.
    let end = Nanos(walk.now().0 + reset + 2 * made.spec.rate.per.0);
    prop_assert!(bucket.is_idle(&limit, end), "{bucket:?} not idle at {end:?}");
    Ok(())
}

/// A refund of all that is owed and was used gives everything back; one of a part pays the debt first.
fn refunded(made: &Made, range: Range, steps: &[Step], parts: u32) -> TestCaseResult {
    let limit = made.limit();
    let mut bucket = Bucket::fresh(&limit, range.start);
    let mut walk = Walk::new(made, range);
    for &step in steps {
        let (now, cost) = walk.next(step);
        let answer = bucket.decide(&limit, now, cost);
        walk.got(cost, answer);
    }
    let now = walk.now();
    let before = bucket.ask(&limit, now, 0);
    let units = u32::try_from(before.owed / 4 * u64::from(parts)).unwrap_or(u32::MAX);
    refund(&mut bucket, &limit, now, units);
    let after = bucket.ask(&limit, now, 0);
    // The time of units is rounded down.
    let slack = u64::from(limit.kind() == StateKind::ArrivalTime);
    let expected = before.owed - u64::from(units);
    prop_assert!((expected..=expected + slack).contains(&after.owed), "{units}: {before:?}, {after:?}");
    promises(&limit, &bucket, now, &after).map_err(TestCaseError::fail)
}

/// Another limit reads the state, and nothing that it can owe is forgiven.
fn clamped(made: &Made, smaller: u64, range: Range, steps: &[Step]) -> TestCaseResult {
    let limit = made.limit();
    let mut bucket = Bucket::fresh(&limit, range.start);
    let mut walk = Walk::new(made, range);
    for &step in steps {
        let (now, cost) = walk.next(step);
        let answer = bucket.decide(&limit, now, cost);
        walk.got(cost, answer);
        if let Bucket::Word(state) = bucket {
            prop_assert_eq!(algorithm::clamp(&limit, state, Now(now)), state, "the limit has not changed");
        }
        let amount = NonZeroU64::new(made.spec.rate.amount.get() / smaller).unwrap_or(NonZeroU64::MIN);
        let rate = Rate { amount, ..made.spec.rate };
        let changed = specs::fitted(Made { spec: LimitSpec { rate, ..made.spec }, ..*made }).limit();
        if changed.shape() != limit.shape() || changed.kind() != limit.kind() {
            break;
        }
        let clamped = match &bucket {
            Bucket::Word(state) => Bucket::Word(algorithm::clamp(&changed, *state, Now(now))),
            other => other.clone(),
        };
        let is = clamped.ask(&changed, now, 0);
        promises(&changed, &clamped, now, &is).map_err(TestCaseError::fail)?;
        prop_assert!(is.used <= changed.most_used(), "{is:?}");
        // A bucket is full when it would have been, but for what is more than can be owed.
        if limits::fills(&limit) {
            let is_as_before = is.reset_after == answer.reset_after;
            prop_assert!(is_as_before || is.used == changed.most_used(), "{answer:?}, {is:?}");
        }
        // What is owed lasts as long as it would have, or as long as all that can be owed.
        prop_assert!(
            answer.owed == 0 || is.owed > 0 || is.remaining < changed.capacity(),
            "{answer:?}, {is:?}"
        );
    }
    Ok(())
}

fn does_not_panic(limit: &Limit, state: u64, [now, later]: [u64; 2], cost: u32) -> TestCaseResult {
    let (now, later) = (Now(Nanos(now)), Now(Nanos(later)));
    let (decision, after) = algorithm::decide(limit, state, now, cost);
    let numbers = (decision.retry_after(), decision.reset_after(), decision.next_after(), decision.cut());
    prop_assert!(decision.remaining() <= limit.capacity(), "{numbers:?}");
    prop_assert!(after < BUSY, "{after:#x}");
    prop_assert!(decision.owed() == 0 || decision.remaining() == 0);
    prop_assert!(algorithm::undo(limit, after, now, later, cost) < BUSY);
    prop_assert!(algorithm::clamp(limit, state, now) < BUSY);
    prop_assert!(algorithm::report(limit, state, now, cost).1 < BUSY);
    prop_assert!(algorithm::share_used(limit, state, now) <= 1 << 16);
    if limit.kind() == StateKind::SlidingCounter {
        let _ = WideState::of_word(limit, state, now).decide(limit, later, cost);
    }
    Ok(())
}

/// A wide counter made of a word goes on as the word does.
fn goes_on(made: &Made, range: Range, steps: &[Step]) -> TestCaseResult {
    let limit = made.limit();
    let mut bucket = Bucket::fresh(&limit, range.start);
    let mut walk = Walk::new(made, range);
    for &step in steps {
        let (now, cost) = walk.next(step);
        let Bucket::Word(word) = bucket else { break };
        if limit.kind() != StateKind::SlidingCounter {
            break;
        }
        let wide = Bucket::Wide(WideState::of_word(&limit, word, Now(now)));
        let answer = bucket.decide(&limit, now, cost);
        prop_assert_eq!(wide.ask(&limit, now, cost), answer, "{:#x} at {:?}", word, now);
        walk.got(cost, answer);
    }
    Ok(())
}

fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), limits::any_length(60)]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_idle_bucket_is_as_good_as_new(
        made in owing(limits::of), start in start(), steps in walk::in_order(56, 40),
    ) {
        idle_is_fresh(&made, young(start), &steps)?;
    }

    #[test]
    fn a_refund_pays_the_debt_first(
        made in owing(limits::of), start in start(), steps in walk::in_order(50, 20), parts in 0_u32..=4,
    ) {
        refunded(&made, young(start), &steps, parts)?;
    }

    #[test]
    fn a_changed_limit_forgives_no_debt(
        made in owing(limits::of), smaller in 1_u64..=3, start in start(), steps in walk::in_order(50, 20),
    ) {
        clamped(&made, smaller, young(start), &steps)?;
    }

    #[test]
    fn a_wide_counter_goes_on_as_the_word_it_is_made_of(
        made in owing(|_| limits::of(StateKind::SlidingCounter)), start in start(), steps in walk::in_order(56, 40),
    ) {
        goes_on(&made, young(start), &steps)?;
    }

    #[test]
    fn no_state_no_time_and_no_cost_panics(
        made in owing(limits::of), state in 0..BUSY, now in any_time(), later in any_time(), cost in any::<u32>(),
    ) {
        if !matches!(made.limit().kind(), StateKind::Log | StateKind::WideSlidingCounter) {
            does_not_panic(&made.limit(), state, [now, later], cost)?;
        }
    }
}

#[test]
fn a_limit_that_can_not_be_overrun_says_why() {
    use LimitError::{
        OverrunCountsDenied, OverrunDelays, OverrunInKernel, OverrunTooLong, OverrunWindowTooLong,
    };
    let day = |days: u64| Nanos::from_secs(days * 86_400);
    let of = |algorithm, amount, per| LimitSpec {
        overrun: true,
        ..LimitSpec::new(algorithm, Rate { amount: number(amount), per })
    };
    let bucket = of(Algorithm::TokenBucket, 10, day(1));
    let user = StateStorage::UserSpace;
    let cases = [
        (bucket, StateStorage::Kernel, Some(OverrunInKernel)),
        (LimitSpec { count_denied: true, ..bucket }, user, Some(OverrunCountsDenied)),
        (
            LimitSpec { on_limit: OnLimit::Delay, ..of(Algorithm::LeakyBucket, 10, day(1)) },
            user,
            Some(OverrunDelays),
        ),
        (LimitSpec { burst: Some(number(330)), ..bucket }, user, None),
        (LimitSpec { burst: Some(number(331)), ..bucket }, user, Some(OverrunTooLong { most: 330 })),
        (of(Algorithm::TokenBucket, 1, day(34)), user, Some(OverrunTooLong { most: 0 })),
        (
            LimitSpec { refill: Refill::Interval, ..of(Algorithm::TokenBucket, 1_000, day(34)) },
            user,
            Some(OverrunWindowTooLong),
        ),
        (of(Algorithm::FixedWindow, 5, day(33)), user, None),
        (of(Algorithm::FixedWindow, 5, day(34)), user, Some(OverrunWindowTooLong)),
        (of(Algorithm::SlidingWindowCounter, 5, day(34)), user, Some(OverrunWindowTooLong)),
        (of(Algorithm::SlidingWindowLog, 5, day(34)), user, Some(OverrunWindowTooLong)),
    ];
    for (spec, place, error) in cases {
        assert_eq!(spec.build(place).err(), error, "{spec:?}");
    }
}

/// A word counts what can be owed, too, so a counter is wide from an eleventh of what it could count.
#[test]
fn a_sliding_counter_is_a_word_up_to_an_eleventh() -> Result<(), String> {
    for (amount, kind) in [(23_831, StateKind::SlidingCounter), (23_832, StateKind::WideSlidingCounter)] {
        let rate = Rate { amount: number(amount), per: Nanos::SECOND };
        let spec = LimitSpec { overrun: true, ..LimitSpec::new(Algorithm::SlidingWindowCounter, rate) };
        assert_eq!(spec.build(StateStorage::UserSpace).map_err(|error| error.to_string())?.kind(), kind);
    }
    Ok(())
}

fn number(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN)
}

/// Charges a cost that is reported at zero.
fn report(bucket: &mut Bucket, limit: &Limit, cost: u32) -> Answer {
    let now = Now(Nanos(0));
    Answer::of(&match bucket {
        Bucket::Word(state) => {
            let (decision, after) = algorithm::report(limit, *state, now, cost);
            *state = after;
            decision
        }
        Bucket::Log(entries) => sliding_window_log::report(limit, entries, now, cost),
        Bucket::Wide(state) => state.report(limit, now, cost),
    })
}

/// Gives units back that the bucket has counted until now.
fn refund(bucket: &mut Bucket, limit: &Limit, now: Nanos, units: u32) {
    match bucket {
        Bucket::Log(entries) => sliding_window_log::refund(limit, entries, Now(now), units),
        _ => bucket.undo(limit, now, now, units),
    }
}

/// A report never denies. A limit that can't be overrun is charged as far as it has room, in whole units.
#[test]
fn a_report_takes_what_there_is() -> Result<(), String> {
    for algorithm in Algorithm::ALL {
        for (overrun, owed) in [(false, 0), (true, 3)] {
            let rate = Rate { amount: number(10), per: Nanos::from_secs(60) };
            let spec = LimitSpec { overrun, ..LimitSpec::new(algorithm, rate) };
            let limit = spec.build(StateStorage::UserSpace).map_err(|error| error.to_string())?;
            let mut bucket = Bucket::fresh(&limit, Nanos(0));
            let first = report(&mut bucket, &limit, 6);
            let second = report(&mut bucket, &limit, 7);
            let seen = (first.remaining, second.remaining, second.owed);
            assert_eq!(seen, (4, 0, owed), "{spec:?}");
        }
    }
    Ok(())
}
