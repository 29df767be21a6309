//! Every mistake in a well-formed file, with line, column and field.

use super::{assert_error, assert_errors, network, policy, rule};

#[test]
fn mistakes_in_a_rule() {
    let cases: &[(&[&str], &str)] = &[
        (&["ratee: 1/s"], "5:7 ratee: unknown key `ratee`, did you mean `rate`?"),
        (&["colour: red"], "5:7 colour: unknown key `colour`; accepted: name, rate, burst, alg"),
        (&["on_limit: delay"], "5:7 on_limit: unknown key `on_limit`"),
        (&["burst: 0"], "5:14 burst: a burst of 0 would deny everything"),
        (&["burst: -5"], "5:14 burst: `-5` is negative"),
        (&["burst: lots"], "5:14 burst: `lots` is not a whole number"),
        (&["burst:"], "5:7 burst: has no value"),
        (&["burst: [1]"], "5:14 burst: must be a single value, not a list"),
        (&["burst: {a: 1}"], "5:14 burst: must be a single value, not a mapping"),
        (&["burst: 100000M"], "5:14 burst: an empty bucket would take more than 365 days to fill"),
        (&["algorithm: fixed_window", "burst: 5"], "6:14 burst: fixed_window has none"),
        (&["algorithm: sliding_window_counter", "burst: 5"], "6:14 burst: sliding_window_counter has"),
        (&["algorithm: leaky_bucket", "refill: interval"], "6:15 refill: leaky_bucket has none"),
        (&["algorithm: fixed_window", "refill: continuous"], "6:15 refill: fixed_window has none"),
        (&["algorithm: tokenbucket"], "5:18 algorithm: `tokenbucket` is not known, did you mean"),
        (&["algorithm: bogus", "refill: interval"], "5:18 algorithm: `bogus` is not known; accepted"),
        (&["algorithm: sliding_window_log"], "5:18 algorithm: sliding_window_log keeps"),
        (&["refill: sometimes"], "5:15 refill: `sometimes` is not known; accepted: continuous"),
        (&["count_denied: yes"], "5:21 count_denied: `yes` is not known; accepted: true, false"),
        (
            &["overrun: true"],
            "5:16 overrun: overrun is for costs that are known only afterwards, and what a packet costs is",
        ),
        (&["overrun: maybe"], "5:16 overrun: `maybe` is not known; accepted: true, false"),
        (&["action: reject"], "5:15 action: `reject` is not known; accepted: drop, observe"),
        (&["action: Drop"], "5:15 action: `Drop` is not known, did you mean `drop`?"),
        (&["name: b"], "5:7 name: `name` is given twice, first on line 3"),
    ];
    for (lines, expected) in cases {
        assert_error(rule(lines), "network.rules[0].", expected);
    }
}

#[test]
fn mistakes_in_a_rate() {
    let cases = [
        ("0/s", "a rate of 0 would deny everything"),
        ("-1/s", "`-1` is negative"),
        ("10/fortnight", "`fortnight` is not a unit of time; accepted: s, m (minute), h, d, w"),
        ("100", "`100` is not a rate"),
        ("\"0/s\"", "a rate of 0 would deny everything"),
        ("1/53w", "the time of a rate must be"),
        ("18446744073709551615/s", "at most 128 units in a nanosecond"),
        ("", "has no value"),
        ("~", "has no value"),
    ];
    for (rate, expected) in cases {
        let column = if rate.is_empty() { 7 } else { 13 };
        let content = format!("network:\n  rules:\n    - name: a\n      rate: {rate}\n");
        assert_errors(content, &[&format!("4:{column} network.rules[0].rate: {expected}")]);
    }
    let rate = |lines: &str| format!("network:\n  rules:\n    - name: a\n{lines}");
    assert_errors(rate(""), &["3:7 network.rules[0].rate: missing; add `rate: 100/s`"]);
    assert_errors(
        rate("      ratee: 1/s\n"),
        &["4:7 network.rules[0].ratee: unknown key `ratee`, did you mean"],
    );
}

#[test]
fn mistakes_in_names() {
    let long = "x".repeat(64);
    let cases = [
        ("''", "must not be empty"),
        ("' '", "must not be empty"),
        (r#""a\nb""#, "must not contain '\\n'"),
        (&long, "too long: 64 bytes, at most 63"),
        ("~", "has no value"),
    ];
    for (name, expected) in cases {
        let content = format!("network:\n  rules:\n    - rate: 1/s\n      name: {name}\n");
        assert_errors(content, &[&format!("4:13 network.rules[0].name: {expected}")]);
    }
}

#[test]
fn duplicate_names_are_found_even_of_rules_that_are_wrong_otherwise() {
    let rules = "- {name: a, rate: 0/s}\n    - {name: b, rate: 1/s}\n    - {name: a, rate: 1/s}";
    assert_errors(
        format!("network:\n  rules:\n    {rules}\n"),
        &[
            "3:23 network.rules[0].rate: a rate of 0",
            "5:14 network.rules[2].name: `a` is there twice, first as network.rules[0].name on line 3: change one of them, or leave it out",
        ],
    );
}

#[test]
fn sixty_four_rules_and_no_more() {
    let content = |count: usize| {
        let rules: String = (0..count).map(|i| format!("    - {{name: r{i}, rate: 1/s}}\n")).collect();
        format!("network:\n  rules:\n{rules}")
    };
    assert_eq!(policy(&content(64)).network.map(|network| network.rules.len()), Some(64));
    assert_errors(content(66), &["67:7 network.rules[64]: 66 rules; at most 64 are supported"]);
}

#[test]
fn mistakes_in_interfaces() {
    let cases = [
        ("eth0", "4:15 interfaces: must be a list (in brackets, or with `- `), not a single value"),
        ("~", "4:15 interfaces: must be a list (in brackets, or with `- `), not nothing"),
        ("[eth/0]", "4:16 interfaces[0]: must not contain '/'"),
        ("['eth 0']", "4:16 interfaces[0]: must not contain ' '"),
        ("['']", "4:16 interfaces[0]: must not be empty"),
        ("[1234567890123456]", "4:16 interfaces[0]: too long: 16 bytes, at most 15"),
        ("[eth0, eth1, eth0]", "4:28 interfaces[2]: `eth0` is there twice, first as network.interf"),
        ("[a, {name: a}]", "4:26 interfaces[1].name: `a` is there twice, first as network.interf"),
        ("[{mode: auto}]", "4:16 interfaces[0].name: missing; add `name: eth0`"),
        ("[{name: a, mode: skb}]", "4:32 interfaces[0].mode: `skb` is not known; accepted: auto, native"),
        ("[{name: a, mod: auto}]", "4:26 interfaces[0].mod: unknown key `mod`, did you mean `mode`?"),
        ("[[a]]", "4:16 interfaces[0]: must be a single value, not a list"),
    ];
    for (interfaces, expected) in cases {
        assert_error(network(&[&format!("interfaces: {interfaces}")]), "network.", expected);
    }
}

#[test]
fn mistakes_in_the_network() {
    let cases: &[(&[&str], &str)] = &[
        (&["allow: [10.0.0.1/8]"], "4:11 allow[0]: has bits set beyond the prefix length; did you mean 10."),
        (&["allow: [10.0.0.0/33]"], "4:11 allow[0]: prefix length 33 is too long; IPv4 has 32 bits"),
        (&["allow: [fe80::/129]"], "4:11 allow[0]: prefix length 129 is too long; IPv6 has 128 bits"),
        (
            &["allow: [fe80::, 10.0.0.0/8]"],
            "4:11 allow[0]: must be a single value, not a mapping; put quotes",
        ),
        (&["allow:", "  - example.org"], "5:7 allow[0]: not an IP address or prefix"),
        (&["allow: [{path: x}]"], "4:11 allow[0]: must be a single value, not a mapping"),
        (&["allow: [{file: networks.txt, name: y}]"], "4:32 allow[0].name: unknown key `name`"),
        (&["deny: [10.0.0.0/33]"], "4:10 deny[0]: prefix length 33 is too long; IPv4 has 32 bits"),
        (&["allow: 10.0.0.0/8"], "4:10 allow: must be a list"),
        (&["table_size: 0"], "4:15 table_size: 0 buckets; must be 32768 to 134217728"),
        (&["table_size: 1000"], "4:15 table_size: 1000 buckets; must be 32768 to 134217728"),
        (&["table_size: 134217729"], "4:15 table_size: 134217729 buckets; must be 32768 to 134217728"),
        (&["table_size: -1"], "4:15 table_size: `-1` is negative"),
        (&["table_size: big"], "4:15 table_size: `big` is not a whole number"),
        (&["on_exit: leave"], "4:12 on_exit: `leave` is not known; accepted: detach, keep"),
        (&["on_malformed: reject"], "4:17 on_malformed: `reject` is not known; accepted: pass, drop"),
        (&["interface: [eth0]"], "4:3 interface: unknown key `interface`, did you mean `interfaces`?"),
        (&["rules: []"], "4:3 rules: `rules` is given twice, first on line 2"),
    ];
    for (lines, expected) in cases {
        assert_error(network(lines), "network.", expected);
    }
}

#[test]
fn mistakes_at_the_top() {
    let long = "x".repeat(107);
    let cases = [
        ("instance: a/b", "1:11 instance: must not contain '/'; accepted: letters"),
        ("instance: a.b", "1:11 instance: must not contain '.'; accepted: letters"),
        ("instance: ''", "1:11 instance: must not be empty"),
        ("instance:", "1:1 instance: has no value"),
        (&format!("instance: {long}"), "1:11 instance: too long: 107 bytes, at most 63"),
        ("control: ''", "1:10 control: must be the path of a socket"),
        ("control: ' '", "1:10 control: must be the path of a socket"),
        ("control: \"/a\\n\"", "1:10 control: must be the path of a socket"),
        ("control: \"/\\e[2J\"", "1:10 control: must be the path of a socket"),
        ("control: /\u{202e}x", "1:10 control: must be the path of a socket"),
        (&format!("control: /{long}"), "1:10 control: 108 bytes long; a socket's path has at most 107"),
        ("contorl: /x", "1:1 contorl: unknown key `contorl`, did you mean `control`?"),
        ("metrics: {}", "1:10 metrics.listen: missing"),
        ("metrics: {listen: 9102}", "1:19 metrics.listen: `9102` is not an address with a port"),
        (
            "metrics: {listen: \"localhost:9102\"}",
            "1:19 metrics.listen: `localhost:9102` is not an address with a port",
        ),
        ("metrics: {listen: \"::1:9102\"}", "1:19 metrics.listen: `::1:9102` is not an address with a port"),
        (
            "metrics: {listen: \"127.0.0.1:0\"}",
            "1:19 metrics.listen: `127.0.0.1:0` is not an address with a port",
        ),
        ("metrics: {listen: \"[::1]:1\", port: 2}", "1:30 metrics.port: unknown key `port`"),
    ];
    for (line, expected) in cases {
        assert_errors(format!("{line}\n{}", network(&[])), &[expected]);
    }
}

#[test]
fn files_of_another_shape() {
    let cases = [
        ("instance: a", "1:1 : nothing to do: add `network`"),
        ("\n\n{}", "3:1 : nothing to do: add `network`"),
        ("netwrok:\n  rules: []", "1:1 netwrok: unknown key `netwrok`, did you mean `network`?"),
        ("network:", "1:1 network: must be a mapping (of interfaces"),
        ("network: {rules: {name: a}}", "1:18 network.rules: must be a list"),
        ("network: {rules: [a]}", "1:19 network.rules[0]: must be a mapping (of name"),
        (
            "[a, b]",
            "1:1 : must be a mapping (of instance, lists, network, application, metrics, control), not a list",
        ),
        ("rules", "1:1 : must be a mapping"),
        ("<<: 5\nnetwork: {}", "1:5 : `<<` takes a mapping"),
        ("network: {rules: [{name: öäü, rate: 0/s}]}", "1:37 network.rules[0].rate: a rate of 0"),
    ];
    for (content, expected) in cases {
        assert_errors(content, &[expected]);
    }
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once_in_its_order() {
    let content = r"
instance: a b
network:
  interfaces: [eth0, eth0]
  allow: [10.0.0.1/8]
  tabel_size: 5
  rules:
    - name: one
      rate: -1/s
      burst: 0
      key: {source: {ipv4: 33, ipv6: 129}}
    - rate: 10/fortnight
    - {name: one, rate: 1/s, action: block}
    - {name: log, rate: 0/s, algorithm: sliding_window_log, burst: 5}
";
    assert_errors(
        content,
        &[
            "2:11 instance: must not contain ' '",
            "4:22 network.interfaces[1]: `eth0` is there twice",
            "5:11 network.allow[0]: has bits set",
            "6:3 network.tabel_size: unknown key `tabel_size`, did you mean `table_size`?",
            "9:13 network.rules[0].rate: `-1` is negative",
            "10:14 network.rules[0].burst: a burst of 0",
            "11:28 network.rules[0].key.source.ipv4: `33` is not",
            "11:38 network.rules[0].key.source.ipv6: `129` is not",
            "12:7 network.rules[1].name: missing",
            "12:13 network.rules[1].rate: `fortnight` is not",
            "13:14 network.rules[2].name: `one` is there twice",
            "13:38 network.rules[2].action: `block` is not known",
            "14:25 network.rules[3].rate: a rate of 0",
            "14:41 network.rules[3].algorithm: sliding_window_log keeps",
            "14:68 network.rules[3].burst: sliding_window_log has none",
        ],
    );
}
