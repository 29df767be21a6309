//! The condition of a rule: what is accepted, what it then means, and what is refused.

use ratelimit_policy::{Fragment, IcmpType, IpVersion, Match, TcpFlags};

use super::{assert_error, check, policy, rule, shown};

/// A file with one rule that has this condition; it begins in line 5, column 14.
fn file(condition: &str) -> String {
    rule(&[&format!("match: {condition}")])
}

fn condition(text: &str) -> Match {
    policy(&file(text)).network.unwrap().rules.first().unwrap().matches.clone()
}

#[test]
fn protocols_by_name_and_number() {
    let cases: &[(&str, &[u8])] = &[
        ("tcp", &[6]),
        ("[tcp, udp]", &[6, 17]),
        ("[udplite, udp-lite]", &[136, 136]),
        ("[icmp, icmpv6, ipv6-icmp]", &[1, 58, 58]),
        ("[gre, esp, ah, igmp, ospf, pim, vrrp]", &[47, 50, 51, 2, 89, 103, 112]),
        ("[sctp, dccp, ipip, ipv6, l2tp, eigrp]", &[132, 33, 4, 41, 115, 88]),
        ("[0, 255, \"6\"]", &[0, 255, 6]),
    ];
    for (text, expected) in cases {
        assert_eq!(condition(&format!("{{protocol: {text}}}")).protocols, *expected, "{text}");
    }
}

#[test]
fn addresses_are_prefixes() {
    let found = condition("{source: [10.0.0.0/8, \"fe80::/10\"], destination: 192.0.2.1}");
    let shown = |prefixes: &[ratelimit_policy::Prefix]| -> Vec<String> {
        prefixes.iter().map(ToString::to_string).collect()
    };
    assert_eq!(shown(&found.sources.unwrap()), ["10.0.0.0/8", "fe80::/10"]);
    assert_eq!(shown(&found.destinations.unwrap()), ["192.0.2.1/32"]);
}

#[test]
fn numbers_and_ranges() {
    let found = condition(
        "{source_port: 53, destination_port: [80, 8000-8999, 0-65535], vlan: [0, 10-20, 4094], length: [20, 64-128]}",
    );
    assert_eq!(found.source_ports, [53..=53]);
    assert_eq!(found.destination_ports, [80..=80, 8000..=8999, 0..=65_535]);
    assert_eq!(found.vlans, [0..=0, 10..=20, 4094..=4094]);
    assert_eq!(found.lengths, [20..=20, 64..=128]);
}

#[test]
fn tcp_flags_that_are_set_and_unset() {
    let cases = [
        ("[syn]", 2, 16),
        ("syn", 2, 16),
        ("[syn, rst]", 2 | 4, 16),
        ("[syn, ack]", 2 | 16, 0),
        ("[ack]", 16, 0),
        ("[fin, psh, urg, ece, cwr]", 1 | 8 | 32 | 64 | 128, 0),
        ("{set: [syn], unset: [ack, rst]}", 2, 16 | 4),
        ("{set: syn}", 2, 0),
        ("{unset: ack}", 0, 16),
    ];
    for (text, set, unset) in cases {
        let expected = Some(TcpFlags { set, unset });
        assert_eq!(condition(&format!("{{tcp_flags: {text}}}")).tcp_flags, expected, "{text}");
    }
}

#[test]
fn icmp_types_of_both_families_unless_the_protocol_says_which() {
    let v4 = |number| IcmpType { version: IpVersion::V4, number };
    let v6 = |number| IcmpType { version: IpVersion::V6, number };
    let cases: &[(&str, &[IcmpType])] = &[
        ("icmp_type: 8", &[v4(8), v6(8)]),
        ("protocol: icmp, icmp_type: 8", &[v4(8)]),
        ("protocol: icmpv6, icmp_type: [128, 255]", &[v6(128), v6(255)]),
        ("protocol: [icmp, icmpv6], icmp_type: 8", &[v4(8), v6(8)]),
        ("icmp_type: echo-request", &[v4(8), v6(128)]),
        ("icmp_type: [echo-reply, redirect]", &[v4(0), v6(129), v4(5), v6(137)]),
        ("protocol: icmp, icmp_type: time-exceeded", &[v4(11)]),
        ("protocol: icmpv6, icmp_type: destination-unreachable", &[v6(1)]),
        ("icmp_type: packet-too-big", &[v6(2)]),
        ("icmp_type: [neighbour-solicitation, neighbor-solicitation]", &[v6(135), v6(135)]),
        ("icmp_type: timestamp-request", &[v4(13)]),
    ];
    for (text, expected) in cases {
        assert_eq!(condition(&format!("{{{text}}}")).icmp_types, *expected, "{text}");
    }
}

#[test]
fn fragments_and_versions() {
    assert_eq!(condition("{fragment: no}").fragments, [Fragment::No]);
    assert_eq!(condition("{fragment: [first, later]}").fragments, [Fragment::First, Fragment::Later]);
    assert_eq!(condition("{ip_version: 4}").ip_version, Some(IpVersion::V4));
    assert_eq!(condition("{ip_version: 6}").ip_version, Some(IpVersion::V6));
}

#[test]
fn an_empty_condition_is_about_every_packet() {
    let checked = check(file("{}")).unwrap();
    assert_eq!(checked.policy.network.unwrap().rules.first().unwrap().matches, Match::default());
    let warnings: Vec<String> = checked.warnings.iter().map(shown).collect();
    assert_eq!(
        warnings,
        [
            "5:14 network.rules[0].match: is empty, so the rule is about every packet, as it is without `match`"
        ]
    );
}

#[test]
fn mistakes_in_values() {
    let cases = [
        ("tcp", "5:14 match: must be a mapping (of protocol, source,"),
        (
            "{port: 80}",
            "5:15 match.port: unknown key `port`; accepted: protocol, source, destination, source_p",
        ),
        ("{protcol: tcp}", "5:15 match.protcol: unknown key `protcol`, did you mean `protocol`?"),
        ("{protocol: }", "5:15 match.protocol: has no value"),
        ("{protocol: []}", "5:25 match.protocol: an empty list; give it an item or leave the key out"),
        ("{protocol: {a: b}}", "5:25 match.protocol: must be a single value, not a mapping"),
        ("{protocol: [[tcp]]}", "5:26 match.protocol[0]: must be a single value, not a list"),
        ("{protocol: udq}", "5:25 match.protocol: `udq` is not a protocol, did you mean `udp`?"),
        ("{protocol: TCP}", "5:25 match.protocol: `TCP` is not a protocol, did you mean `tcp`?"),
        ("{protocol: [tcp, 256]}", "5:31 match.protocol[1]: `256` is not a protocol; write tcp, udp, icmp"),
        ("{protocol: -1}", "5:25 match.protocol: `-1` is not a protocol"),
        (
            "{source: 10.0.0.1/8}",
            "5:23 match.source: has bits set beyond the prefix length; did you mean 10.0",
        ),
        ("{source: [10.0.0.0/33]}", "5:24 match.source[0]: prefix length 33 is too long"),
        ("{destination: example.org}", "5:28 match.destination: not an IP address or prefix"),
        (
            "{source_port: http}",
            "5:28 match.source_port: `http` is not a port; write a number from 0 to 65535, or a range",
        ),
        ("{destination_port: 65536}", "5:33 match.destination_port: `65536` is not a port"),
        ("{destination_port: [1-65536]}", "5:34 match.destination_port[0]: `1-65536` is not a port"),
        (
            "{destination_port: 90-80}",
            "5:33 match.destination_port: a range goes from the smaller to the larger number; did you mean 80-90?",
        ),
        ("{tcp_flags: []}", "5:26 match.tcp_flags: an empty list"),
        ("{tcp_flags: {}}", "5:26 match.tcp_flags: is empty; write `[syn]` or"),
        ("{tcp_flags: {sat: syn}}", "5:27 match.tcp_flags.sat: unknown key `sat`, did you mean `set`?"),
        ("{tcp_flags: [sync]}", "5:27 match.tcp_flags[0]: `sync` is not known, did you mean `syn`?"),
        (
            "{tcp_flags: {set: [syn], unset: [ack, syn]}}",
            "5:52 match.tcp_flags.unset[1]: `syn` can't be both set and unset",
        ),
        ("{icmp_type: 256}", "5:26 match.icmp_type: `256` is not an ICMP type; write echo-request"),
        (
            "{icmp_type: echo-reqest}",
            "5:26 match.icmp_type: `echo-reqest` is not an ICMP type, did you mean `echo-request`?",
        ),
        ("{fragment: yes}", "5:25 match.fragment: `yes` is not known; accepted: no, first, later"),
        ("{vlan: 4095}", "5:21 match.vlan: `4095` is not a VLAN id; write a number from 0 to 4094"),
        ("{vlan: 20-10}", "5:21 match.vlan: a range goes from the smaller"),
        (
            "{length: 64B}",
            "5:23 match.length: `64B` is not a length in bytes; write a number from 0 to 65535",
        ),
        ("{length: 0-19}", "5:23 match.length: no IP packet has fewer than 20 bytes"),
        ("{length: 65536}", "5:23 match.length: `65536` is not a length"),
        ("{ip_version: 5}", "5:27 match.ip_version: `5` is not known; accepted: 4, 6"),
        ("{ip_version: [4, 6]}", "5:27 match.ip_version: must be a single value, not a list"),
    ];
    for (text, expected) in cases {
        assert_error(file(text), "network.rules[0].", expected);
    }
}

#[test]
fn what_can_never_match_together() {
    let cases = [
        (
            "{protocol: udp, tcp_flags: syn}",
            "5:25 match.protocol: `udp` has no TCP flags, so it can never match together with `tcp_flags`",
        ),
        ("{protocol: [tcp, sctp], tcp_flags: syn}", "5:31 match.protocol[1]: `sctp` has no TCP flags"),
        ("{protocol: tcp, icmp_type: 8}", "5:25 match.protocol: `tcp` has no ICMP type"),
        (
            "{protocol: icmp, source_port: 1}",
            "5:25 match.protocol: `icmp` has no ports, so it can never match together with `source_port`",
        ),
        (
            "{protocol: gre, destination_port: 1}",
            "5:25 match.protocol: `gre` has no ports, so it can never match together with `destination_port`",
        ),
        ("{protocol: 200, destination_port: 1}", "5:25 match.protocol: protocol 200 has no ports"),
        (
            "{tcp_flags: syn, icmp_type: 8}",
            "5:42 match.icmp_type: no packet has both an ICMP type and TCP flags; leave this or `tcp_flags` out",
        ),
        (
            "{destination_port: 1, icmp_type: 8}",
            "5:47 match.icmp_type: no packet has both an ICMP type and ports",
        ),
        ("{fragment: later, destination_port: 1}", "5:25 match.fragment: a later fragment has no ports"),
        (
            "{fragment: [no, later], tcp_flags: syn}",
            "5:30 match.fragment[1]: a later fragment has no TCP flags",
        ),
        ("{fragment: later, icmp_type: 8}", "5:25 match.fragment: a later fragment has no ICMP type"),
        (
            "{ip_version: 4, source: [10.0.0.0/8, \"fe80::/10\"]}",
            "5:51 match.source[1]: is about IPv6 only, so it can never match together with `ip_version: 4`",
        ),
        (
            "{ip_version: 6, destination: 10.0.0.0/8}",
            "5:43 match.destination: is about IPv4 only, so it can never match together with `ip_version: 6`",
        ),
        ("{ip_version: 6, protocol: icmp}", "5:40 match.protocol: is about IPv4 only"),
        ("{ip_version: 4, protocol: [tcp, icmpv6]}", "5:46 match.protocol[1]: is about IPv6 only"),
        ("{ip_version: 6, protocol: ah}", "5:40 match.protocol: is about IPv4 only"),
        ("{ip_version: 6, icmp_type: source-quench}", "5:41 match.icmp_type: is about IPv4 only"),
        (
            "{source: 10.0.0.0/8, destination: \"fe80::/10\"}",
            "5:48 match.destination: is about IPv6 only, and `source` about IPv4 only: no packet is both",
        ),
        (
            "{source: \"fe80::/10\", protocol: icmp}",
            "5:46 match.protocol: is about IPv4 only, and `source` about IPv6 only",
        ),
        (
            "{destination: 10.0.0.0/8, icmp_type: packet-too-big}",
            "5:51 match.icmp_type: is about IPv6 only, and `destination` about IPv4 only",
        ),
        (
            "{protocol: icmp, icmp_type: packet-too-big}",
            "5:42 match.icmp_type: `packet-too-big` is a type of ICMPv6 only, but `protocol` is icmp only",
        ),
        (
            "{protocol: icmpv6, icmp_type: source-quench}",
            "5:44 match.icmp_type: `source-quench` is a type of ICMP only, but `protocol` is icmpv6 only",
        ),
    ];
    for (text, expected) in cases {
        assert_error(file(text), "network.rules[0].", expected);
    }
}

#[test]
fn what_can_match_together() {
    let cases = [
        "{protocol: [tcp, udp, udplite, sctp, dccp], source_port: 1, destination_port: 2}",
        "{protocol: tcp, tcp_flags: syn, destination_port: 2, fragment: [no, first]}",
        "{tcp_flags: syn, source_port: 1}",
        "{protocol: [icmp, icmpv6], icmp_type: echo-request}",
        "{fragment: later, protocol: udp}",
        "{source: [10.0.0.0/8, \"fe80::/10\"], destination: 192.0.2.1}",
        "{ip_version: 4, icmp_type: 8}",
        "{ip_version: 4, protocol: ah}",
        "{protocol: [ah, tcp], source: \"fe80::/10\"}",
    ];
    for text in cases {
        assert_ne!(condition(text), Match::default(), "{text}");
    }
}

#[test]
fn conditions_that_hardly_any_packet_fulfils_are_a_warning() {
    let cases = [
        (
            "{icmp_type: [echo-request, neighbor-solicitation]}",
            Some("icmp_type: neighbour discovery (ICMPv6 133 to 137)"),
        ),
        ("{icmp_type: 137, protocol: icmpv6}", Some("icmp_type: neighbour discovery (ICMPv6 133 to 137)")),
        ("{icmp_type: [132, 138], protocol: icmpv6}", None),
        ("{protocol: [udp, 44]}", Some("protocol: 0, 43, 44 and 60 are extension headers")),
        ("{protocol: [ah, udp]}", None),
    ];
    for (text, expected) in cases {
        let warnings: Vec<String> = check(file(text)).unwrap().warnings.iter().map(shown).collect();
        let is_it = |warning: &String| {
            expected.is_some_and(|expected| warning.contains(&format!("match.{expected}")))
        };
        assert!(
            warnings.len() == usize::from(expected.is_some()) && warnings.iter().all(is_it),
            "{text}: {warnings:?}"
        );
    }
}

#[test]
fn an_item_that_is_wrong_causes_no_conflict() {
    assert_error(
        file("{source: [10.0.0.0/8, fe80], destination: \"fe80::/10\"}"),
        "network.rules[0].",
        "5:36 match.source[1]: not an IP address or prefix",
    );
    assert_error(
        file("{protocol: [icmp, icmp6], icmp_type: packet-too-big}"),
        "network.rules[0].",
        "5:32 match.protocol[1]: `icmp6` is not a protocol, did you mean `icmp`?",
    );
}
