//! Limits as people ask for them.

use std::time::Duration;

use ratelimit_limiter::Nanos;

use crate::{Lab, algorithms, hits, lab, lab_of_limit, request};

fn lab_at(limit: &str, seconds: u64) -> Lab {
    let lab = lab_of_limit(limit);
    lab.to_window(Nanos::from_secs(seconds));
    lab
}

/// So many pass in each window, again and again, and each key has its own.
fn binds(limit: &str, count: usize, window: u64) {
    let lab = lab_at(limit, window);
    for _ in 0..3 {
        for user in ["user=1", "user=2"] {
            assert_eq!(lab.passes(user, count + 3), count, "{limit}");
        }
        lab.advance(window);
    }
}

#[test]
fn windows() {
    const DAY: u64 = 86_400;
    binds("unit: second, requests_per_unit: 2", 2, 1);
    binds("unit: day, requests_per_unit: 10", 10, DAY);
    binds("unit: week, requests_per_unit: 5", 5, 7 * DAY);
    binds("unit: minute, requests_per_unit: 5", 5, 60);
    binds("unit: day, requests_per_unit: 5", 5, DAY);
    binds("per: 15m, requests_per_unit: 256", 256, 900);
    binds("unit: minute, requests_per_unit: 1000", 1000, 60);
    binds("unit: minute, requests_per_unit: 5, algorithm: fixed_window", 5, 60);
}

#[test]
fn tiers() {
    let lab = lab("
domain: d
descriptors:
  - {key: tier, value: gold, descriptors: [{key: account, rate_limit: {unit: hour, requests_per_unit: 15000}}]}
  - {key: tier, value: basic, descriptors: [{key: account, rate_limit: {unit: hour, requests_per_unit: 5000}}]}
  - {key: tier, descriptors: [{key: account, rate_limit: {unit: hour, requests_per_unit: 60}}]}
");
    for (tier, count) in [("gold", 15_000), ("basic", 5_000), ("none", 60)] {
        assert_eq!(lab.passes(&format!("tier={tier},account=1"), count + 1), count);
        assert_eq!(lab.passes(&format!("tier={tier},account=2"), 1), 1);
    }
}

#[test]
fn one_bucket_for_the_whole_system() {
    let lab = lab("
domain: d
descriptors:
  - {key: system, rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 10000}}
  - {key: user, rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 100}}
");
    let ask = |user: usize| lab.ask(&request(&["system", &format!("user={user}")])).allowed();
    let passed = (0..20_000).filter(|count| ask(count % 1_000)).count();
    assert_eq!(passed, 10_000);
    lab.clock.advance(Nanos(Duration::from_millis(100).as_nanos() as u64));
    assert_eq!((0..2_000).filter(|user| ask(*user)).count(), 1_000);
}

#[test]
fn steady_requests_at_twice_the_limit_pass_at_the_limit_for_ever() {
    let lab = lab_of_limit("algorithm: token_bucket, unit: second, requests_per_unit: 5");
    lab.passes("user=1", 5);
    for _ in 0..100 {
        let mut passed = 0;
        for _ in 0..10 {
            lab.clock.advance(Nanos(100_000_000));
            passed += lab.passes("user=1", 1);
        }
        assert_eq!(passed, 5);
    }
}

#[test]
fn a_client_that_waits_exactly_as_told_gets_through() {
    for algorithm in algorithms() {
        let lab = lab_of_limit(&format!("algorithm: {algorithm}, unit: minute, requests_per_unit: 7"));
        for step in 0..40 {
            let response = lab.ask(&request(&["user=1"]));
            if let Some(wait) = response.statuses[0].retry_after {
                assert!(!response.allowed());
                assert!(response.statuses[0].retry_after_seconds() >= Some(1));
                lab.clock.advance(Nanos(wait.0 - 1));
                assert!(!lab.ask(&request(&["user=1"])).allowed(), "{algorithm} {step}");
                lab.clock.advance(Nanos(1));
                assert!(lab.ask(&request(&["user=1"])).allowed(), "{algorithm} {step}");
            }
            lab.clock.advance(Nanos(777_777_777));
        }
    }
}

#[test]
fn the_next_request_comes_back_exactly_when_it_is_said_to() {
    let named = algorithms().map(|algorithm| format!("algorithm: {algorithm}"));
    for kind in named.chain(["count_denied: true".to_owned()]) {
        let lab = lab_of_limit(&format!("{kind}, unit: minute, requests_per_unit: 7"));
        let ask = |count| lab.ask(&hits("user=1", count)).statuses[0].clone();
        assert_eq!(ask(0).next_after, Nanos(0), "{kind}");
        for step in 0..20 {
            let status = ask(step % 3 + 1);
            let left = ask(0).remaining;
            assert!(status.next_after > Nanos(0), "{kind} {step}");
            lab.clock.advance(Nanos(status.next_after.0 - 1));
            assert_eq!(ask(0).remaining, left, "{kind} {step}");
            lab.clock.advance(Nanos(1));
            assert!(ask(0).remaining > left, "{kind} {step}");
        }
    }
}
