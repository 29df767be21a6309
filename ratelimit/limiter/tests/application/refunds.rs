//! Hits that requests give back: how many, when, and what is answered.

use ratelimit_limiter::{
    application::{Code, Request},
    application::{RuleSet, ServicePolicy},
};

use crate::{algorithms, hits, lab_of, lab_of_limit, refund, request, rules, shown};

#[test]
fn refunds_give_back_and_never_more_than_was_taken() {
    let ten = "unit: hour, requests_per_unit: 10";
    let wide = "unit: second, requests_per_unit: 4000000, algorithm: sliding_window_counter";
    let named = algorithms().map(|algorithm| format!("{ten}, algorithm: {algorithm}"));
    for limit in named.chain([ten, wide].map(str::to_owned)) {
        let lab = lab_of_limit(&limit);
        let whole = lab.ask(&hits("user=1", 0)).statuses[0].remaining;
        lab.ask(&hits("user=1", 7));
        let remaining = |count| lab.ask(&refund("user=1", count)).statuses[0].remaining;
        assert_eq!(remaining(3), whole - 4, "{limit}");
        // The time of 400,320 units of a bucket is a little more than a word can hold.
        for count in [100, 400_320, u32::MAX.into()] {
            assert_eq!(remaining(count), whole, "{limit} {count}");
            assert_eq!(remaining(1), whole, "{limit} {count}");
            lab.ask(&hits("user=1", 4));
        }
        assert_eq!(remaining(4), whole, "{limit}");
        assert_eq!(lab.ask(&hits("user=1", whole)).code, Code::Ok, "{limit}");
        assert_eq!(lab.ask(&hits("user=1", 1)).code, Code::OverLimit, "{limit}");
    }
}

/// A refund for `a` in a request that takes one from `b`.
fn refund_and_take(count: u64) -> Request {
    let mut request = request(&["a=1", "b=1"]);
    (request.descriptors[0].hits_addend, request.descriptors[0].is_negative_hits) = (Some(count), true);
    request
}

fn two_limits(a: &str, b: &str) -> RuleSet {
    rules(&format!(
        "domain: d\ndescriptors: [{{key: a, rate_limit: {{{a}}}}}, {{key: b, rate_limit: {{{b}}}}}]"
    ))
}

#[test]
fn a_denied_request_gives_back_only_to_limits_that_count_denied_requests() {
    let b = "unit: hour, requests_per_unit: 1, algorithm: fixed_window";
    for (a, after) in [
        ("unit: week, requests_per_unit: 10", 6),
        ("unit: week, requests_per_unit: 10, algorithm: fixed_window", 0),
        ("unit: week, requests_per_unit: 10, algorithm: fixed_window, soft_limit: 5, soft_for: 1d", 0),
        ("unit: week, requests_per_unit: 10, algorithm: sliding_window_counter", 0),
        ("unit: year, requests_per_unit: 10, algorithm: token_bucket", 0),
        ("unit: week, requests_per_unit: 10, algorithm: sliding_window_log, count_denied: true", 6),
    ] {
        let lab = lab_of(&ServicePolicy::of_rules(two_limits(a, b)));
        let left = || lab.ask(&hits("a=1", 0)).statuses[0].remaining;
        lab.ask(&request(&["b=1"]));
        lab.ask(&hits("a=1", 10));
        let denied = [refund_and_take(3), refund_and_take(3)].map(|request| lab.ask(&request));
        assert_eq!(left(), after, "{a}");
        for response in &denied {
            assert_eq!(response.code, Code::OverLimit, "{a}");
            assert_eq!((response.statuses[0].code, response.deciding), (Code::Ok, Some(1)), "{a}");
        }
        // It waits for `b` alone, and then gives back.
        lab.advance(denied[0].deciding().unwrap().retry_after_seconds().unwrap());
        assert_eq!(lab.ask(&refund_and_take(3)).code, Code::Ok, "{a}");
        assert_eq!(left(), after + 3, "{a}");
    }
}

/// Each hit on the second limit has room, and both together have not.
#[test]
fn a_request_that_is_denied_as_it_is_charged_gives_nothing_back() {
    let b = "unit: hour, requests_per_unit: 1, algorithm: fixed_window";
    for algorithm in algorithms() {
        for overrun in [false, true] {
            let a = format!("unit: week, requests_per_unit: 10, algorithm: {algorithm}, overrun: {overrun}");
            let lab = lab_of(&ServicePolicy::of_rules(two_limits(&a, b)));
            lab.ask(&hits("a=1", 10));
            let mut twice = refund_and_take(3);
            twice.descriptors.extend(twice.descriptors.get(1).cloned());
            assert_eq!(lab.ask(&twice).code, Code::OverLimit, "{a}");
            assert_eq!(lab.ask(&hits("a=1", 0)).statuses[0].remaining, 0, "{a}");
            assert_eq!(lab.ask(&refund_and_take(3)).code, Code::Ok, "{a}");
            assert_eq!(lab.ask(&hits("a=1", 0)).statuses[0].remaining, 3, "{a}");
        }
    }
}

#[test]
fn a_refund_is_over_while_more_is_counted_than_the_limit_allows() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 10");
    lab.ask(&hits("user=1", 15));
    assert_eq!(shown(&lab.ask(&refund("user=1", 3))), ["over 0"]);
    assert_eq!(shown(&lab.ask(&refund("user=1", 4))), ["ok 2"]);
    // Nothing is taken then from limits that count what passes.
    let b = "unit: hour, requests_per_unit: 5, algorithm: fixed_window";
    let of = |requests: u32| {
        let a = format!("unit: hour, requests_per_unit: {requests}, algorithm: fixed_window");
        ServicePolicy::of_rules(two_limits(&a, b))
    };
    let lab = lab_of(&of(10));
    lab.ask(&hits("a=1", 8));
    lab.service.reload(&of(4)).unwrap();
    assert_eq!(shown(&lab.ask(&refund_and_take(3))), ["over 0", "ok 5"]);
    assert_eq!(shown(&lab.ask(&refund_and_take(3))), ["ok 2", "ok 4"]);
}
