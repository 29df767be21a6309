//! Each condition of a rule: packets that it matches and packets that it does not, in the loaded program.

use std::fs;

use ratelimit_common::time::Nanos;

use crate::{
    daemon::{Daemon, config, judged, rule, run},
    frames::{self, Raw},
    net::{self, Link},
    offline::{self, Made},
    packets::*,
};

const MADE: Made = Made { monotonic: Nanos(1_000_000_000_000), unix: Nanos(1_700_000_000_000_000_000) };

/// An empty list leaves no prefix that would show that destinations are asked about.
#[test]
fn an_empty_list_of_destinations_has_no_packet() {
    net::isolated(|| {
        let link = Link::silent();
        fs::write("/run/none.txt", "# none\n").unwrap();
        // One packet takes the fast path, the others can't.
        let frames = [v4(UDP, &PORTS), v4(ICMP, &message(8)), fragment(v4(UDP, &PORTS), 9, false)];
        for (conditions, expected) in [
            ("match: {destination: {file: none.txt}}", (0, 0)),
            ("match: {destination: {file: none.txt}, protocol: [udp, icmp]}", (0, 0)),
            ("except: {destination: {file: none.txt}}", (1, 2)),
        ] {
            let rule_text = format!("{{name: every, rate: 1/d, {conditions}}}");
            let daemon = Daemon::start(&config(&[], &[&rule_text]));
            frames.iter().for_each(|frame| Raw::new(&link).send(frame));
            assert_eq!(rule(&judged(3), "every"), expected, "{conditions}");
            drop(daemon);
            run(&["detach"]);
        }
    });
}

/// Conditions, and packets that fulfil them or do not.
type Case = (&'static str, Vec<Vec<u8>>, Vec<Vec<u8>>);

#[test]
fn a_rule_matches_what_fulfils_its_conditions_and_nothing_else() {
    net::isolated(|| {
        let cases = [addresses(), ports(), flags_and_types(), frames_and_fragments()].concat();
        let rule = |(index, case): (usize, &Case)| {
            format!("{{name: \"{index}\", rate: 1M/s, match: {{{}}}}}", case.0)
        };
        let rules: Vec<String> = cases.iter().enumerate().map(rule).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let mut generation = offline::load_rules(&rules, MADE);
        for (bit, (condition, matching, others)) in cases.iter().enumerate() {
            let expected =
                matching.iter().map(|frame| (frame, 1)).chain(others.iter().map(|frame| (frame, 0)));
            for (index, (frame, expected)) in expected.enumerate() {
                let found = generation.dry_run(frame, 0, MADE.monotonic).unwrap();
                assert_eq!(found.matching >> bit & 1, expected, "{condition}: packet {index}");
            }
        }
    });
}

fn udp() -> Vec<u8> {
    v4(UDP, &PORTS)
}

fn udp_v6() -> Vec<u8> {
    v6(&[], UDP, &PORTS)
}

fn addresses() -> Vec<Case> {
    let source = |text: &str| frames::udp(text.parse().unwrap());
    let destination = |octets| to(udp(), octets);
    vec![
        ("ip_version: 4", vec![udp()], vec![udp_v6()]),
        ("ip_version: 6", vec![udp_v6()], vec![udp()]),
        (
            "source: 10.1.7.0/24",
            vec![source("10.1.7.0"), source("10.1.7.255")],
            vec![source("10.1.6.255"), source("10.1.8.0"), source("a01:700::")],
        ),
        // Longer prefixes of other rules lie in it.
        ("source: 10.0.0.0/8", vec![source("10.1.7.9"), source("10.255.0.1")], vec![source("11.0.0.1")]),
        ("source: 10.1.7.9", vec![source("10.1.7.9")], vec![source("10.1.7.8")]),
        (
            "source: [192.0.2.0/24, \"fd00:0:0:1::/64\"]",
            vec![source("192.0.2.1"), source("fd00:0:0:1::9")],
            vec![source("fd00:0:0:2::9"), source("192.0.3.1")],
        ),
        ("destination: 10.1.0.0/30", vec![destination([10, 1, 0, 3])], vec![destination([10, 1, 0, 4])]),
        ("destination: \"fd00::/8\"", vec![udp_v6()], vec![udp()]),
        ("destination: \"fe00::/8\"", vec![], vec![udp_v6(), udp()]),
        (
            "source: 10.1.0.2, destination: 10.1.0.9",
            vec![destination([10, 1, 0, 9])],
            vec![udp(), from(destination([10, 1, 0, 9]), [10, 1, 0, 3])],
        ),
    ]
}

fn ports() -> Vec<Case> {
    let ports = |source: u16, destination: u16| {
        v4(UDP, &[&source.to_be_bytes()[..], &destination.to_be_bytes(), &[0; 4]].concat())
    };
    vec![
        ("protocol: tcp", vec![v4(TCP, &tcp(0)), v6(&[HOP_BY_HOP], TCP, &tcp(0))], vec![udp(), udp_v6()]),
        ("protocol: [udp, 47]", vec![udp(), v4(GRE, &PORTS)], vec![v4(TCP, &tcp(0)), v4(ESP, &PORTS)]),
        ("source_port: 4096", vec![udp(), v6(&[], SCTP, &PORTS)], vec![ports(4097, 8192), v4(GRE, &PORTS)]),
        (
            "destination_port: 8000-8999",
            vec![ports(1, 8000), ports(1, 8999), udp_v6()],
            vec![ports(1, 7999), ports(1, 9000), ports(8500, 1)],
        ),
        (
            "destination_port: [0, 53, 65000-65535]",
            vec![ports(1, 0), ports(1, 53), ports(1, 65535)],
            vec![ports(1, 52), ports(1, 64999), v4(ICMP, &message(0)), v4(ESP, &[0; 8])],
        ),
    ]
}

fn flags_and_types() -> Vec<Case> {
    let flags = |flags| v4(TCP, &tcp(flags));
    let (fin, rst, psh, urg, ece, cwr) = (0x01, 0x04, 0x08, 0x20, 0x40, 0x80);
    let (v4_type, v6_type) = (|kind| v4(ICMP, &message(kind)), |kind| v6(&[], ICMPV6, &message(kind)));
    vec![
        (
            "tcp_flags: [syn]",
            vec![flags(SYN), flags(SYN | ece | cwr), v6(&[], TCP, &tcp(SYN))],
            vec![flags(SYN | ACK), flags(ACK), udp()],
        ),
        ("tcp_flags: [syn, ack]", vec![flags(SYN | ACK)], vec![flags(SYN), flags(ACK)]),
        ("tcp_flags: {set: syn}", vec![flags(SYN), flags(SYN | ACK)], vec![flags(ACK)]),
        (
            "tcp_flags: {set: [fin, psh], unset: urg}",
            vec![flags(fin | psh), flags(fin | psh | rst)],
            vec![flags(fin | psh | urg), flags(fin)],
        ),
        ("icmp_type: echo-request", vec![v4_type(8), v6_type(128)], vec![v4_type(0), v6_type(8), udp()]),
        ("protocol: icmpv6, icmp_type: 8", vec![v6_type(8)], vec![v4_type(8), v6_type(128)]),
        ("protocol: icmp", vec![v4_type(8)], vec![v6_type(8)]),
    ]
}

fn frames_and_fragments() -> Vec<Case> {
    let (first, later) = (|| fragment(udp(), 0, true), || fragment(udp(), 9, true));
    let (first_v6, later_v6) = (|| v6(&[FIRST], UDP, &PORTS), || v6(&[LATER], UDP, &PORTS));
    vec![
        ("fragment: later", vec![later(), later_v6()], vec![first(), first_v6(), udp(), udp_v6()]),
        ("fragment: first", vec![first(), first_v6()], vec![later(), later_v6(), udp(), udp_v6()]),
        ("fragment: no", vec![udp(), udp_v6()], vec![first(), later(), first_v6(), later_v6()]),
        ("fragment: [first, later], ip_version: 6", vec![first_v6(), later_v6()], vec![first(), later()]),
        (
            "vlan: 100",
            vec![tagged(&udp(), 100), tagged(&udp_v6(), 0xe000 | 100)],
            vec![udp(), tagged(&udp(), 101)],
        ),
        (
            "vlan: [7, 100-199]",
            vec![service_tagged(&tagged(&udp(), 7), 1), tagged(&udp(), 199)],
            vec![tagged(&udp(), 200), service_tagged(&tagged(&udp(), 8), 1)],
        ),
        (
            "length: 100-200",
            vec![padded(udp(), 100), padded(udp_v6(), 200)],
            vec![padded(udp(), 99), padded(udp(), 201)],
        ),
        ("length: 1500, protocol: udp", vec![padded(udp(), 1500)], vec![padded(v4(TCP, &tcp(0)), 1500)]),
    ]
}
