//! What has gone wrong in programs of this kind, by public reports, goes right here.

use ratelimit_limiter::{
    Nanos,
    application::ServicePolicy,
    application::{RequestError, TimeUnit},
};

use crate::{hits, lab, lab_of_limit, read_rules, request, rules, shown, with_limit};

#[test]
fn a_limit_of_a_request_with_an_unknown_unit_is_an_error() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 1");
    let error = lab.service.decide(&with_limit("user=1", 5, None)).unwrap_err();
    assert!(
        matches!(error, RequestError::UnknownUnit { descriptor: 0 }) && error.to_string().contains("SECOND")
    );
}

#[test]
fn a_limit_of_a_request_that_is_raised_lets_through_again() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 1");
    let ask = |limit| lab.ask(&with_limit("user=1", limit, Some(TimeUnit::Hour))).allowed();
    assert!(ask(1) && !ask(1) && !ask(2));
    assert!(ask(10));
}

#[test]
fn what_a_route_denies_is_not_taken_from_its_group() {
    let lab = lab("
domain: d
descriptors:
  - {key: group, rate_limit: {unit: hour, requests_per_unit: 10, count_denied: false}}
  - {key: route, rate_limit: {unit: hour, requests_per_unit: 3, count_denied: false}}
");
    let passed = (0..5).filter(|_| lab.ask(&request(&["group", "route=a"])).allowed()).count();
    assert_eq!(passed, 3);
    assert_eq!(shown(&lab.ask(&hits("group", 0))), ["ok 7"]);
}

#[test]
fn the_limit_of_a_rule_can_be_raised_and_lowered_after_it_was_exceeded() {
    let policy = |limit: u32| {
        ServicePolicy::of_rules(rules(&format!(
            "domain: d\ndescriptors: [{{key: user, rate_limit: {{unit: hour, requests_per_unit: {limit}}}}}]"
        )))
    };
    let lab = crate::lab_of(&policy(5));
    assert_eq!(lab.passes("user=1", 8), 5);
    lab.service.reload(&policy(20)).unwrap();
    assert_eq!(shown(&lab.ask(&hits("user=1", 0))), ["ok 12"]);
    lab.service.reload(&policy(3)).unwrap();
    assert_eq!(shown(&lab.ask(&hits("user=1", 0))), ["over 0"]);
    lab.service.reload(&policy(0)).unwrap();
    assert!(!lab.ask(&request(&["user=1"])).allowed());
    assert!(!lab.service.rule_counts().is_empty());
}

#[test]
fn one_rule_on_many_routes_is_one_limit() {
    let lab = lab("
domain: d
descriptors:
  - {key: path, value: /api/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 5}}
");
    let passed = (0..20).filter(|n| lab.ask(&request(&[&format!("path=/api/{n}")])).allowed()).count();
    assert_eq!(passed, 5);
}

#[test]
fn no_burst_is_a_mistake_and_no_requests_deny_all() {
    let of = |limit: &str| format!("domain: d\ndescriptors: [{{key: user, rate_limit: {{{limit}}}}}]");
    let errors =
        read_rules(&[&of("algorithm: token_bucket, unit: day, requests_per_unit: 5, burst: 0")], false);
    assert!(errors.unwrap_err().to_string().contains("a burst of 0"));
    for algorithm in ["", "algorithm: token_bucket, ", "algorithm: sliding_window_log, "] {
        let lab = lab(&of(&format!("{algorithm}unit: day, requests_per_unit: 0")));
        let response = lab.ask(&request(&["user=1"]));
        let status = &response.statuses[0];
        assert!(!response.allowed() && status.never && status.retry_after.is_none(), "{algorithm}");
        assert_eq!(status.limit.unwrap().requests_per_unit, 0);
    }
}

#[test]
fn a_large_limit_does_limit() {
    let lab = lab_of_limit("unit: minute, requests_per_unit: 1000");
    lab.to_window(Nanos::from_secs(60));
    assert_eq!(lab.passes("user=1", 3_000), 1_000);
    let lab = lab_of_limit("unit: second, requests_per_unit: 4294967295");
    assert!(lab.ask(&hits("user=1", 1_000_000_000)).allowed());
    assert_eq!(lab.one("user=1").remaining, 3_294_967_294);
}

#[test]
fn retry_after_is_a_whole_number_of_seconds_and_at_least_one() {
    let lab = lab_of_limit("algorithm: token_bucket, unit: second, requests_per_unit: 1000");
    lab.ask(&hits("user=1", 1000));
    let status = lab.one("user=1");
    assert!(status.retry_after.unwrap().0 <= 1_000_000);
    assert_eq!(status.retry_after_seconds(), Some(1));
}
