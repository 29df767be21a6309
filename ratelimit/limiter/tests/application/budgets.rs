//! Limits with `overrun`: asked before, charged afterwards, owed and paid.

use std::sync::Arc;

use ratelimit_limiter::{
    Nanos,
    application::{Code, Descriptor, MOST_HITS, Request, Service, ServicePolicy},
    clock::Clock as _,
};

use crate::{Lab, algorithms, hits, lab, lab_of, lab_of_limit, logs::logged, refund, request, rules, shown};

/// A thousand in an hour.
fn limit(kind: &str) -> String {
    format!("algorithm: {kind}, unit: hour, requests_per_unit: 1000, overrun: true")
}

const HOUR: Nanos = Nanos::from_secs(3600);

fn total_cut(lab: &Lab) -> u64 {
    lab.service.rule_counts().iter().map(|(_, counts)| counts.cut).sum()
}

#[test]
fn a_cost_is_charged_whole_and_what_is_owed_is_paid_before_the_next() {
    for kind in algorithms() {
        let lab = lab_of_limit(&limit(kind));
        lab.to_window(HOUR);
        for taken in [0, 900] {
            assert_eq!(shown(&lab.ask(&hits("user=1", 0))), [format!("ok {}", 1000 - taken)], "{kind}");
            assert_eq!(lab.ask(&hits("user=1", 900)).code, Code::Ok, "{kind}");
        }
        let asked = lab.ask(&hits("user=1", 0)).statuses[0].clone();
        assert_eq!((asked.code, asked.remaining, asked.never), (Code::OverLimit, 0, false), "{kind}");
        let wait = asked.retry_after.unwrap();
        lab.clock.advance(Nanos(wait.0 - 1));
        assert_eq!(lab.ask(&hits("user=1", 0)).code, Code::OverLimit, "{kind}");
        lab.clock.advance(Nanos(1));
        assert_eq!(lab.ask(&hits("user=1", 0)).code, Code::Ok, "{kind}");
        assert_eq!(total_cut(&lab), 0, "{kind}");
    }
}

#[test]
fn a_cost_is_charged_whoever_denies() {
    for kind in algorithms() {
        let lab = lab(&format!(
            "domain: d\ndescriptors: [{{key: user, rate_limit: {{{}}}}}, {{key: full, rate_limit: {{algorithm: \
             fixed_window, unit: hour, requests_per_unit: 1}}}}]",
            limit(kind)
        ));
        lab.to_window(HOUR);
        lab.ask(&request(&["full=1"]));
        let mut both = request(&["user=1", "full=1"]);
        both.descriptors[0].hits_addend = Some(600);
        assert_eq!(shown(&lab.ask(&both)), ["ok 400", "over 0"], "{kind}");
        assert_eq!(shown(&lab.ask(&both)), ["ok 0", "over 0"], "{kind}");
        // In debt it denies by itself, and counts all the same.
        assert_eq!(lab.ask(&hits("user=1", 100)).code, Code::OverLimit, "{kind}");
        lab.ask(&refund("user=1", 300));
        assert_eq!(shown(&lab.ask(&hits("user=1", 0))), ["over 0"], "{kind}");
        lab.ask(&refund("user=1", 1));
        assert_eq!(shown(&lab.ask(&hits("user=1", 0))), ["ok 1"], "{kind}");
    }
}

#[test]
fn ten_limits_can_be_owed_and_what_is_beyond_is_counted() {
    for kind in algorithms() {
        for cost in [20_000, MOST_HITS + 1, u64::from(u32::MAX) + 1_000] {
            let lab = lab_of_limit(&limit(kind));
            lab.to_window(HOUR);
            let taken = lab.ask(&hits("user=1", cost));
            assert_eq!((taken.code, taken.statuses[0].never), (Code::Ok, false), "{kind} {cost}");
            assert_eq!(total_cut(&lab), cost - 11_000, "{kind}");
            lab.ask(&refund("user=1", 10_000));
            assert_eq!(shown(&lab.ask(&hits("user=1", 0))), ["over 0"], "{kind}");
            lab.ask(&refund("user=1", 1));
            assert_eq!(shown(&lab.ask(&hits("user=1", 0))), ["ok 1"], "{kind}");
            // What is given back beyond that is no use.
            lab.ask(&refund("user=1", 1_000_000_000));
            assert_eq!(shown(&lab.ask(&hits("user=1", 0))), ["ok 1000"], "{kind}");
        }
    }
}

#[test]
fn a_denied_request_pays_no_debt_by_a_refund() {
    for kind in algorithms() {
        let lab = lab(&format!(
            "domain: d\ndescriptors: [{{key: user, rate_limit: {{{}}}}}, {{key: none, rate_limit: {{unit: hour, \
             requests_per_unit: 0}}}}]",
            limit(kind)
        ));
        lab.to_window(HOUR);
        lab.ask(&hits("user=1", 1_500));
        let mut both = request(&["user=1", "none=1"]);
        (both.descriptors[0].hits_addend, both.descriptors[0].is_negative_hits) = (Some(100), true);
        (0..20).for_each(|_| assert_eq!(lab.ask(&both).code, Code::OverLimit, "{kind}"));
        assert_eq!(shown(&lab.ask(&hits("user=1", 0))), ["over 0"], "{kind}");
    }
}

#[test]
fn a_report_charges_all_limits_and_is_not_denied() {
    let lab = lab("
domain: d
descriptors:
  - {key: budget, rate_limit: {algorithm: token_bucket, unit: hour, requests_per_unit: 10, overrun: true}}
  - {key: bucket, rate_limit: {algorithm: token_bucket, unit: hour, requests_per_unit: 10}}
  - {key: window, rate_limit: {algorithm: fixed_window, unit: hour, requests_per_unit: 10}}
  - {key: log, rate_limit: {algorithm: sliding_window_log, unit: hour, requests_per_unit: 10}}
  - {key: counter, rate_limit: {algorithm: sliding_window_counter, unit: hour, requests_per_unit: 10}}
  - {key: wide, rate_limit: {algorithm: sliding_window_counter, unit: second, requests_per_unit: 4000000}}
  - {key: all, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: quota, quota_mode: true, rate_limit: {algorithm: fixed_window, unit: hour, requests_per_unit: 10}}
  - {key: none, rate_limit: {algorithm: token_bucket, unit: hour, requests_per_unit: 0}}
  - {key: soft, rate_limit: {algorithm: fixed_window, unit: hour, requests_per_unit: 10, soft_limit: 5, soft_for: 1s}}
");
    let keys = ["budget", "bucket", "window", "log", "counter", "wide", "all", "quota", "none", "soft"];
    let of = |hits: u64| {
        let cost = |descriptor| Descriptor { hits_addend: Some(hits), ..descriptor };
        let Request { domain, descriptors, hits_addend } = request(&keys);
        Request { domain, descriptors: descriptors.into_iter().map(cost).collect(), hits_addend }
    };
    let report = |hits| lab.service.report(&of(hits)).unwrap();
    assert_eq!(
        shown(&report(7)),
        ["ok 3", "ok 3", "ok 3", "ok 3", "ok 3", "ok 3999993", "ok 3", "ok 3", "ok 0", "ok 3"]
    );
    for hits in [7, 0, MOST_HITS + 1] {
        let reported = report(hits);
        assert_eq!((reported.code, reported.deciding().unwrap().retry_after), (Code::Ok, None), "{hits}");
        assert!(reported.statuses.iter().all(|status| status.code == Code::Ok && !status.never), "{hits}");
    }
    let asked = lab.ask(&of(0));
    assert_eq!(asked.code, Code::OverLimit);
    let left: Vec<u64> = asked.statuses.iter().map(|status| status.remaining).collect();
    assert_eq!(left, [0; 10]);
    assert_eq!(lab.ask(&hits("window", 0)).code, Code::OverLimit);
}

/// A request that takes from one budget twice needs a unit for each part, after what the part before it takes.
#[test]
fn waits_are_exact_for_a_budget_that_is_asked_twice() {
    for kind in algorithms() {
        let denied = || {
            let lab = lab_of_limit(&limit(kind));
            lab.to_window(HOUR);
            lab.ask(&hits("user=1", 1_200));
            let mut twice = request(&["user=1", "user=1"]);
            twice.descriptors[0].hits_addend = Some(50);
            let response = lab.ask(&twice);
            assert_eq!(response.code, Code::OverLimit, "{kind}");
            let wait = response.deciding().unwrap().retry_after.unwrap();
            (lab, twice, wait)
        };
        for (early, code) in [(1, Code::OverLimit), (0, Code::Ok)] {
            let (lab, twice, wait) = denied();
            lab.clock.advance(Nanos(wait.0 - early));
            assert_eq!(lab.ask(&twice).code, code, "{kind} {early} ns before {wait:?}");
        }
    }
}

#[test]
fn a_debt_survives_a_restart() {
    for kind in algorithms() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("domain: d\ndescriptors: [{{key: user, rate_limit: {{{}}}}}]", limit(kind));
        let mut policy = ServicePolicy::of_rules(rules(&text));
        policy.store.state_file = Some(directory.path().join("state"));
        let lab = lab_of(&policy);
        lab.ask(&hits("user=1", 3_000));
        lab.service.save().unwrap();
        let wait = |lab: &Lab| lab.ask(&hits("user=1", 0)).statuses[0].retry_after;
        let before = wait(&lab);
        let service = Service::with_clock(&policy, Arc::new(lab.clock.clone())).unwrap();
        assert_eq!(wait(&Lab { service, clock: lab.clock }), before, "{kind}");
        assert!(before.is_some_and(|wait| wait > HOUR), "{kind}: {before:?}");
    }
}

/// Numbers that look random and are the same in each run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What was taken and when, by requests that ask, run for a while, and then say what they have cost; and the most that
/// was in flight at once.
fn taken(lab: &Lab, numbers: &mut Numbers) -> (Vec<(u64, u64)>, u64) {
    let (mut running, mut taken, mut most) = (Vec::new(), Vec::new(), 0);
    for _ in 0..2_000 {
        lab.clock.advance(Nanos(numbers.below(2_000_000_000)));
        if numbers.below(2) == 0 && running.len() < 8 && lab.ask(&hits("user=1", 0)).allowed() {
            running.push(1 + numbers.below(30));
        } else if !running.is_empty() {
            let cost = running.swap_remove(numbers.below(running.len() as u64) as usize);
            lab.ask(&hits("user=1", cost));
            taken.push((lab.clock.now().0, cost));
        }
        most = most.max(running.iter().sum());
    }
    (taken, most)
}

/// In any time: no more than the burst, the rate, and the costs in flight; of windows, the limit for each one touched.
#[test]
fn no_time_has_more_than_the_limit_and_the_costs_in_flight() {
    const LIMIT: u64 = 60;
    const MINUTE: u64 = 60_000_000_000;
    for kind in algorithms() {
        for seed in 1..6_u64 {
            let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let lab = lab_of_limit(&format!(
                "algorithm: {kind}, unit: minute, requests_per_unit: {LIMIT}, overrun: true"
            ));
            let (taken, in_flight) = taken(&lab, &mut numbers);
            assert_eq!(total_cut(&lab), 0, "{kind}: no mean holds beyond that");
            for (first, (start, _)) in taken.iter().enumerate() {
                let mut sum = 0;
                for (end, cost) in &taken[first..] {
                    sum += cost;
                    let most = match kind {
                        "token_bucket" | "leaky_bucket" => LIMIT + (LIMIT * (end - start)).div_ceil(MINUTE),
                        _ => LIMIT * (end / MINUTE - start / MINUTE + 1),
                    };
                    assert!(sum <= most + in_flight, "{kind}, seed {seed}: {sum} > {most} + {in_flight}");
                }
            }
            // And it is used: the mean is the rate, but for what is in flight at the end.
            let total: u64 = taken.iter().map(|(_, cost)| cost).sum();
            assert!(total > 1_000, "{kind}: {total}");
        }
    }
}

#[test]
fn a_rule_that_is_asked_as_a_budget_and_is_none_is_said_once() {
    let content = "domain: d
descriptors:
  - {key: none, value_to_metric: true, rate_limit: {algorithm: token_bucket, unit: hour, requests_per_unit: 5}}
  - {key: seldom, rate_limit: {algorithm: sliding_window_log, unit: hour, requests_per_unit: 5}}
  - {key: budget, rate_limit: {algorithm: token_bucket, unit: hour, requests_per_unit: 5, overrun: true}}
  - {key: counts, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: closed, rate_limit: {algorithm: token_bucket, unit: hour, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
";
    let lab = lab(content);
    let ask_all = || {
        logged(|| {
            for round in 0..50 {
                for key in ["none", "budget", "counts", "closed", "free"] {
                    lab.ask(&hits(&format!("{key}={round}"), 0));
                }
            }
            lab.ask(&hits("seldom=1", 1));
            lab.ask(&refund("seldom=1", 0));
            lab.service.report(&hits("seldom=1", 0)).unwrap();
        })
    };
    let is_said = |logged: &str| {
        let lines: Vec<&str> = logged.lines().collect();
        matches!(lines[..], [line] if line.contains("domain=d rule=none") && line.contains("`overrun: true`"))
    };
    let first = ask_all();
    assert!(is_said(&first), "{first}");
    assert_eq!(ask_all(), "");
    let told: Vec<bool> = lab.service.status(9).rules.iter().map(|rule| rule.is_no_budget).collect();
    assert_eq!(told, [true, false, false, false, false, false]);
    // The next generation says it again.
    lab.service.reload(&ServicePolicy::of_rules(rules(content))).unwrap();
    assert!(lab.service.status(9).rules.iter().all(|rule| !rule.is_no_budget));
    assert!(is_said(&ask_all()));
}
