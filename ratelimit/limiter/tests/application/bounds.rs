//! Requests that are long, dear or many: judged, or denied where they can't be, and errors only if they make no sense.

use ratelimit_limiter::application::{
    Code, Descriptor, LimitOverride, MOST_DESCRIPTORS, MOST_ENTRIES, MOST_HITS, Request, RequestError,
    TimeUnit, UNLIMITED,
};
use ratelimit_limiter::{Nanos, application::ServicePolicy};

use proptest::prelude::*;

use crate::{hits, lab_of_limit, request, shown};

#[test]
fn what_makes_no_sense_is_an_error() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 1000");
    let empty_domain = Request { domain: String::new(), ..request(&["user=1"]) };
    for (asked, expected) in
        [(empty_domain, RequestError::EmptyDomain), (request(&[]), RequestError::NoDescriptors)]
    {
        assert_eq!(lab.service.decide(&asked).unwrap_err(), expected);
    }
    assert_eq!(lab.service.request_errors(), 2);
    assert_eq!(shown(&lab.ask(&request(&["user=1"]))), ["ok 999"]);
}

#[test]
fn a_descriptor_without_a_rule_takes_no_other_out_of_its_limit() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 1");
    let odd = [Descriptor::default(), Descriptor::of([("", "x")]), Descriptor::of([("", "")])];
    let of =
        |odd: Descriptor| Request { descriptors: vec![odd, crate::descriptor("user=1")], ..request(&[]) };
    assert_eq!(shown(&lab.ask(&of(odd[0].clone()))), ["ok 0", "ok 0"]);
    for odd in odd {
        assert_eq!(shown(&lab.ask(&of(odd))), ["ok 0", "over 0"]);
    }
    assert_eq!(lab.service.request_errors(), 0);
}

#[test]
fn more_than_is_judged_is_denied_and_charges_nothing() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 1000");
    let of = |descriptors: Vec<Descriptor>| Request { descriptors, ..request(&[]) };
    let user = || crate::descriptor("user=1");
    let many = |count| Descriptor::of((0..count).map(|n| (format!("k{n}"), "v")));
    for (asked, statuses) in [
        (of(vec![user(); MOST_DESCRIPTORS + 1]), MOST_DESCRIPTORS),
        (of(vec![user(); 10_000]), MOST_DESCRIPTORS),
        (of(vec![user(), many(MOST_ENTRIES + 1)]), 2),
    ] {
        let response = lab.ask(&asked);
        assert!(!response.allowed() && response.deciding().is_none());
        assert_eq!(response.statuses.len(), statuses);
        assert!(response.statuses.iter().all(|status| status.never && status.code == Code::OverLimit));
    }
    assert_eq!((lab.service.requests_too_much(), lab.service.domain_counts()[0].1.denied), (3, 3));
    assert_eq!(shown(&lab.ask(&request(&["user=1"]))), ["ok 999"]);
    // A domain without rules has nothing that could deny it.
    let elsewhere = Request { domain: "elsewhere".to_owned(), ..of(vec![user(); MOST_DESCRIPTORS + 1]) };
    assert!(lab.ask(&elsewhere).allowed());
}

#[test]
fn where_all_limits_only_count_more_than_is_judged_passes() {
    let rules =
        crate::rules("domain: d\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]");
    let lab = crate::lab_of(&ServicePolicy { shadow_mode: true, ..ServicePolicy::of_rules(rules) });
    let descriptors = vec![crate::descriptor("user=1"); MOST_DESCRIPTORS + 1];
    assert!(lab.ask(&Request { descriptors, ..request(&[]) }).allowed());
    assert!(lab.ask(&hits("user=1", u64::MAX)).allowed());
    assert_eq!(lab.service.domain_counts()[0].1.shadowed, 2);
}

#[test]
fn a_value_of_any_length_is_judged_by_all_of_it() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 2");
    let long = |end: &str| {
        let user = Descriptor::of([("user", "x".repeat(1 << 20) + end)]);
        shown(&lab.ask(&Request { descriptors: vec![user], ..request(&[]) }))
    };
    assert_eq!([long("a"), long("a"), long("a")], [["ok 1"], ["ok 0"], ["over 0"]]);
    assert_eq!(long("b"), ["ok 1"]);
}

#[test]
fn a_cost_above_a_billion_or_the_capacity_never_passes() {
    let limits = [
        "unit: hour, requests_per_unit: 4294967295",
        "unit: hour, requests_per_unit: 4294967295, algorithm: fixed_window",
        "unit: hour, requests_per_unit: 4294967295, algorithm: sliding_window_counter, count_denied: true",
        "unit: hour, requests_per_unit: 4294967295, algorithm: token_bucket, burst: 100000000000",
        "unit: hour, requests_per_unit: 4294967295, algorithm: leaky_bucket, count_denied: true",
    ];
    for limit in limits {
        let lab = lab_of_limit(limit);
        let far = [MOST_HITS + 1, 2_000_000_000, u64::from(u32::MAX), 1 << 32, 5_000_000_000, u64::MAX];
        for (user, cost) in far.into_iter().enumerate() {
            let response = lab.ask(&hits(&format!("user={user}"), cost));
            let status = response.deciding().unwrap();
            assert!(!response.allowed() && status.never, "{limit} {cost}");
            assert_eq!((status.remaining, status.retry_after), (0, None), "{limit} {cost}");
        }
        let asked = Request { hits_addend: u32::MAX, ..request(&["user=whole"]) };
        assert!(lab.ask(&asked).deciding().unwrap().never, "{limit}");
        assert!(lab.ask(&hits("user=fresh", MOST_HITS)).allowed(), "{limit}");
    }
    let lab = lab_of_limit("unit: hour, requests_per_unit: 5, algorithm: token_bucket");
    for cost in [6, MOST_HITS, MOST_HITS + 1, u64::MAX] {
        let response = lab.ask(&hits("user=1", cost));
        assert!(!response.allowed() && response.statuses[0].never, "{cost}");
    }
    assert_eq!(shown(&lab.ask(&request(&["user=1"]))), ["ok 4"], "nothing was charged");
    // What has no limit has none for any cost.
    assert!(lab.ask(&hits("other=1", u64::MAX)).allowed());
}

#[test]
fn a_refund_of_any_size_gives_back_what_was_taken_and_no_more() {
    for limit in
        ["unit: hour, requests_per_unit: 5", "unit: hour, requests_per_unit: 5, algorithm: token_bucket"]
    {
        for count in [3, MOST_HITS, MOST_HITS + 1, u64::MAX] {
            let lab = lab_of_limit(limit);
            assert_eq!(shown(&lab.ask(&hits("user=1", 3))), ["ok 2"]);
            assert_eq!(shown(&lab.ask(&crate::refund("user=1", count))), ["ok 5"], "{limit} {count}");
        }
    }
}

#[test]
fn what_is_just_not_too_much_is_judged() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 1000");
    let descriptors = vec![crate::descriptor("user=1"); MOST_DESCRIPTORS];
    let response = lab.ask(&Request { descriptors, ..request(&[]) });
    assert_eq!(response.statuses.len(), MOST_DESCRIPTORS);
    assert_eq!(response.statuses[MOST_DESCRIPTORS - 1].remaining, 1000 - MOST_DESCRIPTORS as u64);
    assert!(!lab.ask(&hits("user=2", MOST_HITS)).allowed());
}

#[test]
fn a_pattern_of_many_stars_is_matched_in_time_that_grows_with_the_text() {
    let pattern = "a*".repeat(100);
    let lab = crate::lab(&format!(
        "domain: d\ndescriptors: [{{key: user, value: '{pattern}b', rate_limit: {{unit: hour, requests_per_unit: 5}}}}]"
    ));
    assert!(lab.one(&format!("user={}", "a".repeat(60_000))).limit.is_none());
    assert!(lab.one(&format!("user={}b", "a".repeat(60_000))).limit.is_some());
}

/// A file that uses every key.
const RULES: &str = "
domain: d
descriptors:
  - key: user
    value: 'a*b'
    share_threshold: true
    detailed_metric: true
    metadata: {tier: gold, n: [1, 2.5, null]}
    rate_limit: {name: x, algorithm: token_bucket, burst: 9, unit: hour, requests_per_unit: 5, count_denied: true}
    descriptors:
      - {key: path, rate_limit: {replaces: [{name: x}], per: 15m, requests_per_unit: 256, soft_limit: 8, soft_for: 30s}}
  - {key: free, quota_mode: true, shadow_mode: true, value_to_metric: true, rate_limit: {unlimited: true}}
";

fn any_descriptor() -> impl Strategy<Value = Descriptor> {
    let text = prop_oneof!["user|path|free|a1b|ab", "\\PC{0,5}"];
    let entries = prop::collection::vec((text.clone(), text), 0..4);
    let hits = prop_oneof![Just(None), (0..3_u64).prop_map(Some), any::<u64>().prop_map(Some)];
    let unit = prop::sample::select(vec![None, Some(TimeUnit::Second), Some(TimeUnit::Year)]);
    let limit = prop_oneof![Just(None), (any::<u32>(), unit).prop_map(Some)];
    (entries, hits, limit, any::<bool>()).prop_map(|(entries, hits_addend, limit, is_negative_hits)| {
        Descriptor {
            entries,
            limit: limit.map(|(requests_per_unit, unit)| LimitOverride { requests_per_unit, unit }),
            hits_addend,
            is_negative_hits,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_request_is_answered_or_an_error(
        requests in prop::collection::vec((prop::collection::vec(any_descriptor(), 0..5), any::<u32>(), any::<u32>()), 1..20),
    ) {
        let lab = crate::lab(RULES);
        for (descriptors, hits_addend, wait) in requests {
            let asked = Request { domain: "d".to_owned(), descriptors, hits_addend };
            if let Ok(response) = lab.service.decide(&asked) {
                prop_assert_eq!(response.statuses.len(), asked.descriptors.len());
                prop_assert!(response.deciding.is_none_or(|index| index < response.statuses.len()));
                for status in &response.statuses {
                    let most = status.limit.map_or(UNLIMITED, |limit| limit.capacity);
                    prop_assert!(status.remaining <= most);
                    prop_assert!(status.code == Code::Ok || status.remaining == 0);
                }
            }
            lab.clock.advance(Nanos(u64::from(wait) * 10_000));
        }
    }

    #[test]
    fn any_change_of_a_file_of_rules_is_read_or_a_mistake(at in 0..RULES.len(), new in "\\PC|[:{}'\n -]{0,3}", cut in 0..9_usize) {
        let end = (at + cut).min(RULES.len());
        let content = format!("{}{new}{}", &RULES[..at], &RULES[end..]);
        if let Ok(rules) = crate::read_rules(&[&content], false) {
            crate::lab_of(&ServicePolicy::of_rules(rules));
        }
    }
}
