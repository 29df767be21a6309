//! Under which labels hits are counted, and that there are never too many.

use ratelimit_config::{self as config};
use ratelimit_limiter::application::MOST_VALUE_LABELS;

use crate::{Lab, files, lab, logs::logged, request, rules};

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
fn no_rule_takes_the_labels_of_others() {
    let told = format!("value_to_metric: true, {LIMIT}");
    let detailed = format!("detailed_metric: true, {LIMIT}");
    let content =
        format!("domain: d\ndescriptors:\n  - {{key: flooded, {told}}}\n  - {{key: quiet, {detailed}}}\n");
    let lab = lab(&content);
    let unlabelled = || -> Vec<(String, u64)> {
        lab.service.unlabelled_hits().into_iter().map(|(label, hits)| (label.key, hits)).collect()
    };
    assert_eq!(unlabelled(), [("flooded".to_owned(), 0), ("quiet".to_owned(), 0)]);
    let logged = logged(|| {
        for value in 0..5_000 {
            lab.ask(&request(&[&format!("flooded={value}")]));
        }
        lab.ask(&request(&["quiet=1"]));
    });
    assert!(labels(&lab).contains(&"quiet_1".to_owned()));
    assert_eq!(unlabelled(), [("flooded".to_owned(), 4_000), ("quiet".to_owned(), 0)]);
    let lines: Vec<&str> = logged.lines().filter(|line| line.contains("no more labels")).collect();
    assert!(
        matches!(lines[..], [line] if line.contains("rule=flooded") && line.contains("domain=d")),
        "{logged}"
    );
}

#[test]
fn many_rules_share_the_labels_and_each_has_some() {
    let rules = |count: usize| -> String {
        let one = |number| format!("  - {{key: k{number}, value_to_metric: true, {LIMIT}}}\n");
        format!("domain: d\ndescriptors:\n{}", (0..count).map(one).collect::<String>())
    };
    let lab = lab(&rules(20));
    let ask = |key: &str| {
        for value in 0..600 {
            lab.ask(&request(&[&format!("{key}={value}")]));
        }
        labels(&lab).iter().filter(|label| label.starts_with(&format!("{key}_"))).count()
    };
    assert_eq!([ask("k0"), ask("k1")], [500, 500]);
    // What has labels keeps them.
    let more = ratelimit_limiter::application::ServicePolicy::of_rules(crate::rules(&rules(2_000)));
    lab.service.reload(&more).unwrap();
    assert_eq!([ask("k0"), ask("k2")], [500, 10]);
}

#[test]
fn long_values_do_not_make_long_labels() {
    let lab = lab(&format!("domain: d\ndescriptors:\n  - {{key: user, value_to_metric: true, {LIMIT}}}\n"));
    lab.ask(&request(&[&format!("user={}", "ü".repeat(10_000))]));
    assert_eq!(labels(&lab), [format!("user_{}", "ü".repeat(195))]);
}

#[test]
fn no_value_of_a_request_counts_as_another_rule() {
    let one = format!("{{key: v, value_to_metric: true, {LIMIT}}}");
    let other = format!("{{key: v_9, {LIMIT}}}");
    let lab = lab(&format!("domain: d\ndescriptors:\n  - {one}\n"));
    lab.ask(&request(&["v=8"]));
    lab.ask(&request(&["v=9"]));
    assert_eq!(labels(&lab), ["v_8", "v_9"]);
    let both = rules(&format!("domain: d\ndescriptors: [{one}, {other}]\n"));
    lab.service.reload(&ratelimit_limiter::application::ServicePolicy::of_rules(both)).unwrap();
    lab.ask(&request(&["v=9"]));
    assert_eq!(labels(&lab), ["v", "v_8"]);
    lab.ask(&request(&["v_9=1"]));
    let counted = lab.service.rule_counts();
    let hits = |key: &str| counted.iter().find(|(label, _)| label.key == key).unwrap().1.total_hits;
    assert_eq!(["v", "v_8", "v_9"].map(hits), [2, 1, 1]);
}

#[test]
fn rules_that_have_one_label_are_a_warning_where_the_second_stands() {
    let lines = [
        "{key: a, value: b_c, LIMIT}",
        "{key: a_b, value: c, LIMIT}",
        "{key: x, descriptors: [{key: y, LIMIT}]}",
        "{key: x.y, LIMIT}",
        "{key: (limits of requests), LIMIT}",
        "{key: p, LIMIT}",
        // Without a limit it is counted nowhere.
        "{key: p_q, descriptors: [{key: p, LIMIT}]}",
    ];
    let content = |domain: &str, lines: &[&str]| {
        format!("domain: {domain}\ndescriptors:\n- {}\n", lines.join("\n- ")).replace("LIMIT", LIMIT)
    };
    let files = files(&[
        &content("d", &lines),
        &content("d", &["{key: p, value: q, LIMIT}", "{key: a_b_c, LIMIT}"]),
        &content("e", &lines[..1]),
    ]);
    let found = config::check_rules(&files.paths, true).unwrap().warnings;
    let found: Vec<String> = found.iter().map(|w| format!("{} {} {}", w.line, w.field, w.message)).collect();
    let (first, together) = (files.paths[0].display(), "metrics count this together with");
    let expected = [
        format!("4 descriptors[1] {together} the rule at {first}:3: both have the label `a_b_c`"),
        format!("6 descriptors[3] {together} the rule at {first}:5: both have the label `x.y`"),
        format!(
            "7 descriptors[4] {together} the limits that requests bring along: both have the label `(limits of requests)`"
        ),
        format!("4 descriptors[1] {together} the rule at {first}:3: both have the label `a_b_c`"),
    ];
    assert_eq!(found, expected);
}
