//! A rule's `ban`.

use super::{assert_error, check, policy, rule};

#[test]
fn bans_are_read() {
    let policy = policy(&rule(&["ban: {after: 100, within: 10s, for: 10m}"]));
    let network = policy.network.unwrap();
    let ban = network.rules[0].ban.unwrap();
    assert_eq!((ban.after().get(), ban.within().0, ban.length().0), (100, 10_000_000_000, 600_000_000_000));
}

#[test]
fn mistakes_in_a_ban() {
    let cases: [(&[&str], &str); 10] = [
        (&["ban: {after: 1, within: 1s}"], "5:12 ban.for: missing"),
        (&["ban: 10m"], "5:12 ban: must be a mapping"),
        (&["ban: {after: 0, within: 1s, for: 1m}"], "5:20 ban.after: "),
        (&["ban: {after: 5G, within: 1s, for: 1m}"], "5:20 ban.after: "),
        (
            &["ban: {after: 1M, within: 1s, for: 1m}"],
            "5:20 ban.after: so many packets in such a time can't be counted",
        ),
        (
            &["ban: {after: 1, within: 10, for: 1m}"],
            "5:31 ban.within: `10` is not a time; write numbers with units",
        ),
        (&["ban: {after: 1, within: 1s, for: 366d}"], "5:40 ban.for: a ban lasts at most 365 days"),
        (&["ban: {after: 1, within: 1s, for: 1m, until: 1}"], "5:44 ban.until: unknown key"),
        (&["key: global", "ban: {after: 1, within: 1s, for: 1m}"], "6:20 ban.after: sources are banned"),
        (
            &["action: observe", "ban: {after: 1, within: 1s, for: 1m}"],
            "6:20 ban.after: a rule that observes",
        ),
    ];
    for (lines, expected) in cases {
        assert_error(rule(lines), "network.rules[0].", expected);
    }
}

#[test]
fn a_match_whose_source_can_be_forged_is_warned_of() {
    let warned = |lines: &[&str]| {
        let warnings = check(rule(lines)).unwrap().warnings;
        warnings.iter().any(|warning| warning.message.contains("forges a source address"))
    };
    assert!(warned(&["match: {protocol: udp}", "ban: {after: 1, within: 1s, for: 1m}"]));
    assert!(!warned(&["match: {source: 10.0.0.0/8}", "ban: {after: 1, within: 1s, for: 1m}"]));
    assert!(!warned(&["match: {protocol: udp}"]));
}
