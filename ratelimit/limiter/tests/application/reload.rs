//! Other rules while requests are decided.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use ratelimit_limiter::{
    Nanos,
    application::ServiceError,
    application::{ServicePolicy, StoreSettings},
};

use crate::{algorithms, hits, lab_of, refund, request, rules, shown, stops::StopsAtEnd};

/// Rules of which `user` is always the same, and others come and go with the generation.
fn policy(generation: usize) -> ServicePolicy {
    let others: String = (0..generation % 7)
        .map(|n| format!("  - {{key: other{n}, rate_limit: {{algorithm: token_bucket, unit: hour, requests_per_unit: {}}}}}\n", n + 1))
        .collect();
    ServicePolicy::of_rules(rules(&format!(
        "domain: d\ndescriptors:\n{others}  - {{key: user, rate_limit: {{unit: year, requests_per_unit: 4000000000}}}}\n  \
         - {{key: bucket, rate_limit: {{algorithm: token_bucket, unit: year, requests_per_unit: 100000000}}}}\n"
    )))
}

#[test]
fn a_thousand_reloads_fail_no_request_and_lose_no_count() {
    let policies: Vec<ServicePolicy> = (0..7).map(policy).collect();
    let lab = lab_of(&policies[0]);
    let is_done = AtomicBool::new(false);
    let count = |worker: usize| {
        let mut count = 0_u64;
        while !is_done.load(Ordering::Relaxed) {
            let own = format!("other{}", worker % 7);
            let response = lab.service.decide(&request(&["user=1", "bucket=1", &own]));
            assert_eq!(response.unwrap().statuses.len(), 3);
            count += 1;
            thread::yield_now();
        }
        count
    };
    let count = &count;
    let asked: u64 = thread::scope(|scope| {
        let at_end = StopsAtEnd(&is_done);
        let workers: Vec<_> = (0..3).map(|worker| scope.spawn(move || count(worker))).collect();
        for generation in 0..1000 {
            lab.service.reload(&policies[generation % 7]).unwrap();
        }
        drop(at_end);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let left = |key: &str| lab.ask(&hits(key, 0)).statuses[0].remaining;
    assert_eq!(left("user=1"), 4_000_000_000 - asked);
    let counts = lab.service.rule_counts();
    let user = counts.iter().find(|(label, _)| label.key == "user").unwrap().1;
    assert_eq!(user.total_hits, asked, "counters go on too");
    // What `other` limits denied took nothing from the bucket.
    let allowed = lab.service.domain_counts()[0].1.allowed;
    assert_eq!(left("bucket=1"), 100_000_000 - (allowed - 1));
}

#[test]
fn counts_belong_to_domain_entries_and_window_whichever_rule_applies() {
    let of = |rule: &str| ServicePolicy::of_rules(rules(&format!("domain: d\ndescriptors: [{rule}]")));
    let lab = lab_of(&of("{key: user, rate_limit: {unit: hour, requests_per_unit: 10}}"));
    lab.ask(&hits("user=1", 4));
    let asked = |rule: &str| {
        lab.service.reload(&of(rule)).unwrap();
        shown(&lab.ask(&hits("user=1", 0))).join("")
    };
    assert_eq!(asked("{key: user, value: '1', rate_limit: {unit: hour, requests_per_unit: 20}}"), "ok 16");
    assert_eq!(asked("{key: 'u*', rate_limit: {per: 60m, requests_per_unit: 5}}"), "ok 1");
    assert_eq!(asked("{key: user, rate_limit: {unit: day, requests_per_unit: 5}}"), "ok 5");
    assert_eq!(asked("{key: user, rate_limit: {unit: hour, requests_per_unit: 10}}"), "ok 6");
    let mut other = hits("user=1", 0);
    other.domain = "e".to_owned();
    lab.service
        .reload(&ServicePolicy::of_rules(rules(
            "domain: e\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 9}}]",
        )))
        .unwrap();
    assert_eq!(shown(&lab.ask(&other)), ["ok 9"]);
}

/// A sliding counter of 100 a day fits a word, one of four billion does not.
#[test]
fn a_sliding_counter_goes_on_with_its_count_whatever_the_numbers_are() {
    let of = |requests: u64| {
        ServicePolicy::of_rules(rules(&format!(
            "domain: d\ndescriptors: [{{key: user, rate_limit: {{algorithm: sliding_window_counter, unit: day, \
             requests_per_unit: {requests}}}}}]"
        )))
    };
    const LARGE: u64 = 4_000_000_000;
    let lab = lab_of(&of(100));
    lab.to_window(Nanos::from_secs(86_400));
    let left = |count| lab.ask(&hits("user=1", count)).statuses[0].remaining;
    let reload = |requests| lab.service.reload(&of(requests)).unwrap();
    assert_eq!(left(60), 40);
    reload(LARGE);
    assert_eq!(left(0), LARGE - 60);
    assert_eq!(left(10), LARGE - 70);
    reload(100);
    assert_eq!((left(0), left(5)), (30, 25));
    assert_eq!(lab.ask(&refund("user=1", 15)).statuses[0].remaining, 40);
    reload(LARGE);
    assert_eq!(left(1_000_000_000), LARGE - 1_000_000_060);
    reload(100);
    assert!(!lab.ask(&hits("user=1", 1)).allowed());
    // Three quarters of the day count in the next one, six hours into it.
    lab.advance(86_400 + 6 * 3600);
    assert!(!lab.ask(&hits("user=1", 1)).allowed());
    reload(LARGE);
    assert_eq!(left(0), LARGE - 750_000_045);
    // What nobody counts any more is not there again, in either form.
    lab.advance(2 * 86_400);
    reload(100);
    assert_eq!(left(10), 90);
    reload(LARGE);
    assert_eq!(lab.ask(&refund("user=1", 10)).statuses[0].remaining, LARGE);
    assert_eq!(left(0), LARGE);
    reload(100);
    assert_eq!(left(0), 100);
}

#[test]
fn a_bucket_that_shrinks_is_no_emptier_than_empty() {
    let of = |burst: u32| {
        ServicePolicy::of_rules(rules(&format!(
            "domain: d\ndescriptors: [{{key: user, rate_limit: {{algorithm: token_bucket, unit: second, requests_per_unit: 1, \
             burst: {burst}}}}}]"
        )))
    };
    let lab = lab_of(&of(1000));
    lab.ask(&hits("user=1", 1000));
    lab.service.reload(&of(10)).unwrap();
    assert_eq!(lab.one("user=1").retry_after_seconds(), Some(1));
}

#[test]
fn another_store_takes_a_restart() {
    let lab = lab_of(&policy(1));
    let other =
        ServicePolicy { store: StoreSettings { max_keys: 5, ..StoreSettings::default() }, ..policy(2) };
    let error = lab.service.reload(&other).unwrap_err();
    assert!(error == ServiceError::StoreChanged && error.to_string().contains("restart"));
    // The old rules stay.
    assert!(lab.one("user=1").limit.is_some());
}

/// What such limits of one length count can't be read by each other's numbers, so each has buckets of its own.
#[test]
fn what_a_limit_that_can_be_overrun_counts_survives_a_reload_beside_others_of_its_length() {
    for algorithm in algorithms() {
        let policy = |more: &str| {
            let limit = |amount: u32| {
                format!("{{algorithm: {algorithm}, overrun: true, unit: day, requests_per_unit: {amount}}}")
            };
            ServicePolicy::of_rules(rules(&format!(
                "domain: d\ndescriptors:\n  - {{key: few, rate_limit: {}}}\n  - {{key: many, rate_limit: {}}}\n{more}",
                limit(10),
                limit(1_000),
            )))
        };
        let lab = lab_of(&policy(""));
        let left = |key: &str| lab.ask(&hits(key, 0)).statuses[0].remaining;
        lab.ask(&hits("many", 700));
        lab.ask(&hits("few", 3));
        // A bucket, so that all are clamped.
        let bucket =
            "  - {key: other, rate_limit: {algorithm: token_bucket, unit: day, requests_per_unit: 1}}\n";
        lab.service.reload(&policy(bucket)).unwrap();
        assert_eq!((left("few"), left("many")), (7, 300), "{algorithm}");
    }
}
