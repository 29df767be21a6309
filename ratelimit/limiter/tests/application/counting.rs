//! What is counted of several limits on one request, and by hits.

use ratelimit_limiter::application::RuleCounts;

use crate::{Lab, algorithms, hits, lab, lab_of_limit, refund, request, shown};

fn counts(lab: &Lab, key: &str) -> RuleCounts {
    let counts = lab.service.rule_counts();
    counts.iter().find(|(label, _)| label.key == key).unwrap_or_else(|| panic!("{key}: {counts:?}")).1
}

#[test]
fn a_denied_request_takes_from_no_limit_but_those_that_count_it() {
    let lab = lab("
domain: d
descriptors:
  - {key: bucket, rate_limit: {algorithm: token_bucket, unit: hour, requests_per_unit: 10}}
  - {key: log, rate_limit: {algorithm: sliding_window_log, unit: hour, requests_per_unit: 10}}
  - {key: counter, rate_limit: {algorithm: sliding_window_counter, unit: hour, requests_per_unit: 10}}
  - {key: window, rate_limit: {algorithm: fixed_window, unit: hour, requests_per_unit: 10}}
  - {key: all, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: one, rate_limit: {algorithm: token_bucket, unit: hour, requests_per_unit: 1}}
");
    let keys = ["bucket", "log", "counter", "window", "all", "one"];
    assert_eq!(shown(&lab.ask(&request(&keys))), ["ok 9", "ok 9", "ok 9", "ok 9", "ok 9", "ok 0"]);
    for counted in [8, 7] {
        let expected = ["ok 9", "ok 9", "ok 9", "ok 9", &format!("ok {counted}"), "over 0"];
        assert_eq!(shown(&lab.ask(&request(&keys))), expected);
    }
}

#[test]
fn what_count_denied_adds_is_counted_by_every_algorithm() {
    for algorithm in algorithms() {
        let lab = lab_of_limit(&format!(
            "algorithm: {algorithm}, count_denied: true, unit: hour, requests_per_unit: 10"
        ));
        lab.ask(&hits("user=1", 8));
        assert_eq!(shown(&lab.ask(&hits("user=1", 5))), ["over 0"], "{algorithm}");
        assert_eq!(shown(&lab.ask(&hits("user=1", 1))), ["over 0"], "{algorithm}");
        let lab = lab_of_limit(&format!("algorithm: {algorithm}, unit: hour, requests_per_unit: 10"));
        lab.ask(&hits("user=1", 8));
        assert_eq!(shown(&lab.ask(&hits("user=1", 5))), ["over 0"], "{algorithm}");
        assert_eq!(shown(&lab.ask(&hits("user=1", 2))), ["ok 0"], "{algorithm}");
    }
}

#[test]
fn hits_are_split_at_the_near_and_the_over_threshold() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 11");
    let counted = |total, within, near, over| RuleCounts {
        total_hits: total,
        within_limit: within,
        near_limit: near,
        over_limit: over,
        ..RuleCounts::default()
    };
    let steps = [
        (5, counted(5, 5, 0, 0)),
        // Eight are not near yet; the ninth is.
        (4, counted(9, 9, 1, 0)),
        // All of the next one is.
        (1, counted(10, 10, 2, 0)),
        // One is left, which is near; two are over, and so the request is.
        (3, counted(13, 10, 3, 2)),
        (4, counted(17, 10, 3, 6)),
        (0, counted(17, 10, 3, 6)),
    ];
    for (take, expected) in steps {
        lab.ask(&hits("user=1", take));
        assert_eq!(counts(&lab, "user"), expected, "{take}");
    }
    lab.ask(&refund("user=1", 5));
    assert_eq!(counts(&lab, "user").total_hits, 17, "what is given back is no hit");
    // At once from nothing to over.
    let lab = lab_of_limit("unit: hour, requests_per_unit: 10, algorithm: token_bucket");
    lab.ask(&hits("user=1", 15));
    assert_eq!(counts(&lab, "user"), counted(15, 0, 2, 5));
    lab.ask(&hits("user=1", 10));
    assert_eq!(counts(&lab, "user"), counted(25, 10, 4, 5));
}

#[test]
fn shadow_mode_unlimited_and_limits_of_requests_are_counted() {
    let lab = lab("
domain: d
descriptors:
  - {key: s, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: u, rate_limit: {unlimited: true}}
  - {key: r, rate_limit: {name: r, unit: hour, requests_per_unit: 1}}
  - {key: by, rate_limit: {replaces: [{name: r}], unit: hour, requests_per_unit: 9}}
");
    lab.ask(&hits("s", 1));
    lab.ask(&hits("s", 2));
    let shadow = counts(&lab, "s");
    assert_eq!((shadow.total_hits, shadow.within_limit, shadow.over_limit, shadow.shadow_mode), (3, 1, 2, 2));
    lab.ask(&hits("u", 4));
    assert_eq!((counts(&lab, "u").total_hits, counts(&lab, "u").within_limit), (4, 4));
    lab.ask(&request(&["r", "by"]));
    assert_eq!((counts(&lab, "r").total_hits, counts(&lab, "by").total_hits), (0, 1));
    lab.ask(&crate::with_limit("x", 1, Some(ratelimit_limiter::application::TimeUnit::Hour)));
    assert_eq!(counts(&lab, "(limits of requests)").within_limit, 1);
}

#[test]
fn requests_are_counted_by_domain() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 1");
    lab.passes("user=1", 3);
    let mut unknown = request(&["user=1"]);
    unknown.domain = "x".to_owned();
    lab.ask(&unknown);
    let (domain, counts) = lab.service.domain_counts()[0].clone();
    assert_eq!((domain.as_str(), counts.allowed, counts.denied), ("d", 1, 2));
    assert_eq!(lab.service.unknown_domain_counts().allowed, 1);
}

#[test]
fn buckets_in_use_are_counted_until_they_are_as_good_as_new() {
    let lab = lab("
domain: d
descriptors:
  - {key: window, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: log, rate_limit: {algorithm: sliding_window_log, unit: second, requests_per_unit: 9}}
");
    let bytes = lab.service.store().bytes();
    for user in 0..10 {
        lab.ask(&request(&[&format!("window={user}"), &format!("log={user}")]));
    }
    assert_eq!(lab.service.keys_in_use(), 20);
    assert!(lab.service.store().bytes() >= bytes + 10 * 8, "a log takes memory");
    lab.advance(2);
    assert_eq!(lab.service.keys_in_use(), 10);
    lab.advance(3600);
    assert_eq!(lab.service.keys_in_use(), 0);
}
