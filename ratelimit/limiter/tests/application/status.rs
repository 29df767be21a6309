//! What is told of the rules in force and what they have done.

use ratelimit_limiter::application::{RequestAction, RequestRuleStatus};

use crate::{lab, request, rules};

#[test]
fn each_rule_is_told_with_what_it_has_done() {
    let lab = lab("
domain: d
descriptors:
  - {key: user, rate_limit: {name: per-user, unit: hour, requests_per_unit: 2}}
  - {key: told, value_to_metric: true, shadow_mode: true, rate_limit: {algorithm: token_bucket, unit: minute, requests_per_unit: 1, burst: 1}}
  - {key: soft, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 3, soft_limit: 1, soft_for: 30s}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: none, rate_limit: {unit: hour, requests_per_unit: 0}}
");
    for descriptor in [
        "user=a", "user=a", "user=a", "user=b", "told=a", "told=a", "told=b", "soft=x", "soft=x", "free=1",
        "none=1",
    ] {
        lab.ask(&request(&[descriptor]));
    }
    let status = lab.service.status(100);
    let told = |rule: &RequestRuleStatus| {
        let counts = [rule.allowed, rule.denied, rule.shadowed, rule.soft];
        (rule.rule.clone(), rule.name.clone(), rule.limit.clone(), rule.action, counts, rule.labels)
    };
    let expected = |rule: &str, name: Option<&str>, limit: &str, action, counts, labels| {
        (rule.to_owned(), name.map(str::to_owned), limit.to_owned(), action, counts, labels)
    };
    let window = |rate: &str| format!("fixed_window,rate={rate},count_denied=true");
    let soft = format!("{},soft_limit=1,soft_for=30s", window("3/h"));
    assert_eq!(
        status.rules.iter().map(told).collect::<Vec<_>>(),
        [
            expected("user", Some("per-user"), &window("2/h"), RequestAction::Deny, [3, 1, 0, 0], 0),
            expected("told", None, "token_bucket,rate=1/m,burst=1", RequestAction::Shadow, [2, 0, 1, 0], 2),
            expected("soft", None, &soft, RequestAction::Quota, [2, 0, 0, 1], 0),
            expected("free", None, "unlimited", RequestAction::Allow, [1, 0, 0, 0], 0),
            expected("none", None, "0 requests", RequestAction::Deny, [0, 1, 0, 0], 0),
        ]
    );
    assert_eq!((status.rules_left_out, status.domains_left_out), (0, 0));
    let domain = &status.domains[0];
    assert_eq!((domain.domain.as_str(), domain.counts.allowed, domain.counts.denied), ("d", 9, 2));
    assert!(status.store.keys > 0 && !status.shadow_mode, "{status:?}");
}

#[test]
fn of_many_rules_those_that_denied_most_are_told_in_their_order() {
    let rule =
        |number: u32| format!("  - {{key: k{number}, rate_limit: {{unit: hour, requests_per_unit: 1}}}}\n");
    let content = format!("domain: d\ndescriptors:\n{}", (0..50).map(rule).collect::<String>());
    let lab = lab(&content);
    for (key, hits) in [("k30", 5), ("k7", 3), ("k40", 1)] {
        for _ in 0..hits {
            lab.ask(&request(&[&format!("{key}=x")]));
        }
    }
    let keys =
        |most| -> Vec<String> { lab.service.status(most).rules.into_iter().map(|rule| rule.rule).collect() };
    assert_eq!(keys(2), ["k7", "k30"]);
    assert_eq!(keys(3), ["k7", "k30", "k40"]);
    assert_eq!((lab.service.status(3).rules_left_out, keys(0).len()), (47, 0));
    // Names are cut, so that no file makes the answer large.
    let long = format!(
        "domain: d\ndescriptors:\n  - {{key: {}, rate_limit: {{unlimited: true}}}}\n",
        "k".repeat(4_000)
    );
    lab.service.reload(&ratelimit_limiter::application::ServicePolicy::of_rules(rules(&long))).unwrap();
    let told = lab.service.status(1).rules.remove(0).rule;
    assert!(told.len() < 200 && told.ends_with("..."), "{told}");
}
