//! Under which labels hits are counted, and that there are never too many.

use ratelimit::application::MOST_VALUE_LABELS;

use crate::{Lab, lab, request};

fn labels(lab: &Lab) -> Vec<String> {
    let counted = lab.service.rule_counts();
    counted.iter().filter(|(_, counts)| counts.total_hits > 0).map(|(label, _)| label.key.clone()).collect()
}

const LIMIT: &str = "rate_limit: {unit: hour, requests_per_unit: 5}";

#[test]
fn labels_are_of_the_rule_or_of_the_values_that_it_asks_for() {
    let content = format!("
domain: d
descriptors:
  - {{key: plain, {LIMIT}}}
  - {{key: wild, value: 'a*', {LIMIT}}}
  - {{key: vtm, value_to_metric: true, {LIMIT}}}
  - {{key: shared, value: 'a*', share_threshold: true, value_to_metric: true, {LIMIT}}}
  - {{key: top, value: 'a*', value_to_metric: true, descriptors: [{{key: below, {LIMIT}}}]}}
  - {{key: det, descriptors: [{{key: below, detailed_metric: true, {LIMIT}}}]}}
  - {{key: sdet, value: 'a*', share_threshold: true, descriptors: [{{key: below, detailed_metric: true, {LIMIT}}}]}}
");
    let cases = [
        ("plain=1", "plain"),
        ("wild=a1", "wild_a*"),
        ("vtm=1", "vtm_1"),
        ("vtm", "vtm"),
        ("shared=a1", "shared_a*"),
        ("top=a1,below=2", "top_a1.below"),
        ("det=1,below=2", "det_1.below_2"),
        ("sdet=a1,below=2", "sdet_a*.below_2"),
    ];
    for (descriptor, expected) in cases {
        let lab = lab(&content);
        lab.ask(&request(&[descriptor]));
        assert_eq!(labels(&lab), [expected], "{descriptor}");
    }
}

#[test]
fn labels_that_values_make_are_bounded() {
    let lab = lab(&format!("domain: d\ndescriptors:\n  - {{key: user, value_to_metric: true, {LIMIT}}}\n"));
    for user in 0..5_000 {
        lab.ask(&request(&[&format!("user={user}")]));
    }
    let counts = lab.service.rule_counts();
    assert_eq!(
        counts.iter().filter(|(label, _)| label.key != "(limits of requests)").count(),
        MOST_VALUE_LABELS + 1
    );
    // Those without a label of their own are not lost.
    let sum: u64 = counts.iter().map(|(_, counts)| counts.total_hits).sum();
    assert_eq!(sum, 5_000);
    assert_eq!(counts.iter().find(|(label, _)| label.key == "user").unwrap().1.total_hits, 4_000);
    lab.ask(&request(&[&format!("user={}", "x".repeat(10_000))]));
    assert!(lab.service.rule_counts().iter().all(|(label, _)| label.key.len() <= 200));
}

#[test]
fn long_values_do_not_make_long_labels() {
    let lab = lab(&format!("domain: d\ndescriptors:\n  - {{key: user, value_to_metric: true, {LIMIT}}}\n"));
    lab.ask(&request(&[&format!("user={}", "ü".repeat(10_000))]));
    assert_eq!(labels(&lab), [format!("user_{}", "ü".repeat(195))]);
}
