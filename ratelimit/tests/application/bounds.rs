//! Requests that are too much: errors, and nothing is counted.

use ratelimit::application::{
    Code, Descriptor, LimitOverride, MOST_BYTES, MOST_DESCRIPTORS, MOST_ENTRIES, MOST_HITS, Request,
    RequestError, TimeUnit, UNLIMITED,
};
use ratelimit::{limiter::Nanos, policy::Application};

use proptest::prelude::*;

use crate::{hits, lab_of_limit, request, shown};

#[test]
fn what_is_too_much_is_an_error() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 1000");
    let of = |descriptors: Vec<Descriptor>| Request { descriptors, ..request(&[]) };
    let user = || crate::descriptor("user=1");
    let many = |count| Descriptor::of((0..count).map(|n| (format!("k{n}"), "v")));
    let long = |bytes: usize| Descriptor::of([("user", "x".repeat(bytes))]);
    let empty_domain = Request { domain: String::new(), ..request(&["user=1"]) };
    let cases = [
        (empty_domain, RequestError::EmptyDomain),
        (request(&[]), RequestError::NoDescriptors),
        (of((0..10_000).map(|_| user()).collect()), RequestError::TooManyDescriptors { count: 10_000 }),
        (of(vec![user(), many(MOST_ENTRIES + 1)]), RequestError::TooManyEntries { descriptor: 1, count: 33 }),
        (of(vec![user(), Descriptor::default()]), RequestError::NoEntries { descriptor: 1 }),
        (of(vec![user(), Descriptor::of([("", "x")])]), RequestError::EmptyKey { descriptor: 1 }),
        (of(vec![user(), long(MOST_BYTES)]), RequestError::TooLong),
        (of(vec![long(1 << 24)]), RequestError::TooLong),
        (hits("user=1", MOST_HITS + 1), RequestError::TooManyHits { descriptor: 0, hits: MOST_HITS + 1 }),
        (hits("user=1", u64::MAX), RequestError::TooManyHits { descriptor: 0, hits: u64::MAX }),
    ];
    let count = cases.len() as u64;
    for (asked, expected) in cases {
        assert_eq!(lab.service.decide(&asked).unwrap_err(), expected);
    }
    assert_eq!(lab.service.request_errors(), count);
    assert_eq!(shown(&lab.ask(&request(&["user=1"]))), ["ok 999"]);
}

#[test]
fn what_is_just_not_too_much_is_answered() {
    let lab = lab_of_limit("unit: hour, requests_per_unit: 1000");
    let descriptors = vec![crate::descriptor("user=1"); MOST_DESCRIPTORS];
    let response = lab.ask(&Request { descriptors, ..request(&[]) });
    assert_eq!(response.statuses.len(), MOST_DESCRIPTORS);
    assert_eq!(response.statuses[MOST_DESCRIPTORS - 1].remaining, 1000 - MOST_DESCRIPTORS as u64);
    let value = "x".repeat(MOST_BYTES - "d".len() - "user".len());
    let long = Descriptor::of([("user", value)]);
    assert_eq!(shown(&lab.ask(&Request { descriptors: vec![long], ..request(&[]) })), ["ok 999"]);
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
            crate::lab_of(&Application::of_rules(rules));
        }
    }
}
