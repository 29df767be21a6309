//! Limits by source on traffic of every kind, and on very many sources at once.

use std::{collections::HashMap, net::Ipv4Addr};

use crate::{
    daemon::{Daemon, config, judged, reason, rule, status},
    frames::{self, Raw},
    net::{Link, SERVER, SERVER_V6, client_interface, ip, isolated},
    packets::{self, *},
    wait,
    wiretap::Wiretap,
};

const BURST: u64 = 3;
const TIMES: u64 = 60;

/// Frames, all of a row from one source, which no other row has.
fn kinds() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let v4 = |source, frame| from(frame, [10, 1, 1, source]);
    let v6 = |source: u8, mut frame: Vec<u8>| {
        frame[28] = source;
        frame
    };
    let udp = |source| v4(source, packets::v4(UDP, &PORTS));
    let in_64 = |low: u64| frames::udp(format!("fd00:0:0:64::{:x}:{low}", low * 97).parse().unwrap());
    vec![
        ("GRE", vec![v4(1, packets::v4(GRE, &PORTS))]),
        ("ESP", vec![v4(2, packets::v4(ESP, &PORTS))]),
        ("a protocol that nobody knows", vec![v4(3, packets::v4(253, &PORTS))]),
        ("ICMP", vec![v4(4, packets::v4(ICMP, &message(8)))]),
        ("fragments", vec![fragment(udp(5), 0, true), fragment(udp(5), 9, false)]),
        (
            "options",
            vec![v4(6, v4_with_options(6, UDP, &PORTS)), udp(6), v4(6, v4_with_options(15, UDP, &PORTS))],
        ),
        (
            "tags",
            vec![
                tagged(&udp(7), 100),
                udp(7),
                tagged(&udp(7), 0xf000 | 100),
                service_tagged(&tagged(&udp(7), 1), 2),
            ],
        ),
        ("ICMPv6", vec![v6(1, packets::v6(&[], ICMPV6, &message(128)))]),
        ("GRE behind an extension header", vec![v6(2, packets::v6(&[DESTINATION], GRE, &PORTS))]),
        ("too many extension headers", vec![v6(3, packets::v6(&[DESTINATION; 9], UDP, &PORTS))]),
        ("an extension header without end", vec![v6(4, packets::v6(&[TOO_LONG], UDP, &PORTS))]),
        ("addresses of one /64", (0..60).map(in_64).collect()),
    ]
}

#[test]
fn packets_of_every_kind_obey_a_limit_by_source() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1/h, burst: 3}"]));
        let (raw, mut passed) = (Raw::new(&link), 0);
        for (sent, (kind, frames)) in (1..).zip(kinds()) {
            frames.iter().cycle().take(TIMES as usize).for_each(|frame| raw.send(frame));
            passed += BURST;
            let expected = (passed, sent * TIMES - passed);
            assert_eq!(rule(&judged(sent * TIMES), "every"), expected, "{kind}");
        }
    });
}

#[test]
fn neighbours_are_found_while_all_else_is_over_the_limit() {
    isolated(|| {
        let client = "fd00:0:0:1::2";
        let link = Link::new(&[client]);
        let _daemon = Daemon::start(&config(&[], &["{name: every, key: global, rate: 1/h, burst: 1}"]));
        let raw = Raw::new(&link);
        (0..20).for_each(|_| raw.send(&v6(&[], ICMPV6, &message(128))));
        assert_eq!(rule(&judged(20), "every"), (1, 19));

        let socket = link.sender(client);
        let neighbour = link.client.enter(|| {
            ip(&format!("neigh del {SERVER_V6} dev {}", client_interface()));
            ip(&format!("link set {} arp on", client_interface()));
            wait::until("the client has found the server", || {
                socket.send(b"datagram").unwrap();
                Some(ip(&format!("neigh show {SERVER_V6}"))).filter(|found| found.contains("lladdr"))
            })
        });
        assert!(neighbour.contains("02:00:00:00:00:01"), "{neighbour}");
        ip(&format!("neigh flush dev {SERVER}"));
        wait::until("the server has found the client", || {
            // Nobody answers, but the host must know whom to ask.
            std::net::UdpSocket::bind((SERVER_V6, 0)).unwrap().send_to(b"datagram", (client, 9)).unwrap();
            Some(ip(&format!("neigh show {client}"))).filter(|found| found.contains("02:00:00:00:00:02"))
        });
        let status = status();
        assert!(reason(&status, "neighbour_discovery").packets >= 2);
        assert_eq!(rule(&status, "every").0, 1);
    });
}

#[test]
fn what_a_router_forwards_is_no_neighbour_discovery() {
    isolated(|| {
        let client = "fd00:0:0:1::2".parse().unwrap();
        let link = Link::silent();
        ip(&format!("route add fd01::/16 dev {SERVER}"));
        let forwarding = |value| std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", value).unwrap();
        let solicitation = frames::ipv6(client, ICMPV6, 255, &[&[135, 0, 0, 0][..], &[0; 20]].concat());
        let to = |destination: &str| {
            let destination: std::net::Ipv6Addr = destination.parse().unwrap();
            [&solicitation[..38], &destination.octets(), &solicitation[54..]].concat()
        };
        let raw = Raw::new(&link);
        // The second has more read than the source address.
        for rule_text in
            ["{name: every, rate: 1/h, burst: 5}", "{name: every, rate: 1/h, burst: 5, key: global}"]
        {
            let daemon = Daemon::start(&config(&[], &[rule_text]));
            forwarding("0");
            (0..20).for_each(|_| raw.send(&to("fd01::1")));
            assert_eq!(reason(&judged(20), "neighbour_discovery").packets, 20, "{rule_text}");
            forwarding("1");
            for destination in ["fd01::1", SERVER_V6, "ff02::1:ff00:1", "fe80::1"] {
                (0..20).for_each(|_| raw.send(&to(destination)));
            }
            let status = judged(100);
            assert_eq!(reason(&status, "neighbour_discovery").packets, 80, "{rule_text}");
            assert_eq!(rule(&status, "every"), (5, 15), "{rule_text}");
            drop(daemon);
            crate::daemon::run(&["detach"]);
        }
    });
}

#[test]
fn of_70_000_sources_at_once_each_gets_its_limit() {
    const SOURCES: u32 = 70_000;
    isolated(|| {
        let link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1/h, burst: 2}"]));
        let (raw, wiretap) = (Raw::new(&link), Wiretap::new(SERVER));
        let mut received: HashMap<Ipv4Addr, u32> = HashMap::new();
        let mut take =
            || wiretap.sources().into_iter().for_each(|source| *received.entry(source).or_default() += 1);
        let frame = v4(UDP, &PORTS);
        for _ in 0..3 {
            for source in 0..SOURCES {
                raw.send(&from(frame.clone(), (0x0b00_0000 + source * 7).to_be_bytes()));
                if source % 5_000 == 0 {
                    take();
                }
            }
        }
        let all = u64::from(SOURCES);
        let status = judged(3 * all);
        take();
        assert_eq!(rule(&status, "every"), (2 * all, all));
        assert_eq!(status.table.live_evictions, 0);
        assert_eq!(received.len() as u64, all);
        assert!(received.values().all(|&count| count == 2));
    });
}
