//! Descriptors by networks: which of them an address belongs to, and whose bucket it has.

use std::fs;

use ratelimit_config as config;

use super::{ServicePolicy, files, lab, lab_of, read_rules};

fn limit(requests: u32) -> String {
    format!("rate_limit: {{unit: day, requests_per_unit: {requests}}}")
}

#[test]
fn the_value_comes_before_networks_and_these_before_the_key_alone() {
    let lab = lab(&format!(
        "domain: d\ndescriptors:\n  - {{key: ip, {}}}\n  - {{key: ip, value_in: 10.0.0.0/8, {}}}\n  \
         - {{key: ip, value_in: ['10.1.0.0/16', '2001:db8::/32'], {}}}\n  - {{key: ip, value: 10.1.1.1, {}}}\n  \
         - {{key: ip, value: '10.2.*', {}}}\n",
        limit(1),
        limit(2),
        limit(3),
        limit(4),
        limit(5),
    ));
    for (value, expected) in [
        ("192.0.2.1", 1),
        ("unknown", 1),
        ("10.0.0.1", 2),
        ("::ffff:10.0.0.2", 2),
        ("10.1.2.3", 3),
        ("2001:db8:1::/64", 3),
        ("10.1.1.1", 4),
        ("10.2.0.1", 5),
    ] {
        assert_eq!(lab.passes(&format!("ip={value}"), 9), expected, "{value}");
    }
}

#[test]
fn each_address_has_a_bucket_unless_the_networks_share_one() {
    let lab = lab(&format!(
        "domain: d\ndescriptors:\n  - {{key: each, value_in: [10.0.0.0/8, 192.0.2.0/24], {}}}\n  \
         - {{key: all, value_in: [10.0.0.0/8, 192.0.2.0/24], share_threshold: true, {}}}\n",
        limit(1),
        limit(2),
    ));
    assert_eq!(
        ["10.0.0.1", "10.0.0.2", "192.0.2.1"].map(|ip| lab.passes(&format!("each={ip}"), 2)),
        [1, 1, 1]
    );
    assert_eq!(
        ["10.0.0.1", "10.0.0.2", "192.0.2.1"].map(|ip| lab.passes(&format!("all={ip}"), 1)),
        [1, 1, 0]
    );
    assert_eq!(lab.passes("all=11.0.0.1", 9), 9, "no rule");
}

#[test]
fn what_is_below_networks_and_unlimited_ones_are_as_below_values() {
    let lab = lab(&format!(
        "domain: d\ndescriptors:\n  - key: ip\n    value_in: [10.0.0.0/8]\n    rate_limit: {{unlimited: true}}\n    \
         descriptors: [{{key: path, {}}}]\n  - {{key: ip, {}}}\n",
        limit(2),
        limit(1),
    ));
    assert_eq!(lab.passes("ip=10.0.0.1", 9), 9);
    assert_eq!(lab.passes("ip=10.0.0.1,path=a", 9), 2);
    assert_eq!(lab.passes("ip=11.0.0.1", 9), 1);
}

#[test]
fn files_of_networks_lie_beside_the_rules_and_keep_what_they_had() {
    let rules = "domain: d\ndescriptors:\n  - {key: ip, value_in: [{file: office.txt}], rate_limit: {unlimited: true}}\n  \
                 - {key: ip, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    let files = files(&[rules]);
    let office = files.paths[0].with_file_name("office.txt");
    let configuration = files.paths[0].with_file_name("c.yaml");
    fs::write(&configuration, "application: {rules: 0.yaml}").unwrap();
    fs::write(&office, "# ours\n192.0.2.0-192.0.2.127\n").unwrap();
    let checked = config::check(&configuration).unwrap();
    let application = checked.policy.application.clone().unwrap();
    assert_eq!(application.sources.networks[0].file, office);
    let lab = lab_of(&application.service_policy());
    assert_eq!((lab.passes("ip=192.0.2.7", 9), lab.passes("ip=192.0.2.200", 9)), (9, 1));
    // An empty file is a mistake of whoever writes it, a comment is an empty list.
    fs::write(&office, "").unwrap();
    let last = config::LastLists::of(&checked.policy);
    let again = config::check_again(&configuration, &last).unwrap();
    assert!(again.warnings[0].message.contains("what it had before stays in force"), "{:?}", again.warnings);
    let kept = again.policy.application.unwrap();
    assert!(kept.sources.networks[0].is_kept);
    lab.service.reload(&kept.service_policy()).unwrap();
    assert_eq!(lab.passes("ip=192.0.2.7", 9), 9);
    fs::write(&office, "# none\n").unwrap();
    let none = config::check_again(&configuration, &last).unwrap().policy.application.unwrap();
    lab.service.reload(&none.service_policy()).unwrap();
    assert_eq!(lab.passes("ip=192.0.2.7", 9), 1);
}

#[test]
fn what_is_wrong_with_networks_is_said_where_they_stand() {
    for (descriptor, expected) in [
        (
            "{key: a, value: b, value_in: 10.0.0.0/8}",
            "descriptors[0].value_in: value and value_in are both given",
        ),
        ("{key: 'a*', value_in: 10.0.0.0/8}", "descriptors[0].value_in: networks are looked up by the key"),
        ("{key: a, value_in: []}", "descriptors[0].value_in: an empty list"),
        ("{key: a, value_in: [10.0.0.1/8]}", "descriptors[0].value_in[0]: `10.0.0.1/8`: has bits set"),
        ("{key: a, value_in: [{file: no.txt}]}", "no.txt: no such file"),
        ("{key: a, value_in: [{fil: x}]}", "must be a single value, not a mapping"),
        (
            "{key: a, value_in: 10.0.0.0/8}, {key: a, value_in: [10.0.0.0/8]}",
            "duplicate composite key `d.a_10.0.0.0/8`",
        ),
    ] {
        let content = format!("domain: d\ndescriptors: [{descriptor}]\n");
        let errors = read_rules(&[&content], false).unwrap_err().to_string();
        assert!(errors.contains(expected), "{descriptor}: {errors}");
    }
}

#[test]
fn a_network_of_two_descriptors_is_a_warning() {
    let files = files(&[
        "domain: d\ndescriptors:\n- {key: a, value_in: 10.0.0.0/8}\n- {key: a, value_in: [10.0.0.0/8, '::/0']}\n\
         - {key: b, value_in: 10.0.0.0/8}\n",
    ]);
    let warnings = config::check_rules(&files.paths, false).unwrap().warnings;
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(
        (warning.line, warning.message.contains("10.0.0.0/8 belongs to another descriptor")),
        (4, true)
    );
}

#[test]
fn a_million_networks_are_looked_up() {
    let files = files(&[
        "domain: d\ndescriptors:\n  - {key: ip, value_in: [{file: list.txt}], rate_limit: {unit: day, requests_per_unit: 0}}\n",
    ]);
    let list: String =
        (0..1_000_000_u32).map(|n| format!("{}\n", std::net::Ipv4Addr::from_bits(n << 8 | 1))).collect();
    fs::write(files.paths[0].with_file_name("list.txt"), list).unwrap();
    let rules = config::check_rules(&files.paths, false).unwrap().rules;
    let lab = lab_of(&ServicePolicy::of_rules(rules));
    assert_eq!(
        ["0.0.1.1", "15.66.63.1", "15.66.64.1", "0.0.1.2"].map(|ip| lab.passes(&format!("ip={ip}"), 1)),
        [0, 0, 1, 1]
    );
}
