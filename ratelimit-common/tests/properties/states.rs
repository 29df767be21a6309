//! States: which may be forgotten, what a changed limit makes of them, and that no state, time or cost makes the code
//! panic.

use std::num::NonZeroU64;

use ratelimit_common::{
    algorithm::{self, sliding_window_counter::WideState},
    limit::{Algorithm, LimitSpec, Rate, Refill, StateStorage},
    table::BUSY,
    time::Now,
};

use super::*;

/// Idle buckets are replaced: from the first moment that one is, it and a fresh one must answer alike for ever.
fn idle_is_fresh(made: &Made, range: Range, steps: &[Step]) -> TestCaseResult {
    let limit = made.limit();
    let mut bucket = Bucket::fresh(&limit, range.start);
    let mut twin = None;
    let mut walk = Walk::new(made, range);
    let (mut used, mut charged) = (false, range.start);
    for &step in steps {
        let (now, cost) = walk.next(step);
        if used && twin.is_none() && bucket.is_idle(&limit, now) {
            twin = Some(Bucket::fresh(&limit, now));
        }
        let answer = bucket.decide(&limit, now, cost);
        if let Some(twin) = &mut twin {
            prop_assert_eq!(twin.decide(&limit, now, cost), answer, "{:?} at {:?}", twin, now);
        }
        used |= answer.remaining < limit.capacity();
        let idle = bucket.is_idle(&limit, now);
        prop_assert!(
            !idle || answer.remaining == limit.capacity(),
            "{answer:?}, idle: {bucket:?} at {now:?}"
        );
        charged = walk.got(cost, answer);
    }
    let end = Nanos(charged.0 + made.horizon().0);
    let soon = made.horizon() > Nanos::YEAR || bucket.is_idle(&limit, end);
    prop_assert!(soon, "{bucket:?} not idle at {end:?}");
    Ok(())
}

/// The share of the capacity that is used is that of the units, to one unit and four parts in 65,536. (Counts far above
/// the capacity, which only denied requests make, are weighted more roughly.)
fn share(limit: &Limit, state: u64, now: Nanos, remaining: u64) -> TestCaseResult {
    let share = i128::from(algorithm::share_used(limit, state, Now(now)));
    let capacity = i128::from(limit.capacity());
    let used = (capacity - i128::from(remaining)) << 16;
    prop_assert!((0..=1 << 16).contains(&share));
    prop_assert!(
        (share * capacity - used).abs() <= (1 << 16) + 4 * capacity,
        "{share}, {remaining} of {capacity}"
    );
    Ok(())
}

/// What `bucket` holds under another limit that reads its states.
fn changed(before: &Made, after: &Made, range: Range, steps: &[Step]) -> TestCaseResult {
    let (old, new) = (before.limit(), after.limit());
    prop_assert_eq!(old.kind(), new.kind());
    let mut bucket = Bucket::fresh(&old, range.start);
    let mut walk = Walk::new(before, range);
    for &step in steps {
        let (now, cost) = walk.next(step);
        let answer = bucket.decide(&old, now, cost);
        walk.got(cost, answer);
        let Bucket::Word(state) = bucket else { break };
        if !old.counts_denied() {
            share(&old, state, now, answer.remaining)?;
        }
        let clamped = algorithm::clamp(&new, state, Now(now));
        prop_assert_eq!(algorithm::clamp(&new, clamped, Now(now)), clamped, "twice is not once");
        kept(&old, after, &walk, &bucket, &Bucket::Word(clamped))?;
    }
    Ok(())
}

fn kept(old: &Limit, made: &Made, walk: &Walk<'_>, before: &Bucket, after: &Bucket) -> TestCaseResult {
    let now = walk.now();
    let new = &made.limit();
    let (was, is) = (before.ask(old, now, 0), after.ask(new, now, 0));
    comes_true(new, after, walk, 0, &is).map_err(TestCaseError::fail)?;
    let used = old.capacity() - was.remaining;
    match new.kind() {
        StateKind::ArrivalTime => {
            let expected = time_to_fill(made, now).map(|longest| was.reset_after.min(longest));
            prop_assert!(expected.is_none_or(|expected| is.reset_after == expected), "{expected:?}, {is:?}");
        }
        StateKind::Interval if old.amount() == new.amount() => {
            prop_assert_eq!(is.remaining, new.capacity().saturating_sub(used), "{:?}", after);
        }
        StateKind::Interval => prop_assert!(Some(is.reset_after) <= time_to_fill(made, now), "{is:?}"),
        _ if was.remaining > 0 => {
            prop_assert_eq!(is.remaining, new.capacity().saturating_sub(used), "{:?}", after);
        }
        _ => prop_assert!(is.remaining <= new.capacity().saturating_sub(used), "{after:?}"),
    }
    Ok(())
}

/// A wide counter made of a word goes on as the word does, where no count is too large for half a word.
fn goes_on(made: &Made, range: Range, steps: &[Step]) -> TestCaseResult {
    let limit = made.limit().forgiving();
    let mut bucket = Bucket::fresh(&limit, range.start);
    let mut walk = Walk::new(made, range);
    for &step in steps {
        let (now, cost) = walk.next(step);
        let Bucket::Word(word) = bucket else { break };
        let wide = Bucket::Wide(WideState::of_word(&limit, word, Now(now)));
        let answer = bucket.decide(&limit, now, cost);
        prop_assert_eq!(wide.ask(&limit, now, cost), answer, "{:#x} at {:?}", word, now);
        walk.got(cost, answer);
    }
    Ok(())
}

/// The time until an empty bucket is full, unless precision leaves that open.
fn time_to_fill(made: &Made, now: Nanos) -> Option<Nanos> {
    let mut empty = model::of(&LimitSpec { count_denied: true, ..made.spec }, made.place, made.epoch, now);
    empty.record(now, 1, false);
    empty.reset(now)
}

/// Limits with the same states: other numbers, and for all but continuous refill the same window.
fn pair() -> impl Strategy<Value = (Made, Made)> {
    word_kind().prop_flat_map(|kind| {
        // In eighths of the amount before; 0 stands for any other.
        let share = prop::sample::select(vec![0, 4, 7, 8, 12]);
        (limits::of(kind), limits::of(kind), share).prop_map(move |(before, other, share)| {
            let mut spec = other.spec;
            if kind != StateKind::ArrivalTime {
                let amount = (u128::from(before.spec.rate.amount.get()) * share / 8) as u64;
                spec.rate.amount = NonZeroU64::new(amount).unwrap_or(spec.rate.amount);
                spec.rate.per = before.spec.rate.per;
            }
            (before, limits::fitted(kind, spec, before.place, before.epoch))
        })
    })
}

/// Every function on a state that nothing may have written.
fn does_not_panic(limit: &Limit, state: u64, times: [u64; 2], cost: u32) -> TestCaseResult {
    let [now, later] = times.map(|time| Now(Nanos(time)));
    let (decision, after) = algorithm::decide(limit, state, now, cost);
    let numbers =
        (decision.remaining(), decision.retry_after(), decision.reset_after(), decision.leaves_after());
    prop_assert!(numbers.0 <= limit.capacity());
    prop_assert!(after < BUSY, "{after:#x}");
    prop_assert!(algorithm::undo(limit, after, now, later, cost) < BUSY);
    prop_assert!(algorithm::clamp(limit, state, now) < BUSY);
    prop_assert!(algorithm::fresh(now) < BUSY);
    prop_assert!(algorithm::share_used(limit, state, now) <= 1 << 16);
    if limit.kind() == StateKind::SlidingCounter {
        WideState::of_word(limit, state, now).decide(limit, later, cost);
    }
    Ok(())
}

/// Any time, and times around those at which 64 bits of ticks wrap.
fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        limits::any_length(60),
        (1_u64..=127, -3_i64..=3).prop_map(|(wraps, offset)| (wraps << 57).saturating_add_signed(offset)),
    ]
}

/// All kinds of state.
pub fn kind() -> impl Strategy<Value = StateKind> {
    prop::sample::select(StateKind::ALL.as_slice())
}

/// A refill of 3 that is still to come brings 2 once the limit says so, and the bucket is full then as it would have
/// been.
#[test]
fn a_refill_to_come_brings_no_more_than_a_smaller_amount() -> Result<(), String> {
    let limit = |amount, burst| {
        let per = Nanos::SECOND;
        let mut spec = LimitSpec::new(Algorithm::TokenBucket, Rate { amount, per });
        (spec.refill, spec.burst) = (Refill::Interval, Some(burst));
        spec.build(StateStorage::Kernel).map_err(|error| error.to_string())
    };
    let [two, three, five] = [2, 3, 5].map(|number| NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN));
    let (before, after) = (limit(three, three)?, limit(two, five)?);
    let (_, empty) = algorithm::decide(&before, algorithm::fresh(Now(Nanos(0))), Now(Nanos(0)), 3);
    let bucket = Bucket::Word(algorithm::clamp(&after, empty, Now(Nanos(0))));
    let answer = bucket.ask(&after, Nanos(0), 4);
    assert_eq!((answer.remaining, answer.retry_after), (3, Some(Nanos::SECOND)));
    agreement::check(&after, &bucket, Nanos(0), 4, &answer)?;
    agreement::check_reset(&after, &bucket, Nanos(0), answer.reset_after)
}

/// Limits of one account share buckets, and which gives way is told by the one that takes longest to fill.
#[test]
fn a_wide_counters_limit_tells_what_share_of_it_a_word_has_used() -> Result<(), String> {
    let limit = |amount| {
        let rate = Rate { amount, per: Nanos::from_secs(86_400) };
        let spec = LimitSpec::new(Algorithm::SlidingWindowCounter, rate);
        spec.build(StateStorage::UserSpace).map_err(|error| error.to_string())
    };
    let [few, many] =
        [60_000_000, 4_000_000_000].map(|number| NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN));
    let (narrow, wide) = (limit(few)?, limit(many)?);
    assert_eq!((narrow.kind(), wide.kind()), (StateKind::SlidingCounter, StateKind::WideSlidingCounter));
    let now = Now(Nanos(0));
    let (_, word) = algorithm::decide(&narrow, algorithm::fresh(now), now, 60_000_000);
    assert_eq!([&narrow, &wide].map(|limit| algorithm::share_used(limit, word, now)), [65_536, 983]);
    Ok(())
}

fn word_kind() -> impl Strategy<Value = StateKind> {
    let words: Vec<StateKind> = StateKind::ALL.into_iter().filter(|kind| kind.is_word()).collect();
    prop::sample::select(words)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_idle_bucket_is_as_good_as_new(
        made in kind().prop_flat_map(limits::of), start in start(), steps in walk::in_order(58, 40),
    ) {
        idle_is_fresh(&made, plain(&made, start), &steps)?;
    }

    #[test]
    fn an_idle_bucket_is_as_good_as_new_beyond_the_wrap(
        made in kind().prop_flat_map(limits::short), start in any::<u64>(), steps in walk::in_order(57, 40),
    ) {
        idle_is_fresh(&made, beyond(start), &steps)?;
    }

    #[test]
    fn a_changed_limit_keeps_what_was_used_up_to_its_capacity(
        (before, after) in pair(), start in start(), steps in walk::in_order(58, 20),
    ) {
        let (mut range, other) = (plain(&before, start), plain(&after, start));
        (range.start, range.end) = (range.start.min(other.start), range.end.min(other.end));
        // Clamping knows only the new limit, so it takes all that may lie ahead for a debt.
        range.idle = range.idle.min(Nanos(Nanos::YEAR.0 * 3));
        changed(&before, &after, range, &steps)?;
    }

    #[test]
    fn a_wide_counter_goes_on_as_the_word_it_is_made_of(
        made in limits::of(StateKind::SlidingCounter), start in start(), steps in walk::any_order(58, 40),
    ) {
        goes_on(&made, plain(&made, start), &steps)?;
    }

    #[test]
    fn no_state_no_time_and_no_cost_panics(
        made in word_kind().prop_flat_map(limits::of),
        state in 0..BUSY, now in any_time(), later in any_time(), cost in any::<u32>(),
    ) {
        does_not_panic(&made.limit(), state, [now, later], cost)?;
    }
}
