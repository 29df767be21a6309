//! The key of a rule, and what goes with it: prefix lengths, factors, `new_sources`.

use ratelimit_config::limit::format_limit;
use ratelimit_policy::{LimitUnit, PacketKey, PrefixLengths};

use super::{assert_error, assert_errors, check, policy, rule, shown};

fn key(text: &str) -> PacketKey {
    policy(&rule(&[&format!("key: {text}")])).network.unwrap().rules.first().unwrap().key.clone()
}

#[test]
fn words_and_lengths() {
    let lengths = PrefixLengths::default;
    assert_eq!(key("source"), PacketKey::Source(lengths()));
    assert_eq!(key("destination"), PacketKey::Destination(lengths()));
    assert_eq!(key("source_destination"), PacketKey::SourceDestination(lengths()));
    assert_eq!(key("flow"), PacketKey::Flow);
    assert_eq!(key("global"), PacketKey::Global);
    let cases = [
        ("{source: {ipv4: 24, ipv6: 56}}", "source v4/24 v6/56"),
        ("{destination: {ipv4: 24}}", "destination v4/24 v6/64"),
        ("{source_destination: {}}", "source_destination v4/32 v6/64"),
        ("{source: {ipv4: {32: 1, 24: 32}}}", "source v4/32/24x32 v6/64"),
        ("{source: {ipv4: {16: 1M, 24: 1k, 32: 1}}}", "source v4/32/24x1000/16x1000000 v6/64"),
        ("{destination: {ipv6: {48: 8, 128: 2}}}", "destination v4/32 v6/128x2/48x8"),
    ];
    for (text, expected) in cases {
        assert_eq!(key(text).to_string(), expected);
    }
}

#[test]
fn mistakes_in_a_key() {
    let cases = [
        ("sourc", "5:12 key: `sourc` is not known, did you mean `source`?"),
        (
            "host",
            "5:12 key: `host` is not known; accepted: source, destination, source_destination, flow, global",
        ),
        ("[source]", "5:12 key: must be a single value, not a list"),
        ("{}", "5:12 key: is empty"),
        ("{sauce: {}}", "5:13 key.sauce: unknown key `sauce`, did you mean `source`?"),
        ("{source: 24}", "5:21 key.source: must be a mapping (of ipv4, ipv6), not a single value"),
        ("{source: {ipv4: 33}}", "5:28 key.source.ipv4: `33` is not a prefix length; must be"),
        ("{source: {ipv6: 129}}", "5:28 key.source.ipv6: `129` is not a prefix length"),
        ("{source: {ipv4: 0}}", "5:28 key.source.ipv4: `0` is not a prefix length"),
        ("{source: {ipv4: +8}}", "5:28 key.source.ipv4: `+8` is not a prefix length"),
        ("{source: {ipv4: 999}}", "5:28 key.source.ipv4: `999` is not a prefix length"),
        ("{source: {ipv4: [32, 24]}}", "5:28 key.source.ipv4: must be a single value, not a list"),
        ("{source: {ipv5: 8}}", "5:22 key.source.ipv5: unknown key `ipv5`, did you mean `ipv4`?"),
        ("{destination: {ipv4: 33}}", "5:33 key.destination.ipv4: `33` is not a prefix length"),
        ("{flow: {ipv4: 24}}", "5:13 key.flow: `flow` has no prefix lengths; write `key: flow`"),
        ("{global: {}}", "5:13 key.global: `global` has no prefix lengths; write `key: global`"),
        (
            "{source: {}, destination: {}}",
            "5:25 key.destination: a key is one of these, and there is `source` already",
        ),
        ("{source: {ipv4: {}}}", "5:28 key.source.ipv4: is empty; write a prefix length, or several"),
        ("{source: {ipv4: {33: 1}}}", "5:29 key.source.ipv4.33: `33` is not a prefix length"),
        ("{source: {ipv6: {x: 1}}}", "5:29 key.source.ipv6.x: `x` is not a prefix length"),
        ("{source: {ipv4: {24: 1, 024: 2}}}", "5:36 key.source.ipv4.024: the length 24 is there twice"),
        ("{source: {ipv4: {24: 1, 24: 2}}}", "5:36 key.source.ipv4.24: `24` is given twice"),
        (
            "{source: {ipv4: {24: 0}}}",
            "5:33 key.source.ipv4.24: `0` is not a factor; must be a whole number from 1 to 1000000",
        ),
        ("{source: {ipv4: {24: 1000001}}}", "5:33 key.source.ipv4.24: `1000001` is not a factor"),
        ("{source: {ipv4: {24: 1.5}}}", "5:33 key.source.ipv4.24: `1.5` is not a factor"),
        (
            "{source: {ipv4: {24: }}}",
            "5:29 key.source.ipv4.24: has no factor; write how many times the limit `24` has",
        ),
        ("{source: {ipv4: {24: [1]}}}", "5:33 key.source.ipv4.24: must be a single value, not a list"),
        (
            "{source: {ipv4: {32: 4, 24: 2}}}",
            "5:40 key.source.ipv4.24: a /24 with factor 2 allows less than a /32 inside it, with factor 4, whose limit \
             would never be reached; must be at least 4",
        ),
    ];
    for (text, expected) in cases {
        assert_error(rule(&[&format!("key: {text}")]), "network.rules[0].", expected);
    }
    // In YAML this is a mapping without values.
    let no_factor = "key.source.ipv4.24: has no factor";
    assert_errors(
        rule(&["key: {source: {ipv4: {24, 32}}}"]),
        &[
            &format!("5:29 network.rules[0].{no_factor}"),
            "5:33 network.rules[0].key.source.ipv4.32: has no factor",
        ],
    );
}

#[test]
fn a_factor_can_make_a_limit_too_large() {
    let content = |rate: &str, key: &str| {
        format!("network:\n  rules:\n    - name: a\n      rate: {rate}\n      key: {key}\n")
    };
    assert_errors(
        content("10000M/s", "{source: {ipv4: {32: 1, 24: 1000, 16: 1M}, ipv6: {64: 2, 48: 100k}}}"),
        &[
            "5:40 network.rules[0].key.source.ipv4.24: with factor 1000: at most 128 units in a nanosecond",
            "5:50 network.rules[0].key.source.ipv4.16: with factor 1000000: at most 128 units in a nanosecond",
            "5:73 network.rules[0].key.source.ipv6.48: with factor 100000: at most 128 units in a nanosecond",
        ],
    );
    policy(&content("10000M/s", "{source: {ipv4: {32: 1, 24: 10}}}"));
}

#[test]
fn equal_factors_are_a_warning() {
    let checked = check(rule(&["key: {source: {ipv4: {32: 1, 24: 1}}}"])).unwrap();
    let warnings: Vec<String> = checked.warnings.iter().map(shown).collect();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("3:7 network.rules[0]: its key has the same factor for /32 and /24"),
        "{warnings:?}"
    );
}

#[test]
fn a_rule_counts_once_for_each_of_its_prefix_lengths() {
    let rule = |name: usize, key: &str| format!("    - {{name: r{name}, rate: 1/s, key: {key}}}\n");
    let content = |last: &str| {
        let rules: String = (0..31)
            .map(|name| rule(name, "{source: {ipv4: {32: 1, 24: 2}, ipv6: {64: 1, 56: 2}}}"))
            .collect();
        format!("network:\n  rules:\n{rules}{}{last}", rule(31, "global"))
    };
    let parts = policy(&content(&rule(32, "flow"))).network.unwrap().rules.parts().len();
    assert_eq!(parts, 64);
    let three = "{source: {ipv4: {32: 1, 24: 2}}}";
    assert_errors(
        content(&(rule(32, three) + &rule(33, "source") + "    - {name: r34, rate: 0/s}\n")),
        &[
            "35:35 network.rules[32].key: 68 rules; at most 64 are supported (a rule counts once for each of its prefix",
            "37:25 network.rules[34].rate: a rate of 0",
        ],
    );
}

#[test]
fn new_sources_are_packets_in_some_time() {
    let rules = policy(&rule(&["new_sources: 5k/m"])).network.unwrap().rules;
    let new_sources = rules.first().unwrap().new_sources.unwrap();
    assert_eq!(format_limit(new_sources.spec()), "token_bucket,rate=5000/m");
    assert_eq!(new_sources.unit(), LimitUnit::Packets);
    assert_eq!(policy(&rule(&[])).network.unwrap().rules.first().unwrap().new_sources, None);
    let cases = [
        ("5", "5:20 new_sources: `5` is not a rate; write N/UNIT"),
        ("0/s", "5:20 new_sources: a rate of 0 would deny everything"),
        ("5MB/s", "5:20 new_sources: `5MB` is a size, and bytes are not counted here; write a plain numbe"),
        ("1/53w", "5:20 new_sources: the time of a rate must be"),
        ("[5/s]", "5:20 new_sources: must be a single value, not a list"),
    ];
    for (text, expected) in cases {
        assert_error(rule(&[&format!("new_sources: {text}")]), "network.rules[0].", expected);
    }
    assert_error(
        rule(&["key: global", "new_sources: 5/s"]),
        "network.rules[0].",
        "6:20 new_sources: with `key: global` there is one bucket for all sources; leave this out",
    );
}
