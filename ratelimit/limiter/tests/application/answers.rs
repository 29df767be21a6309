//! What is answered: modes, replaced limits, limits that requests bring, and numbers.

use ratelimit_limiter::application::ServicePolicy;
use ratelimit_limiter::application::{Code, RequestError, TimeUnit, UNLIMITED};

use crate::{Lab, SECOND, hits, lab, lab_of, lab_of_limit, request, rules, shown, with_limit};

const TWO: &str = "
domain: d
descriptors:
  - {key: a, rate_limit: {name: la, unit: hour, requests_per_unit: 2}}
  - {key: b, rate_limit: {name: lb, unit: hour, requests_per_unit: 4}}
";

#[test]
fn every_descriptor_is_charged_whoever_denies() {
    let lab = lab(TWO);
    for expected in
        [["ok 1", "ok 3"], ["ok 0", "ok 2"], ["over 0", "ok 1"], ["over 0", "ok 0"], ["over 0", "over 0"]]
    {
        let response = lab.ask(&request(&["a=1", "b=1"]));
        assert_eq!(shown(&response), expected);
        assert_eq!(response.allowed(), expected[0] != "over 0");
    }
}

#[test]
fn replaced_limits_are_ok_without_limit_and_uncharged() {
    let lab = lab("
domain: d
descriptors:
  - {key: slow, rate_limit: {name: slow, unit: hour, requests_per_unit: 1}}
  - {key: fast, rate_limit: {name: fast, replaces: [{name: slow}, {name: other}], unit: hour, requests_per_unit: 9}}
  - {key: free, rate_limit: {unlimited: true, replaces: [{name: fast}]}}
");
    for remaining in [8, 7] {
        let response = lab.ask(&request(&["slow=1", "fast=1"]));
        assert_eq!(shown(&response), ["ok 0".to_owned(), format!("ok {remaining}")]);
        assert!(response.statuses[0].limit.is_none());
    }
    // Unlimited ones replace, and replaced ones do too.
    let response = lab.ask(&request(&["slow=1", "fast=1", "free=1"]));
    assert!(response.statuses.iter().all(|status| status.limit.is_none()));
    assert_eq!(shown(&response), ["ok 0", "ok 0", &format!("ok {UNLIMITED}")]);
    // Nothing of all that was charged to the first.
    assert_eq!(shown(&lab.ask(&request(&["slow=1"]))), ["ok 0"]);
    assert_eq!(shown(&lab.ask(&request(&["fast=1"]))), ["ok 6"]);
}

#[test]
fn shadow_mode_counts_and_passes() {
    let lab = lab("
domain: d
descriptors:
  - {key: a, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: b, shadow_mode: true, rate_limit: {algorithm: token_bucket, unit: hour, requests_per_unit: 2}}
  - {key: c, rate_limit: {algorithm: token_bucket, unit: hour, requests_per_unit: 1}}
");
    for key in ["a", "b"] {
        for (remaining, shadowed) in [(1, false), (0, false), (0, true), (0, true)] {
            let response = lab.ask(&request(&[key]));
            let status = &response.statuses[0];
            assert!(response.allowed() && status.code == Code::Ok);
            assert_eq!((status.remaining, status.shadowed), (remaining, shadowed), "{key}");
        }
    }
    // What another limit denies does not take from one that only counts, unless it counts all.
    assert_eq!(shown(&lab.ask(&request(&["b=2", "c", "a=2"]))), ["ok 1", "ok 0", "ok 1"]);
    assert_eq!(shown(&lab.ask(&request(&["b=2", "c", "a=2"]))), ["ok 1", "over 0", "ok 0"]);
}

#[test]
fn the_shadow_mode_of_all_lets_requests_through_and_says_what_it_would_have_done() {
    let policy = ServicePolicy { shadow_mode: true, ..ServicePolicy::of_rules(rules(TWO)) };
    let lab = lab_of(&policy);
    lab.ask(&hits("a=1", 2));
    let response = lab.ask(&request(&["a=1"]));
    assert!(response.allowed() && shown(&response) == ["over 0"]);
    assert_eq!(lab.service.domain_counts()[0].1.shadowed, 1);
}

const QUOTA: &str = "
domain: d
descriptors:
  - {key: q1, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: q2, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: q3, quota_mode: true, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: n, rate_limit: {unit: hour, requests_per_unit: 5}}
";

#[test]
fn in_quota_mode_a_request_is_over_if_all_quotas_are_or_any_other_limit_is() {
    let lab = lab(QUOTA);
    let ask = |keys: &[&str]| {
        let response = lab.ask(&request(keys));
        (response.allowed(), shown(&response).join(", "))
    };
    assert_eq!(ask(&["q1", "q2", "n"]), (true, "ok 0, ok 1, ok 4".to_owned()));
    assert_eq!(ask(&["q1", "q2", "n"]), (true, "over 0, ok 0, ok 3".to_owned()));
    assert_eq!(ask(&["q1", "q2", "n"]), (false, "over 0, over 0, ok 2".to_owned()));
    // One in shadow mode counts as passed.
    assert_eq!(ask(&["q3"]).1, "ok 0");
    assert_eq!(ask(&["q1", "q2", "q3"]), (true, "over 0, over 0, ok 0".to_owned()));
    assert_eq!(ask(&["n=2", "q1"]), (false, "ok 4, over 0".to_owned()));
    lab.ask(&hits("n", 5));
    assert_eq!(ask(&["n", "q2=new"]), (false, "over 0, ok 1".to_owned()));
}

#[test]
fn in_the_quota_mode_of_all_one_limit_with_room_is_enough() {
    let lab = lab_of(&ServicePolicy { quota_mode: true, ..ServicePolicy::of_rules(rules(TWO)) });
    lab.ask(&hits("a=1", 2));
    assert!(lab.ask(&request(&["a=1", "b=1"])).allowed());
    assert!(!lab.ask(&request(&["a=1"])).allowed());
}

#[test]
fn what_remains_of_no_limit_is_as_much_as_the_protocol_can_say() {
    let lab = lab("domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true}}]");
    let status = lab.one("a");
    assert_eq!((status.code, status.remaining, status.limit), (Code::Ok, 4_294_967_295, None));
    assert_eq!(status.rule.unwrap().key, "a");
}

#[test]
fn a_limit_that_a_request_brings_takes_the_place_of_the_rules_and_shares_their_counter() {
    let lab = lab("
domain: d
descriptors:
  - {key: a, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: b, rate_limit: {unlimited: true}}
");
    let own = |text, limit, unit| shown(&lab.ask(&with_limit(text, limit, Some(unit))));
    assert_eq!(shown(&lab.ask(&request(&["a=1"]))), ["ok 1"]);
    assert_eq!(own("a=1", 10, TimeUnit::Hour), ["ok 8"]);
    assert_eq!(shown(&lab.ask(&request(&["a=1"]))), ["ok 0"]);
    assert_eq!(own("a=1", 3, TimeUnit::Hour), ["over 0"], "shadow mode is the rule's");
    assert_eq!(own("a=1", 3, TimeUnit::Day), ["ok 2"], "another window is another counter");
    assert_eq!(own("b=1", 1, TimeUnit::Hour), ["ok 0"]);
    assert_eq!(own("no,rule", 1, TimeUnit::Hour), ["ok 0"]);
    assert_eq!(own("none", 0, TimeUnit::Year), ["over 0"]);
    let status = lab.ask(&with_limit("c", 7, Some(TimeUnit::Month))).statuses[0].clone();
    let limit = status.limit.unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit), (7, Some(TimeUnit::Month)));
    assert!(status.rule.is_none());
}

#[test]
fn an_unknown_unit_is_an_error_and_counts_nothing() {
    let lab = lab(TWO);
    let mut asked = with_limit("a=1", 1, None);
    asked.descriptors.insert(0, crate::descriptor("b=1"));
    assert_eq!(lab.service.decide(&asked).unwrap_err(), RequestError::UnknownUnit { descriptor: 1 });
    assert_eq!(shown(&lab.ask(&request(&["b=1"]))), ["ok 3"]);
    assert_eq!(lab.service.request_errors(), 1);
}

#[test]
fn hits_of_the_descriptor_count_first_then_those_of_the_request_and_at_least_one() {
    let lab = lab("domain: d\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 100}}]");
    let mut asked = request(&["a=1", "a=1", "a=1"]);
    asked.hits_addend = 5;
    asked.descriptors[1].hits_addend = Some(7);
    asked.descriptors[2].hits_addend = Some(0);
    assert_eq!(shown(&lab.ask(&asked)), ["ok 95", "ok 88", "ok 88"]);
    asked.hits_addend = 0;
    assert_eq!(shown(&lab.ask(&asked)), ["ok 87", "ok 80", "ok 80"]);
}

#[test]
fn no_hits_only_ask_and_are_over_only_if_the_count_exceeds_the_limit() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 2");
    assert_eq!(shown(&lab.ask(&hits("user=1", 0))), ["ok 2"]);
    lab.ask(&hits("user=1", 2));
    assert_eq!(shown(&lab.ask(&hits("user=1", 0))), ["ok 0"]);
    assert_eq!(shown(&lab.ask(&hits("user=1", 1))), ["over 0"]);
    assert_eq!(shown(&lab.ask(&hits("user=1", 0))), ["over 0"]);
}

#[test]
fn identical_descriptors_are_charged_in_order() {
    for algorithm in ["", ", algorithm: token_bucket"] {
        let lab = lab_of_limit(&format!("unit: hour, requests_per_unit: 3{algorithm}"));
        assert_eq!(shown(&lab.ask(&request(&["user=1", "user=1"]))), ["ok 2", "ok 1"]);
        let response = lab.ask(&request(&["user=1", "user=1"]));
        assert!(!response.allowed() && response.statuses[1].code == Code::OverLimit, "{algorithm}");
    }
    // All or nothing: the one unit is left.
    let lab = lab_of_limit("unit: hour, requests_per_unit: 3, algorithm: token_bucket");
    lab.ask(&request(&["user=1", "user=1"]));
    lab.ask(&request(&["user=1", "user=1"]));
    assert_eq!(shown(&lab.ask(&request(&["user=1"]))), ["ok 0"]);
}

#[test]
fn the_window_ends_in_whole_seconds_rounded_up() {
    for (unit, seconds) in [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400), ("week", 604_800)]
    {
        let lab = lab_of_limit(&format!("unit: {unit}, requests_per_unit: 1"));
        let start = crate::START.0 / SECOND.0;
        assert_eq!(lab.one("user=1").duration_until_reset(), Some(seconds - start % seconds), "{unit}");
        let over = lab.one("user=1");
        assert_eq!(over.retry_after_seconds(), over.duration_until_reset());
        lab.advance(over.retry_after_seconds().unwrap());
        assert_eq!(shown(&lab.ask(&request(&["user=1"]))), ["ok 0"], "{unit}");
    }
}

#[test]
fn of_a_bucket_the_time_is_until_it_is_full_or_until_the_request_passes() {
    let lab = lab_of_limit("algorithm: token_bucket, unit: minute, requests_per_unit: 60, burst: 10");
    let status = lab.ask(&hits("user=1", 4)).statuses[0].clone();
    assert_eq!(
        (status.remaining, status.duration_until_reset(), status.next_after_seconds()),
        (6, Some(4), 1)
    );
    let status = lab.ask(&hits("user=1", 9)).statuses[0].clone();
    assert_eq!(
        (status.remaining, status.duration_until_reset(), status.retry_after_seconds()),
        (0, Some(3), Some(3))
    );
    let limit = status.limit.unwrap();
    assert_eq!((limit.capacity, limit.requests_per_unit, limit.window_seconds()), (10, 60, 10));
    let never = lab.ask(&hits("user=1", 11)).statuses[0].clone();
    assert!(never.never && never.retry_after.is_none());
}

/// The status that stands for all.
fn deciding(lab: &Lab, keys: &[&str]) -> Option<usize> {
    lab.ask(&request(keys)).deciding
}

#[test]
fn one_status_stands_for_all() {
    let lab = lab("
domain: d
descriptors:
  - {key: h, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: d, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: s, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: z, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: q, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: r, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 9}}
");
    assert_eq!(deciding(&lab, &["none"]), None);
    assert_eq!(deciding(&lab, &["d=1", "h=1"]), Some(1), "equal, so in the order of rules");
    assert_eq!(deciding(&lab, &["none", "d=1", "h=2"]), Some(1), "fewest left");
    assert_eq!(deciding(&lab, &["s", "d=2"]), Some(1), "shadow mode decides nothing");
    assert_eq!(deciding(&lab, &["s"]), Some(0));
    lab.ask(&hits("h=3", 3));
    lab.ask(&hits("d=3", 3));
    assert_eq!(deciding(&lab, &["h=3", "s", "d=3"]), Some(2), "longest wait");
    assert_eq!(deciding(&lab, &["d=3", "z"]), Some(1), "never is longest");
    lab.ask(&hits("q", 1));
    assert_eq!(deciding(&lab, &["q", "h=4", "r"]), Some(1), "an exceeded quota that does not count");
    assert_eq!(deciding(&lab, &["q", "h=3", "r"]), Some(1));
}

#[test]
fn of_quotas_that_deny_the_one_that_passes_first_stands_for_all() {
    let lab = lab("
domain: d
descriptors:
  - {key: m, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: d, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: z, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: y, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: h, rate_limit: {unit: hour, requests_per_unit: 1}}
");
    for key in ["m", "d", "h"] {
        lab.ask(&request(&[key]));
    }
    let wait = |keys: &[&str]| {
        let response = lab.ask(&request(keys));
        assert!(!response.allowed(), "{keys:?}");
        let status = response.deciding().unwrap();
        (response.deciding.unwrap(), status.never, status.retry_after_seconds().is_some())
    };
    assert_eq!(wait(&["d", "m"]), (1, false, true), "the shortest wait");
    assert_eq!(wait(&["z", "m"]), (1, false, true), "never, but for the other");
    assert_eq!(wait(&["z", "y"]), (0, true, false), "all never");
    assert_eq!(wait(&["d", "m", "h"]), (2, false, true), "a limit that is no quota and takes longer");
    assert_eq!(wait(&["d", "z", "h"]), (0, false, true), "a quota that takes longer");
}

#[test]
fn an_unlimited_descriptor_in_quota_mode_is_never_over() {
    let lab = lab("
domain: d
descriptors:
  - {key: q, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: free, quota_mode: true, rate_limit: {unlimited: true}}
  - {key: other, rate_limit: {unlimited: true}}
  - {key: none, quota_mode: true}
");
    lab.ask(&request(&["q"]));
    assert!(lab.ask(&request(&["q", "free"])).allowed());
    for keys in [&["q"][..], &["q", "other"], &["q", "none"]] {
        assert!(!lab.ask(&request(keys)).allowed(), "{keys:?}: no other quota");
    }
}

#[test]
fn the_window_of_a_limit_that_denies_all_is_its_time() {
    let lab = lab_of_limit("unit: day, requests_per_unit: 0");
    assert_eq!(lab.one("user").limit.unwrap().window_seconds(), 86_400);
}
