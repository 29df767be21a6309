//! Headers that were, in other programs, ways around a limit: fragments, options, extension headers, broken lengths.

use crate::{
    daemon::{Daemon, config, judged, reason},
    frames::{self, Raw},
    net::{Link, SERVER, isolated, set_mtu},
    packets::*,
    wait,
    wiretap::Wiretap,
    witness::Witness,
};

/// All rules on protocol or ports, and two more.
const RULES: [(&str, &str); 12] = [
    ("every", ""),
    ("from", "source: [10.1.0.0/24, \"fd00::/16\"]"),
    ("udp", "protocol: udp"),
    ("tcp", "protocol: tcp"),
    ("icmp", "protocol: [icmp, icmpv6]"),
    ("sctp", "protocol: sctp"),
    ("gre", "protocol: gre"),
    ("port", "destination_port: 8192"),
    ("syn", "tcp_flags: [syn]"),
    ("echo", "icmp_type: echo-request"),
    ("later", "fragment: later"),
    ("vlan", "vlan: 100"),
];

/// What the rules judge whose packets can't be told apart from theirs.
const ALL_OF_TRANSPORT: &str = "udp tcp icmp sctp gre port syn echo";

/// What a later IPv6 fragment matches: the host does not ask it what it is of.
const ANY_LATER: &str = "udp tcp icmp sctp gre later";

/// Checks which rules judge each frame, besides those on no more than its addresses, and the reason.
fn assert_judged(cases: &[(&str, Vec<u8>, &str, &str)]) {
    isolated(|| {
        let link = Link::silent();
        set_mtu(&link, 9000);
        let mut witness = Witness::new(&link, &RULES);
        let mut wrong = Vec::new();
        for (what, frame, rules, reason) in cases {
            let expected = (format!("every from {rules}").trim_end().to_owned(), (*reason).to_owned());
            let found = witness.judge(frame);
            if found != expected {
                wrong.push(format!("{what}: {found:?} instead of {expected:?}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

#[test]
fn ipv4_is_judged_by_what_its_headers_say() {
    let udp = || v4(UDP, &PORTS);
    let short = |words| frames::ipv4(V4, words, &PORTS);
    let mut cases = vec![
        ("whole", udp(), "udp port", "passed"),
        ("a first fragment", fragment(udp(), 0, true), "udp port", "passed"),
        ("a later fragment that looks as if it had ports", fragment(udp(), 1, true), "udp later", "passed"),
        ("a last fragment", fragment(udp(), 185, false), "udp later", "passed"),
        ("a later fragment of TCP", fragment(v4(TCP, &tcp(SYN)), 1, false), "tcp later", "passed"),
        ("one word of options", v4_with_options(6, UDP, &PORTS), "udp port", "passed"),
        ("ten words of options", v4_with_options(15, TCP, &tcp(SYN)), "tcp port syn", "passed"),
        ("options, and a message", v4_with_options(9, ICMP, &message(8)), "icmp echo", "passed"),
        ("options that are longer than the packet", short(15), "udp port", "malformed"),
        ("TCP that ends before its flags", v4(TCP, &tcp(SYN)[..12]), "tcp port syn", "malformed"),
        ("UDP that ends before its ports", v4(UDP, &PORTS[..3]), "udp port", "malformed"),
        ("ports behind the packet's end", padded(v4(UDP, &[]), 60), "udp port", "malformed"),
        ("a tag", tagged(&udp(), 100), "udp port vlan", "passed"),
        ("a tag with priority and drop bit", tagged(&udp(), 0xf000 | 100), "udp port vlan", "passed"),
        ("another tag", tagged(&udp(), 101), "udp port", "passed"),
        ("another tag with the priority that looks like", tagged(&udp(), 0x2000 | 68), "udp port", "passed"),
        ("a tag inside of another", service_tagged(&tagged(&udp(), 100), 7), "udp port vlan", "passed"),
        (
            "a tag outside of another",
            service_tagged(&tagged(&udp(), 7), 0x6000 | 100),
            "udp port vlan",
            "passed",
        ),
        ("GRE", v4(GRE, &PORTS), "gre", "passed"),
        ("ESP, which has no ports", v4(ESP, &PORTS), "", "passed"),
        ("a protocol that nobody knows", v4(253, &PORTS), "", "passed"),
    ];
    cases.extend((0..5).map(|words| ("a header that is too short", short(words), "udp port", "malformed")));
    assert_judged(&cases);
}

#[test]
fn ipv6_is_judged_by_what_is_behind_its_extension_headers() {
    // More than the first buffer of a packet holds.
    let long = [255; 2047];
    let far = [(60, &long[..]); 3];
    let eight = [DESTINATION; 8];
    let nine = [DESTINATION; 9];
    let udp = |chain: &[Extension<'_>]| v6(chain, UDP, &PORTS);
    assert_judged(&[
        ("no extension", udp(&[]), "udp port", "passed"),
        ("hop-by-hop", udp(&[HOP_BY_HOP]), "udp port", "passed"),
        ("longer than the packet", udp(&[TOO_LONG]), ALL_OF_TRANSPORT, "malformed"),
        ("longer than the packet, the second", udp(&[DESTINATION, TOO_LONG]), ALL_OF_TRANSPORT, "malformed"),
        ("ends in an extension", v6(&[HOP_BY_HOP], 60, &[17, 0]), ALL_OF_TRANSPORT, "malformed"),
        ("SCTP behind options", v6(&[DESTINATION], SCTP, &PORTS), "sctp port", "passed"),
        ("GRE behind options", v6(&[HOP_BY_HOP, DESTINATION], GRE, &PORTS), "gre", "passed"),
        ("AH behind hop-by-hop", udp(&[HOP_BY_HOP, AUTHENTICATION]), "udp port", "passed"),
        ("TCP behind AH", v6(&[AUTHENTICATION, DESTINATION], TCP, &tcp(SYN)), "tcp port syn", "passed"),
        ("a message behind routing", v6(&[ROUTING], ICMPV6, &message(128)), "icmp echo", "passed"),
        ("eight extensions", udp(&eight), "udp port", "passed"),
        ("nine extensions", udp(&nine), ALL_OF_TRANSPORT, "passed"),
        ("a first fragment", udp(&[FIRST]), "udp port", "passed"),
        ("a later fragment that looks as if it had ports", udp(&[LATER]), ANY_LATER, "passed"),
        ("a later fragment behind options", udp(&[HOP_BY_HOP, LATER]), ANY_LATER, "passed"),
        ("nothing behind it", v6(&[HOP_BY_HOP], 59, &[]), "", "passed"),
        ("a protocol that nobody knows", v6(&[], 253, &PORTS), "", "passed"),
        ("ports in a further buffer", udp(&far), "udp port", "passed"),
        ("flags in a further buffer", v6(&far, TCP, &tcp(SYN)), "tcp port syn", "passed"),
        (
            "ports of a long packet",
            v6(&[DESTINATION], UDP, &[&PORTS[..], &long, &long].concat()),
            "udp port",
            "passed",
        ),
        ("a tag", tagged(&udp(&[HOP_BY_HOP]), 100), "udp port vlan", "passed"),
    ]);
}

#[test]
fn what_is_malformed_is_dropped_behind_the_rules_if_it_is_to_be() {
    isolated(|| {
        let link = Link::silent();
        let rules = ["{name: every, rate: 1/h, burst: 3}"];
        let _daemon = Daemon::start(&config(&["on_malformed: drop"], &rules));
        let (raw, mut wiretap) = (Raw::new(&link), Wiretap::new(SERVER));
        for _ in 0..5 {
            raw.send(&v6(&[TOO_LONG], UDP, &PORTS));
            raw.send(&frames::ipv4(V4, 3, &PORTS));
        }
        raw.send(&from(v4(UDP, &PORTS), [10, 1, 0, 9]));

        let status = judged(11);
        let counts = ["passed", "malformed", "malformed_dropped", "limited"];
        assert_eq!(counts.map(|name| reason(&status, name).packets), [1, 0, 6, 4]);
        let seen = wait::until("the good frame is here", || Some(wiretap.count()).filter(|&count| count > 0));
        assert_eq!(seen, 1);
    });
}
