//! New rules, same buckets.

use std::thread;

use ratelimit_common::limit::{Algorithm, LimitError};
use ratelimit_limiter::{
    Limiter, LimiterError, Nanos, Rule,
    clock::{Clock as _, FakeClock},
};

use crate::{SECOND, START, algorithms, limit, limiter, rule};

fn left(limiter: &Limiter<FakeClock>, rule: &str, key: &str) -> u64 {
    let ask = limiter.ask(limiter.index_of(rule).unwrap(), key, 0).unwrap();
    limiter.check_each(&[ask]).decision().remaining()
}

#[test]
fn other_numbers_keep_the_buckets_and_another_window_does_not() {
    let (old, _clock) =
        limiter([rule("a", "fixed_window,rate=10/h"), rule("b", "token_bucket,rate=10/w")], 1000);
    old.check("key", 4);
    let new = |a, b| old.with_rules([rule("b", b), rule("c", a), rule("a", a)]).unwrap();
    let more = new("fixed_window,rate=20/h", "token_bucket,rate=20/w,burst=20");
    assert_eq!((left(&more, "a", "key"), left(&more, "c", "key")), (16, 20));
    // Four units of ten a week, as time, are eight of twenty.
    assert_eq!(left(&more, "b", "key"), 12);
    let other = new("fixed_window,rate=10/d", "token_bucket,rate=10/w,refill=interval");
    assert_eq!((left(&other, "a", "key"), left(&other, "b", "key")), (10, 10));
    let back = other.with_rules([rule("a", "fixed_window,rate=3/h")]).unwrap();
    assert_eq!((left(&back, "a", "key"), left(&old, "a", "key")), (0, 6));
}

#[test]
fn a_smaller_bucket_is_no_emptier_than_empty() {
    for refill in ["continuous", "interval"] {
        let text = |burst: u32| format!("token_bucket,rate=1/s,burst={burst},refill={refill}");
        let (old, clock) = limiter([rule("rule", &text(1000))], 1_000_000);
        // Enough keys that the table has grown.
        for key in 0..50_000 {
            old.check(&key, 1000);
        }
        let new = old.with_rules([rule("rule", &text(10))]).unwrap();
        for key in 0..50_000 {
            let decision = new.check(&key, 1);
            assert!(!decision.allowed() && decision.remaining() == 0);
            assert!(decision.retry_after().is_some_and(|wait| wait <= SECOND), "{refill}: {decision:?}");
        }
        // Requests that the old one still charged are clamped by asking again.
        clock.advance(Nanos(500 * SECOND.0));
        old.check("late", 1000);
        assert!(new.check("late", 1).retry_after() > Some(Nanos(100 * SECOND.0)));
        new.clamp();
        assert!(new.check("late", 1).retry_after() <= Some(SECOND));
    }
}

#[test]
fn clamping_goes_on_while_the_table_grows_and_is_used() {
    let text = |burst: u32| format!("token_bucket,rate=1/s,burst={burst}");
    let (old, _clock) = limiter([rule("rule", &text(1000))], 1_000_000);
    for key in 0..20_000_u64 {
        old.check(&key, 1000);
    }
    let new = thread::scope(|scope| {
        scope.spawn(|| (100_000..300_000_u64).for_each(|key| assert!(old.check(&key, 1).allowed())));
        old.with_rules([rule("rule", &text(10))]).unwrap()
    });
    for key in 0..20_000_u64 {
        assert!(new.check(&key, 1).retry_after().is_some_and(|wait| wait <= SECOND), "key {key}");
    }
    for key in 100_000..300_000_u64 {
        assert_eq!(new.check(&key, 0).remaining(), 9, "key {key}");
    }
}

#[test]
fn more_rules_than_tags_keep_their_buckets_apart() {
    const RULES: usize = 5_000;
    let name = |index: usize| format!("rule-{index}");
    let text = |index: usize| match index % 3 {
        0 => "token_bucket,rate=1000/w",
        1 => "fixed_window,rate=1000/w",
        _ => "sliding_window_counter,rate=1000/d",
    };
    let rules = || (0..RULES).map(|index| rule(&name(index), text(index)));
    let (limiter, _clock) = limiter(rules(), 1_000_000);
    let charge = |limiter: &Limiter<FakeClock>, index: usize, cost| {
        limiter.check_each(&[limiter.ask(index, "key", cost).unwrap()]).decision().remaining()
    };
    for index in 0..RULES {
        let cost = 1 + (index % 900) as u32;
        assert_eq!(charge(&limiter, index, cost), 1000 - u64::from(cost), "rule {index}");
    }
    let same = limiter.with_rules(rules()).unwrap();
    for index in 0..RULES {
        assert_eq!(charge(&same, index, 0), 999 - (index as u64 % 900), "rule {index}");
    }
}

#[test]
fn another_clock_aligns_windows_anew() {
    let rules = || [rule("rule", "fixed_window,rate=10/m")];
    let (old, _clock) = limiter(rules(), 1000);
    old.check("key", 4);
    // The system's time was an hour and ten seconds behind.
    let clock = FakeClock::new(Nanos(START.0 + 3_610 * SECOND.0));
    let ahead = old.with_rules_and_clock(rules(), clock.clone()).unwrap();
    let left = Nanos(60 * SECOND.0 - clock.now().0 % (60 * SECOND.0));
    assert_eq!(ahead.check("fresh", 0).reset_after(), left);
    // A window that has begun by that lasts until the old one would have ended.
    let decision = ahead.check("key", 10);
    assert!(decision.allowed());
    assert_eq!(decision.reset_after(), Nanos(left.0 + 60 * SECOND.0));
    // Nor does a clock that was years ahead make time stand still.
    let clock = FakeClock::new(Nanos(5 * SECOND.0));
    let behind = ahead.with_rules_and_clock(rules(), clock.clone()).unwrap();
    assert_eq!(behind.check("fresh", 0).reset_after(), Nanos(55 * SECOND.0));
    assert!(!behind.check("key", 1).allowed());
    clock.advance(Nanos(115 * SECOND.0));
    assert_eq!(behind.check("key", 0).remaining(), 10);
}

#[test]
fn rules_that_come_after_the_system_s_time_was_set_follow_it_without_another_limit() {
    for text in
        ["fixed_window,rate=5/d", "sliding_window_counter,rate=5/d", "token_bucket,rate=5/d,refill=interval"]
    {
        let (first, clock) = limiter([rule("rule", text)], 1000);
        assert!(first.check("key", 5).allowed());
        clock.set_wall_back(Nanos(6 * 3_600 * SECOND.0));
        let mut next = first.with_rules([rule("rule", text)]).unwrap();
        for _ in 0..3 {
            assert!(!next.check("key", 1).allowed(), "{text}");
            next = next.with_rules([rule("rule", text)]).unwrap();
        }
        clock.set_wall_forward(Nanos(2 * 86_400 * SECOND.0));
        assert!(!next.check("key", 1).allowed(), "{text}");
        let next = next.with_rules([rule("rule", text)]).unwrap();
        assert!(next.check("key", 5).allowed() && !next.check("key", 1).allowed(), "{text}");
    }
}

#[test]
fn a_clock_that_steps_back_admits_nothing_extra() {
    for text in algorithms().map(|algorithm| format!("{algorithm},rate=5/s")) {
        let (limiter, clock) = limiter([rule("rule", &text)], 1000);
        assert!(limiter.check("key", 5).allowed());
        for back in [1, SECOND.0, 3_599 * SECOND.0, 100_000 * SECOND.0] {
            clock.set(Nanos(START.0 - back));
            assert!(!limiter.check("key", 1).allowed(), "{text}: {back} ns back");
        }
    }
}

#[test]
fn a_clock_that_steps_back_less_than_an_hour_is_exact() {
    let (limiter, clock) = limiter([rule("rule", "token_bucket,rate=1/s,burst=1")], 1000);
    assert!(limiter.check("key", 1).allowed());
    clock.step_back(Nanos(3_599 * SECOND.0));
    assert_eq!(limiter.check("key", 1).retry_after(), Some(Nanos(3_600 * SECOND.0)));
}

#[test]
fn what_can_not_be_is_refused() {
    let clock = FakeClock::new(START);
    let build = |rules: Vec<Rule>| {
        let builder = Limiter::builder().clock(clock.clone());
        rules.into_iter().fold(builder, |builder, rule| builder.rule(rule)).build().map(|_| ())
    };
    let twice = vec![rule("a", "rate=1/s"), rule("b", "rate=1/s"), rule("a", "rate=2/s")];
    assert_eq!(build(twice), Err(LimiterError::SameName("a".to_owned())));
    let mut spec = limit("rate=1/s");
    spec.algorithm = Algorithm::FixedWindow;
    spec.burst = std::num::NonZeroU64::new(2);
    let error = build(vec![Rule::new("a", spec)]).unwrap_err();
    let expected = LimitError::BurstOnWindow(Algorithm::FixedWindow);
    assert_eq!(error, LimiterError::Limit { rule: "a".to_owned(), error: expected });
    for max_keys in [u64::MAX, 1 << 50] {
        let error = Limiter::builder().max_keys(max_keys).build().map(|_| ()).unwrap_err();
        assert!(matches!(error, LimiterError::NoMemory(_)), "{error}");
    }
}
