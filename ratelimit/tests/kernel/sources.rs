//! Limits by source on traffic of every kind, and on very many sources at once.

use std::{collections::HashMap, net::Ipv4Addr};

use crate::{
    daemon::{Daemon, config, judged, reason, rule, run, status},
    frames::{self, Raw},
    guest,
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
        (
            "fragments of IPv6",
            [&[FIRST], &[LATER], &[ATOMIC]].map(|chain| v6(5, packets::v6(chain, UDP, &PORTS))).into(),
        ),
        (
            "headers of IPv6",
            [UDP, TCP, ESP, SCTP, 59].map(|next| v6(6, packets::v6(&[AUTHENTICATION], next, &PORTS))).into(),
        ),
        ("a payload of no bytes", vec![v6(7, changed(packets::v6(&[], UDP, &PORTS), 18, &[0, 0]))]),
        ("a jumbogram", vec![v6(8, changed(packets::v6(&[JUMBO], UDP, &PORTS), 18, &[0, 0]))]),
        ("what routers change", what_routers_change(v4(8, packets::v4(UDP, &PORTS)))),
        ("lengths that are not true", lengths(v4(9, packets::v4(UDP, &PORTS)))),
        ("packets cut short", cut(&v4(10, packets::v4(TCP, &tcp(SYN))), 34)),
        ("packets of IPv6 cut short", cut(&v6(9, packets::v6(&[], TCP, &tcp(SYN))), 54)),
        (
            "packets in packets",
            [4, 41, 47, 50, 51, 115]
                .map(|inner| v4(11, packets::v4(inner, &packets::v4(UDP, &PORTS)[14..])))
                .into(),
        ),
        (
            "transports",
            [0, 1, 2, 6, 17, 33, 132, 136, 255].map(|number| v4(12, packets::v4(number, &PORTS))).into(),
        ),
        ("tags without an id", vec![tagged(&udp(13), 0), service_tagged(&tagged(&udp(13), 0), 0), udp(13)]),
        ("long frames", vec![padded(udp(14), 1_514), udp(14), v4(14, packets::v4(UDP, &[1; 1_400]))]),
        ("an extension header without end", vec![v6(4, packets::v6(&[TOO_LONG], UDP, &PORTS))]),
        ("addresses of one /64", (0..60).map(in_64).collect()),
    ]
}

/// The frame with other bytes from a place on.
fn changed(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

/// The frame, and its beginnings from so many bytes on.
fn cut(frame: &[u8], least: usize) -> Vec<Vec<u8>> {
    (least..=frame.len()).map(|length| frame[..length].to_vec()).collect()
}

/// An IPv4 packet of other kinds of service, names, flags, hops, destinations and ports, and to other neighbours.
fn what_routers_change(frame: Vec<u8>) -> Vec<Vec<u8>> {
    let changes: [(usize, &[u8]); 9] = [
        (0, &[0xff; 6]),
        (6, &[2, 0, 0, 0, 0, 9]),
        (15, &[0xb8]),
        (18, &[7, 7]),
        (20, &[0x40, 0]),
        (20, &[0x80, 0]),
        (22, &[1]),
        (30, &[10, 9, 9, 9]),
        (34, &[0, 53, 0, 53]),
    ];
    changes.map(|(at, bytes)| changed(frame.clone(), at, bytes)).into()
}

/// An IPv4 packet that says other lengths of its header and of itself than it has.
fn lengths(frame: Vec<u8>) -> Vec<Vec<u8>> {
    let headers = (0..16).map(|words| changed(frame.clone(), 14, &[0x40 | words]));
    let totals =
        [0_u16, 1, 19, 20, 24, 9_000, u16::MAX].map(|total| changed(frame.clone(), 16, &total.to_be_bytes()));
    headers.chain(totals).collect()
}

/// Rules that let everything pass beside the one that counts: each has all packets judged on another path.
const BESIDE: [&str; 7] = [
    "",
    "{name: four, match: {ip_version: 4}, rate: 1M/s, action: observe}",
    "{name: port, match: {destination_port: 8192}, rate: 1M/s, action: observe}",
    "{name: to, key: destination, rate: 1M/s}",
    "{name: syn, match: {tcp_flags: [syn]}, rate: 1M/s}",
    "{name: but, except: {source: 192.0.2.1}, rate: 1M/s}",
    "{name: two, key: {source: {ipv4: {32: 1, 8: 9}, ipv6: {64: 1, 16: 9}}}, rate: 1M/s}",
];

/// The rule that counts, and one beside it.
fn rules(beside: &str) -> Vec<&str> {
    ["{name: every, rate: 1/h, burst: 3}", beside].into_iter().filter(|rule| !rule.is_empty()).collect()
}

#[test]
fn a_reload_that_puts_packets_on_another_path_gives_no_source_a_new_bucket() {
    isolated(|| {
        let link = Link::silent();
        let raw = Raw::new(&link);
        let _daemon = Daemon::start(&config(&[], &rules("")));
        let frames =
            [v4(UDP, &PORTS), v4(ICMP, &message(8)), v6(&[], UDP, &PORTS), v6(&[DESTINATION], UDP, &PORTS)];
        for (turn, beside) in (1..).zip(BESIDE) {
            config(&[], &rules(beside));
            run(&["reload"]);
            frames.iter().for_each(|frame| raw.send(frame));
            // Two sources, of which each sends twice a turn.
            let passed = (4 * turn).min(2 * BURST);
            assert_eq!(rule(&judged(4 * turn), "every"), (passed, 4 * turn - passed), "beside {beside}");
        }
    });
}

#[test]
fn packets_of_every_kind_obey_a_limit_by_source() {
    isolated(|| {
        let link = Link::silent();
        let raw = Raw::new(&link);
        // An emulated processor takes half a minute for each.
        for beside in BESIDE.into_iter().step_by(if guest::is_guest() { 3 } else { 1 }) {
            let daemon = Daemon::start(&config(&[], &rules(beside)));
            let mut passed = 0;
            for (sent, (kind, frames)) in (1..).zip(kinds()) {
                frames.iter().cycle().take(TIMES as usize).for_each(|frame| raw.send(frame));
                passed += BURST;
                let expected = (passed, sent * TIMES - passed);
                assert_eq!(rule(&judged(sent * TIMES), "every"), expected, "{kind}, beside {beside}");
            }
            drop(daemon);
            run(&["detach"]);
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
            run(&["detach"]);
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
