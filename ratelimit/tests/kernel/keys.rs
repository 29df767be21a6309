//! What has a bucket of its own under each key, and that a packet takes from the buckets of all its rules or from none.

use crate::{
    daemon::{Daemon, config, judged, rule},
    frames::{self, Raw},
    net::{Link, SERVER, isolated},
    packets::*,
    wiretap::Wiretap,
};

/// Frames of different keys, and more frames that all have the key of the first.
struct Case {
    key: &'static str,
    apart: Vec<Vec<u8>>,
    alike: Vec<Vec<u8>>,
}

const BURST: u64 = 3;
const TIMES: u64 = 5;

fn udp() -> Vec<u8> {
    v4(UDP, &PORTS)
}

fn cases() -> Vec<Case> {
    let udp_from = |text: &str| frames::udp(text.parse().unwrap());
    let (other_source, other_destination) = (from(udp(), [10, 1, 0, 3]), to(udp(), [10, 1, 0, 4]));
    let other_both = to(from(udp(), [10, 1, 0, 3]), [10, 1, 0, 4]);
    let tcp = v4(TCP, &tcp(SYN));
    let ports = |first: [u8; 4]| v4(UDP, &[&first[..], &[0; 4]].concat());
    let (source_port, destination_port) = (ports([0x10, 1, 0x20, 0]), ports([0x10, 0, 0x20, 1]));
    let in_64 = (0..40).map(|low| udp_from(&format!("fd00:0:0:1:{:x}::{low}", low * 1601))).collect();
    vec![
        Case {
            key: "source",
            apart: vec![udp(), other_source.clone(), udp_from("fd00:0:0:1::2")],
            alike: vec![other_destination.clone(), tcp.clone(), source_port.clone()],
        },
        Case {
            key: "source",
            apart: vec![udp_from("fd00:0:0:1::2"), udp_from("fd00:0:0:2::2")],
            alike: in_64,
        },
        Case {
            key: "{source: {ipv4: 24, ipv6: 128}}",
            apart: vec![udp(), from(udp(), [10, 1, 1, 2]), udp_from("fd00::2"), udp_from("fd00::3")],
            alike: vec![from(udp(), [10, 1, 0, 255])],
        },
        Case {
            key: "destination",
            apart: vec![udp(), other_destination.clone(), udp_from("fd00::2")],
            alike: vec![other_source.clone(), tcp.clone()],
        },
        Case {
            key: "source_destination",
            apart: vec![udp(), other_source.clone(), other_destination.clone(), other_both.clone()],
            alike: vec![tcp.clone(), destination_port.clone()],
        },
        Case {
            key: "flow",
            apart: vec![udp(), other_source, other_destination, source_port, destination_port, tcp],
            alike: vec![fragment(udp(), 0, true), v4(UDP, &[&PORTS[..], &PORTS].concat()), tagged(&udp(), 5)],
        },
        Case { key: "global", apart: vec![udp()], alike: vec![other_both, udp_from("fd00:0:0:9::1")] },
    ]
}

/// One daemon for all: each rule is about frames of a length of its own.
#[test]
fn packets_share_a_bucket_if_their_keys_are_the_same() {
    isolated(|| {
        let link = Link::silent();
        let (cases, length) = (cases(), |index: usize| 100 + index);
        let rule_of = |(index, case): (usize, &Case)| {
            let (key, length) = (case.key, length(index));
            format!(
                "{{name: \"{index}\", key: {key}, rate: 1/h, burst: {BURST}, match: {{length: {length}}}}}"
            )
        };
        let rules: Vec<String> = cases.iter().enumerate().map(rule_of).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let _daemon = Daemon::start(&config(&[], &rules));
        let (raw, mut sent) = (Raw::new(&link), 0);
        for (index, Case { key, apart, alike }) in cases.iter().enumerate() {
            let mut send = |frames: &[Vec<u8>]| {
                for frame in frames {
                    (0..TIMES).for_each(|_| raw.send(&padded(frame.clone(), length(index))));
                }
                sent += frames.len() as u64 * TIMES;
                rule(&judged(sent), &index.to_string())
            };
            let (passed, dropped) = (BURST * apart.len() as u64, (TIMES - BURST) * apart.len() as u64);
            assert_eq!(send(apart), (passed, dropped), "{key}: apart");
            assert_eq!(send(alike), (passed, dropped + TIMES * alike.len() as u64), "{key}: alike");
        }
    });
}

#[test]
fn a_client_that_rotates_in_its_24_gets_no_more_than_the_factor() {
    isolated(|| {
        let link = Link::silent();
        let rules = ["{name: every, rate: 1/h, burst: 10, key: {source: {ipv4: {32: 1, 24: 4}}}}"];
        let _daemon = Daemon::start(&config(&[], &rules));
        let (raw, wiretap) = (Raw::new(&link), Wiretap::new(SERVER));
        // Each address of one /24 more often than it may, in turn, then a single address of another.
        for turn in 0..2_000 {
            raw.send(&from(udp(), [10, 1, 7, (turn % 3) as u8]));
        }
        for turn in 0..2_000 {
            raw.send(&from(udp(), [10, 1, 7, (turn % 100) as u8]));
        }
        (0..20).for_each(|_| raw.send(&from(udp(), [10, 1, 8, 1])));

        assert_eq!(rule(&judged(4_020), "every"), (50, 3_970));
        let sources = wiretap.sources();
        let count = |last: &dyn Fn(u8) -> bool| {
            sources.iter().filter(|source| source.octets()[2] == 7 && last(source.octets()[3])).count()
        };
        assert_eq!((sources.len(), count(&|_| true)), (50, 40));
        for address in 0..3 {
            assert_eq!(count(&|last| last == address), 10, "10.1.7.{address}");
        }
        assert!((3..100).all(|address| count(&|last| last == address) <= 10));
    });
}

#[test]
fn a_packet_that_one_rule_denies_takes_nothing_from_the_others() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = Daemon::start(&config(
            &[],
            &[
                "{name: before, rate: 1/h, burst: 2, match: {length: 100}}",
                "{name: wide, rate: 1/h, burst: 10, key: global}",
                "{name: behind, rate: 1/h, burst: 3, match: {length: 101}}",
            ],
        ));
        let (raw, mut sent) = (Raw::new(&link), 0);
        let mut send = |length| {
            (0..20).for_each(|_| raw.send(&padded(udp(), length)));
            sent += 20;
            let status = judged(sent);
            ["before", "wide", "behind"].map(|name| rule(&status, name))
        };
        assert_eq!(send(100), [(2, 18), (2, 0), (0, 0)]);
        assert_eq!(send(101), [(2, 18), (5, 0), (3, 17)]);
        assert_eq!(send(102), [(2, 18), (10, 15), (3, 17)]);
        // Denied by both: the first that is asked counts it.
        assert_eq!(send(101), [(2, 18), (10, 35), (3, 17)]);
    });
}
