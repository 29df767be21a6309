//! Requests that are too much: errors, and nothing is counted.

use ratelimit::application::{
    Descriptor, MOST_BYTES, MOST_DESCRIPTORS, MOST_ENTRIES, MOST_HITS, Request, RequestError,
};

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
