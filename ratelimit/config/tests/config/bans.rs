//! A rule's `ban`.

use std::num::NonZeroU32;

use ratelimit_common::time::Nanos;
use ratelimit_policy::{BanLength, Lengthening};

use super::{assert_error, check, policy, rule};

#[test]
fn bans_are_read() {
    let policy = policy(&rule(&["ban: {after: 100, within: 10s, for: 10m}"]));
    let network = policy.network.unwrap();
    let ban = network.rules[0].ban.unwrap();
    let length = BanLength::For(Nanos::from_secs(600));
    assert_eq!((ban.after().get(), ban.within(), ban.length()), (100, Nanos::from_secs(10), length));
    assert_eq!(ban.terms().longer, None);
}

#[test]
fn how_bans_lengthen_is_read() {
    let longer = |more: &str| {
        let policy = policy(&rule(&[&format!("ban: {{after: 1, within: 1s, for: 10m{more}}}")]));
        policy.network.unwrap().rules[0].ban.unwrap().terms().longer.unwrap()
    };
    let days = |count: u64| Nanos::from_secs(count * 86_400);
    let (four, two) = (NonZeroU32::new(4).unwrap(), NonZeroU32::new(2).unwrap());
    assert_eq!(longer(", factor: 2"), Lengthening { factor: two, up_to: days(7), forget: days(1) });
    let given = longer(", factor: 4, up_to: 30d, forget: 3d");
    assert_eq!(given, Lengthening { factor: four, up_to: days(30), forget: days(3) });
    let forever = policy(&rule(&["ban: {after: 1, within: 1s, for: forever}"]));
    assert_eq!(forever.network.unwrap().rules[0].ban.unwrap().length(), BanLength::Forever);
}

#[test]
fn mistakes_in_a_ban() {
    let cases: [(&[&str], &str); 18] = [
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
        (&["ban: {after: 1, within: 1s, for: always}"], "5:40 ban.for: `always` is not a time"),
        (
            &["ban: {after: 1, within: 1s, for: forever, factor: 2}"],
            "5:57 ban.factor: nothing is longer than `for: forever`",
        ),
        (&["ban: {after: 1, within: 1s, for: 1m, up_to: 1d}"], "5:51 ban.up_to: bans have one length"),
        (&["ban: {after: 1, within: 1s, for: 1m, forget: 1d}"], "5:52 ban.forget: bans have one length"),
        (&["ban: {after: 1, within: 1s, for: 1m, factor: 1}"], "5:52 ban.factor: "),
        (&["ban: {after: 1, within: 1s, for: 1m, factor: 1001}"], "5:52 ban.factor: "),
        (&["ban: {after: 1, within: 1s, for: 8d, factor: 2}"], "5:40 ban.for: the first ban"),
        (
            &["ban: {after: 1, within: 1s, for: 1m, factor: 2, forget: 366d}"],
            "5:63 ban.forget: at most 365 days",
        ),
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
fn bans_that_spoofed_packets_can_make_are_warned_of() {
    let warned = |lines: &[&str]| {
        let warnings = check(rule(lines)).unwrap().warnings;
        let of = |key: &str, part: &str| {
            let is_it = |path: &str, message: &str| path.ends_with(key) && message.contains(part);
            warnings.iter().any(|warning| is_it(&warning.field, &warning.message))
        };
        (of("ban.after", "spoofs a source address"), of("ban.for", "burst of spoofed packets"))
    };
    let (udp, inside) = ("match: {protocol: udp}", "match: {source: 10.0.0.0/8}");
    let ban = |more: &str| format!("ban: {{after: 1, within: 1s, for: {more}}}");
    for (matches, terms, expected) in [
        (udp, "1m", (true, false)),
        (udp, "1d", (true, false)),
        (udp, "25h", (true, true)),
        (udp, "forever", (true, true)),
        ("match: {protocol: tcp}", "forever", (true, true)),
        (inside, "1m", (false, false)),
        (inside, "forever", (false, true)),
        // Only who goes on is banned for long.
        (inside, "10m, factor: 4, up_to: 365d", (false, false)),
        (inside, "2d, factor: 4", (false, true)),
    ] {
        assert_eq!(warned(&[matches, &ban(terms)]), expected, "{matches} {terms}");
    }
    assert_eq!(warned(&[udp]), (false, false));
}
