//! `except`: what a rule never judges goes on to the other rules, as if this one were not there.

use std::fs;

use ratelimit::control::AnsweredBuckets;

use crate::{
    daemon::{Daemon, config, config_at, judged, reason, rule, run},
    frames::{self, Raw},
    net::{Link, isolated},
    packets::*,
};

/// So slow that nothing comes back while a test runs.
const TIGHT: &str = "{name: tight, rate: 1/d, except: {source: 10.1.0.2}}";
const LOOSE: &str =
    "{name: loose, rate: 3/d, except: [{source: 10.1.0.4}, {source: 10.1.0.5}, {source: 10.1.0.6}]}";

fn send(raw: &Raw, source: &str, count: usize) {
    (0..count).for_each(|_| raw.send(&frames::udp(source.parse().unwrap())));
}

#[test]
fn what_a_rule_excepts_goes_on_to_the_next() {
    isolated(|| {
        let link = Link::silent();
        let daemon = Daemon::start(&config(&[], &[TIGHT, LOOSE]));
        let raw = Raw::new(&link);
        send(&raw, "10.1.0.2", 5);
        let now = judged(5);
        assert_eq!((rule(&now, "tight"), rule(&now, "loose")), ((0, 0), (3, 2)));
        send(&raw, "10.1.0.3", 5);
        let now = judged(10);
        assert_eq!((rule(&now, "tight"), rule(&now, "loose")), ((1, 4), (4, 2)));
        send(&raw, "10.1.0.5", 2);
        let now = judged(12);
        assert_eq!((rule(&now, "tight"), rule(&now, "loose")), ((2, 5), (4, 2)));
        // With options in their headers, packets take the slow path, where only their sources are read.
        for source in [[10, 1, 0, 2], [10, 1, 0, 4], [10, 1, 0, 6]] {
            raw.send(&from(v4_with_options(7, UDP, &PORTS), source));
        }
        let now = judged(15);
        assert_eq!((rule(&now, "tight"), rule(&now, "loose")), ((4, 5), (4, 3)));
        let shown = run(&["rules"]);
        assert!(shown.contains("any packet, except source 10.1.0.2/32"), "{shown}");
        drop(daemon);
    });
}

#[test]
fn all_conditions_of_an_exception_must_hold() {
    isolated(|| {
        let link = Link::silent();
        let except = "except: {source: 10.1.0.0/24, destination_port: 53, protocol: udp}";
        let port = |port: u16| [&9_u16.to_be_bytes()[..], &port.to_be_bytes(), &[0; 4]].concat();
        let rules = [&format!("{{name: all, key: global, rate: 1/d, {except}}}")[..]];
        let daemon = Daemon::start(&config(&[], &rules));
        let raw = Raw::new(&link);
        let udp = |number: u16| from(v4(UDP, &port(number)), [10, 1, 0, 2]);
        // Excepted: as often as it likes.
        (0..5).for_each(|_| raw.send(&udp(53)));
        assert_eq!(rule(&judged(5), "all"), (0, 0));
        // Another port, another source, another protocol, and a fragment that has no port: judged.
        raw.send(&udp(54));
        raw.send(&from(udp(53), [10, 2, 0, 2]));
        raw.send(&from(v4(TCP, &[&port(53)[..], &tcp(0)[8..]].concat()), [10, 1, 0, 2]));
        raw.send(&fragment(udp(53), 1, false));
        let now = judged(9);
        assert_eq!((rule(&now, "all"), reason(&now, "passed").packets), ((1, 3), 6));
        drop(daemon);
    });
}

#[test]
fn one_of_several_exceptions_is_enough() {
    isolated(|| {
        let link = Link::silent();
        // Each rule but one has several prefix lengths or exceptions; the last one has so many that no bit is left.
        let many: Vec<String> = (0..57).map(|last| format!("{{source: 10.3.0.{last}}}")).collect();
        let rules = [
            "{name: two, rate: 1/d, except: [{source: 10.1.0.0/24, protocol: udp}, {source: 10.2.0.2}]}"
                .to_owned(),
            "{name: one, rate: 2/d, except: {source: 10.2.0.2}}".to_owned(),
            "{name: parts, rate: 3/d, key: {source: {ipv4: {32: 1, 24: 99}}}, \
             except: [{source: 10.1.0.2}, {source: 10.9.0.9}]}"
                .to_owned(),
            format!("{{name: many, rate: 4/d, except: [{}]}}", many.join(", ")),
        ];
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let daemon = Daemon::start(&config(&[], &rules));
        let raw = Raw::new(&link);
        let mut sent = 0;
        let mut before = [(0, 0); 4];
        for (source, judging) in [
            ("10.1.0.2", [false, true, false, true]),
            ("10.2.0.2", [false, false, true, true]),
            ("10.9.0.9", [true, true, false, true]),
            ("10.3.0.0", [true, true, true, false]),
            ("10.3.0.56", [true, true, true, false]),
            ("10.3.0.57", [true, true, true, true]),
        ] {
            send(&raw, source, 1);
            sent += 1;
            let now = judged(sent);
            let counts = ["two", "one", "parts", "many"].map(|name| rule(&now, name));
            let judged = [0, 1, 2, 3].map(|index| counts[index] != before[index]);
            assert_eq!(judged, judging, "{source}");
            before = counts;
        }
        for last in 0..57 {
            send(&raw, &format!("10.3.0.{last}"), 1);
            sent += 1;
            assert_eq!(rule(&judged(sent), "many"), before[3], "10.3.0.{last}");
        }
        let shown = run(&["rules"]);
        let expected = "except (protocol udp, source 10.1.0.0/24) or (source 10.2.0.2/32)";
        assert!(shown.contains(expected), "{shown}");
        drop(daemon);
    });
}

#[test]
fn what_cant_be_told_of_a_packet_never_excepts_it() {
    isolated(|| {
        let link = Link::silent();
        let excepts = [
            ("udp", "protocol: udp"),
            ("from", "source_port: 4096"),
            ("to", "destination_port: 8192"),
            ("syn", "tcp_flags: [syn]"),
            ("echo", "icmp_type: echo-request"),
        ];
        let rule_of = |(name, except)| {
            format!("{{name: {name}, key: global, rate: 1/d, action: observe, except: {{{except}}}}}")
        };
        let rules = excepts.map(rule_of);
        let _daemon = Daemon::start(&config(&[], &rules.each_ref().map(String::as_str)));
        let raw = Raw::new(&link);
        let mut before = [(0, 0); 5];
        // The last three are behind more extension headers than are looked through: each may be anything.
        for (sent, (packet, judging)) in [
            (v6(&[DESTINATION; 8], UDP, &PORTS), [false, false, false, true, true]),
            (v6(&[], TCP, &tcp(SYN)), [true, false, false, false, true]),
            (v6(&[], ICMPV6, &message(128)), [true, true, true, true, false]),
            (v6(&[DESTINATION; 9], UDP, &PORTS), [true; 5]),
            (v6(&[DESTINATION; 9], TCP, &tcp(SYN)), [true; 5]),
            (v6(&[DESTINATION; 9], ICMPV6, &message(128)), [true; 5]),
        ]
        .iter()
        .enumerate()
        {
            raw.send(packet);
            let now = judged(sent as u64 + 1);
            let counts = excepts.map(|(name, _)| rule(&now, name));
            let judges = [0, 1, 2, 3, 4].map(|index| counts[index] != before[index]);
            assert_eq!(judges, *judging, "packet {sent}");
            before = counts;
        }
    });
}

#[test]
fn an_excepted_list_is_reloaded() {
    isolated(|| {
        let link = Link::silent();
        fs::write("/run/monitors.txt", "# monitoring\r\n10.1.0.8-10.1.0.9\r\n").unwrap();
        let rules = ["{name: all, rate: 1/d, except: {source: {file: monitors.txt}}}"];
        let mut daemon = Daemon::start(&config_at("/run/ratelimit.yaml", "", &[], &rules));
        daemon.wait_for("list except.source of all, /run/monitors.txt: 1 prefix");
        let raw = Raw::new(&link);
        send(&raw, "10.1.0.9", 3);
        assert_eq!(rule(&judged(3), "all"), (0, 0));
        fs::write("/run/monitors.txt", "10.1.0.8\n10.1.0.10\n").unwrap();
        daemon.wait_for("list except.source of all, /run/monitors.txt: 2 prefixes");
        send(&raw, "10.1.0.9", 3);
        send(&raw, "10.1.0.10", 3);
        assert_eq!(rule(&judged(9), "all"), (1, 2));
    });
}

#[test]
fn bucket_tells_which_rules_never_judge_a_source() {
    isolated(|| {
        let link = Link::silent();
        let rules = [
            "{name: net, match: {source: 10.2.0.0/24}, key: {source: {ipv4: 16}}, rate: 1/d, burst: 5}",
            "{name: but, except: {source: 10.2.0.2}, rate: 1/d, burst: 5}",
            "{name: dns, except: {source: 10.2.0.2, destination_port: 53}, rate: 1/d, burst: 5}",
            "{name: six, match: {ip_version: 6}, key: global, rate: 1/d, burst: 5}",
        ];
        let _daemon = Daemon::start(&config(&[], &rules));
        send(&Raw::new(&link), "10.2.0.2", 2);
        judged(2);
        let shown = run(&["bucket", "10.2.0.2"]);
        let lines: Vec<&str> = shown.lines().map(|line| line.split("  ").next().unwrap()).collect();
        let [except, six] = [
            "rule `but` never judges 10.2.0.2: its `except` names it",
            "rule `six` never judges 10.2.0.2: its `match` is about others",
        ];
        assert_eq!(lines, ["RULE", "net", "dns", "", except, six], "{shown}");
        assert_eq!(run(&["bucket", "10.2.0.2", "--rule", "but"]), format!("{except}\n"));
        let left = |rule: &str| {
            let shown = run(&["bucket", "10.2.0.2", "--rule", rule, "--output", "json"]);
            let answered: AnsweredBuckets = serde_json::from_str(&shown).unwrap();
            answered.buckets[0].remaining
        };
        assert_eq!((left("net"), left("dns")), (3, 3));
        // Who is not judged gives nothing back to those of the same network who are.
        let shown = run(&["bucket", "10.2.9.9", "--reset"]);
        assert!(shown.contains("rule `net` never judges 10.2.9.9: its `match` is about others"), "{shown}");
        assert_eq!(left("net"), 3);
    });
}
