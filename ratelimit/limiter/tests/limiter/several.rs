//! Several limits on one request: all or nothing.

use std::thread;

use ratelimit_limiter::{Ask, Decision, Limiter, Outcome, clock::FakeClock};

use crate::{SECOND, limiter, rule};

/// Asks the rules by index about one key, with one cost each.
fn check<'l>(limiter: &'l Limiter<FakeClock>, key: &str, costs: &[(usize, u32)]) -> Outcome<'l> {
    let asks: Vec<Ask<'l>> =
        costs.iter().map(|&(rule, cost)| limiter.ask(rule, key, cost).unwrap()).collect();
    limiter.check_each(&asks)
}

/// What each rule has left for a key.
fn left(limiter: &Limiter<FakeClock>, key: &str) -> Vec<u64> {
    let rules = 0..limiter.rules().len();
    rules.map(|rule| check(limiter, key, &[(rule, 0)]).decision().remaining()).collect()
}

fn name(decision: Decision<'_>) -> &str {
    decision.rule().map_or("", |rule| rule.name())
}

/// One word and one log, one counter wider than a word: the order does not matter.
const SMALL_AND_LARGE: [[&str; 2]; 4] = [
    ["token_bucket,rate=2/w", "fixed_window,rate=10/w"],
    ["sliding_window_log,rate=2/w", "token_bucket,rate=10/w,refill=interval"],
    ["sliding_window_counter,rate=2/w", "sliding_window_log,rate=10/w"],
    ["leaky_bucket,rate=2/w", "sliding_window_counter,rate=1000000000000/w"],
];

#[test]
fn a_denied_request_takes_nothing() {
    for [small, large] in SMALL_AND_LARGE {
        for rules in
            [[rule("small", small), rule("large", large)], [rule("large", large), rule("small", small)]]
        {
            let (limiter, _clock) = limiter(rules, 1000);
            let before = left(&limiter, "key");
            for _ in 0..2 {
                assert!(limiter.check("key", 1).allowed(), "{small} {large}");
            }
            let charged: Vec<u64> = before.iter().map(|left| left - 2).collect();
            assert_eq!(left(&limiter, "key"), charged, "{small} {large}");
            for cost in [1, 2, 1] {
                let decision = limiter.check("key", cost);
                assert!(!decision.allowed(), "{small} {large}");
                assert_eq!(name(decision), "small");
            }
            assert_eq!(left(&limiter, "key"), charged, "{small} {large}");
        }
    }
}

#[test]
fn what_counts_denied_requests_is_charged_whoever_denies() {
    let rules = [
        rule("first", "fixed_window,rate=10/w"),
        rule("counts", "fixed_window,rate=20/w,count_denied=true"),
        rule("last", "fixed_window,rate=2/w"),
    ];
    let (limiter, _clock) = limiter(rules, 1000);
    for _ in 0..5 {
        limiter.check("key", 1);
    }
    assert_eq!(left(&limiter, "key"), [8, 15, 0]);
    // One that counts and denies is charged too, and the others are not.
    let outcome = check(&limiter, "key", &[(0, 1), (1, 16)]);
    assert!(!outcome.allowed());
    assert_eq!(left(&limiter, "key"), [8, 0, 0]);
    let each: Vec<(bool, u64)> =
        outcome.decisions().iter().map(|decision| (decision.allowed(), decision.remaining())).collect();
    assert_eq!(each, [(true, 8), (false, 0)]);
}

#[test]
fn the_decision_is_that_of_the_longest_wait_or_of_the_fewest_left() {
    let rules = [
        rule("hour", "fixed_window,rate=4/h"),
        rule("day", "fixed_window,rate=5/d"),
        rule("second", "fixed_window,rate=4/s"),
    ];
    let (limiter, clock) = limiter(rules, 1000);
    let name_of = |cost| name(limiter.check("key", cost));
    assert_eq!(name_of(1), "hour", "of 3, 4 and 3 left the first of the fewest");
    assert_eq!(name_of(4), "hour", "denied by hour and second");
    assert_eq!(name_of(5), "hour", "can never pass the hour or the second; the day denies too");
    assert_eq!(name_of(6), "hour", "can never pass any");
    clock.advance(SECOND);
    assert_eq!(name_of(3), "hour", "of 0, 1 and 1 left the fewest");
    assert_eq!(name_of(1), "hour", "denied by the hour alone");
    assert_eq!(name_of(2), "day", "denied by all");
    let outcome = check(&limiter, "key", &[(2, 1)]);
    assert_eq!((name(outcome.decision()), outcome.decision().remaining()), ("second", 0));
}

#[test]
fn a_bucket_that_is_asked_twice_is_charged_twice() {
    for text in ["token_bucket,rate=3/w", "sliding_window_log,rate=3/w"] {
        let (limiter, _clock) = limiter([rule("rule", text)], 1000);
        assert!(check(&limiter, "key", &[(0, 1), (0, 1)]).allowed());
        assert_eq!(left(&limiter, "key"), [1]);
        let outcome = check(&limiter, "key", &[(0, 1), (0, 1)]);
        let each: Vec<bool> = outcome.decisions().iter().map(Decision::allowed).collect();
        assert_eq!(each, [true, false], "{text}");
        assert_eq!(left(&limiter, "key"), [1], "{text}");
    }
    let (limiter, _clock) = limiter([rule("rule", "fixed_window,rate=3/w,count_denied=true")], 1000);
    assert!(!check(&limiter, "key", &[(0, 2), (0, 2)]).allowed());
    assert_eq!(left(&limiter, "key"), [0]);
}

#[test]
fn rules_that_observe_never_decide_and_see_only_what_passes() {
    let rules = [
        rule("watched", "fixed_window,rate=2/w").observe(),
        rule("counted", "fixed_window,rate=20/w,count_denied=true").observe(),
        rule("enforced", "fixed_window,rate=5/w"),
    ];
    let (limiter, _clock) = limiter(rules, 1000);
    for request in 0..8 {
        let outcome = check(&limiter, "key", &[(0, 1), (1, 1), (2, 1)]);
        assert_eq!(outcome.allowed(), request < 5, "request {request}");
        assert_eq!(name(outcome.decision()), "enforced");
        let watched = outcome.decisions()[0];
        assert_eq!((watched.allowed(), watched.exceeded()), (true, request >= 2), "request {request}");
    }
    assert_eq!(left(&limiter, "key"), [0, 15, 0]);
}

#[test]
fn a_limiter_of_observers_and_one_without_rules_allow_everything() {
    let (limiter, _clock) = limiter([rule("watched", "fixed_window,rate=2/w").observe()], 1000);
    for _ in 0..5 {
        assert!(limiter.check("key", 1).allowed());
    }
    assert!(limiter.check("key", 1).exceeded());
    let (empty, _clock) = crate::limiter([], 1000);
    let decision = empty.check("key", u32::MAX);
    assert!(decision.allowed() && !decision.never() && decision.rule().is_none());
    assert_eq!((decision.remaining(), decision.retry_after()), (u64::MAX, None));
}

#[test]
fn a_cost_that_can_never_pass_says_so_and_one_of_nothing_takes_nothing() {
    for text in ["token_bucket,rate=3/w", "fixed_window,rate=3/w", "sliding_window_log,rate=3/w"] {
        let (limiter, _clock) = limiter([rule("rule", text)], 1000);
        let decision = limiter.check("key", 4);
        assert!(!decision.allowed() && decision.never() && decision.retry_after().is_none(), "{text}");
        assert!(limiter.check("key", 0).allowed());
        assert_eq!(limiter.check("key", 3).remaining(), 0);
        let decision = limiter.check("key", 0);
        assert!(!decision.allowed() && decision.retry_after().is_some(), "{text}: {decision:?}");
    }
}

#[test]
fn what_threads_charge_in_vain_is_given_back() {
    for [small, large] in SMALL_AND_LARGE {
        let small = small.replace("rate=2/", "rate=500/");
        let large = large.replace("rate=10/", "rate=5000/");
        // The one that denies comes last, so that the others are charged before.
        let (limiter, _clock) = limiter([rule("large", &large), rule("small", &small)], 1000);
        let before = left(&limiter, "key");
        let run = || (0..400).filter(|_| limiter.check("key", 1).allowed()).count() as u64;
        let admitted: u64 = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(admitted, 500, "{small} {large}");
        assert_eq!(left(&limiter, "key"), [before[0] - 500, 0], "{small} {large}");
    }
}

#[test]
fn refunds_give_back_what_was_taken_and_no_more() {
    for [small, large] in SMALL_AND_LARGE {
        let (limiter, _clock) = limiter([rule("small", small), rule("large", large)], 1000);
        let full = left(&limiter, "key");
        assert!(limiter.check("key", 2).allowed());
        assert!(!limiter.check("key", 1).allowed(), "{small}");
        limiter.refund("key", 1);
        assert!(limiter.check("key", 1).allowed(), "{small}");
        limiter.refund("key", 10);
        assert_eq!(left(&limiter, "key"), full, "{small}, {large}");
        limiter.refund_each(&[limiter.ask(0, "other", 1).unwrap()]);
        assert_eq!(left(&limiter, "other"), full, "{small}, {large}");
    }
}
