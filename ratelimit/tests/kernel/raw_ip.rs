//! Interfaces without Ethernet headers: TUN devices and tunnels.

use std::fs;

use nix::sys::signal::Signal;

use crate::{
    daemon::{Daemon, command, config, config_for, judged, output, reason, rule, run, status, text},
    frames::{self, Raw},
    leftovers::{PINS, assert_no_files, in_kernel},
    net::{Link, SERVER, ip, isolated},
    packets::{self, V4, V6},
    tun::Tun,
    wait,
};

const FIVE: &str = "{name: every, rate: 1/h, burst: 5}";

/// The IP packet in a frame.
fn without_ethernet(frame: Vec<u8>) -> Vec<u8> {
    frame.get(14..).unwrap().to_vec()
}

fn packet() -> Vec<u8> {
    without_ethernet(frames::udp(V4.into()))
}

#[test]
fn packets_on_a_tun_device_are_limited_by_their_source() {
    isolated(|| {
        let tun = Tun::new("tun0");
        let _daemon = Daemon::start(&config_for("[tun0]", &[FIVE]));
        let sources = [packet(), without_ethernet(packets::from(frames::udp(V4.into()), [8, 0, 69, 1]))];
        for packet in &sources {
            (0..40).for_each(|_| tun.send(packet));
        }
        let six = without_ethernet(frames::udp(V6.into()));
        (0..40).for_each(|_| tun.send(&six));
        let status = judged(120);
        assert_eq!(rule(&status, "every"), (15, 105));
        let bytes = 10 * sources[0].len() + 5 * six.len();
        assert_eq!(reason(&status, "passed").bytes, bytes as u64, "those of IP packets alone");
    });
}

#[test]
fn what_a_router_sends_on_into_a_tunnel_is_no_neighbour_discovery() {
    isolated(|| {
        let tun = Tun::new("tun0");
        ip("addr add fd02::1/64 dev tun0 nodad");
        fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        let _daemon = Daemon::start(&config_for("[tun0]", &[FIVE]));
        let solicitation = [&[135, 0, 0, 0][..], &[0; 20]].concat();
        let packet = without_ethernet(frames::ipv6(V6, frames::ICMPV6, 255, &solicitation));
        for destination in ["fe80::7", "fd02::7", "fd02::1", "ff02::1"] {
            let destination: std::net::Ipv6Addr = destination.parse().unwrap();
            let packet = [&packet[..24], &destination.octets(), &packet[40..]].concat();
            (0..20).for_each(|_| tun.send(&packet));
        }
        let status = judged(80);
        assert_eq!(reason(&status, "neighbour_discovery").packets, 40);
        assert_eq!(rule(&status, "every"), (5, 35));
    });
}

#[test]
fn rules_ask_for_all_of_a_packet_without_an_ethernet_header() {
    isolated(|| {
        let tun = Tun::new("tun0");
        let rules = [
            "{name: dns, rate: 1/h, burst: 3, match: {protocol: udp, destination_port: [8192]}}",
            "{name: syn, rate: 1/h, burst: 4, match: {protocol: tcp, tcp_flags: [syn]}, key: flow}",
            "{name: short, rate: 1/h, burst: 2, match: {length: 20-35}}",
        ];
        let _daemon = Daemon::start(&config_for("[tun0]", &rules));
        for _ in 0..10 {
            tun.send(&packet());
            tun.send(&without_ethernet(packets::v4(packets::TCP, &packets::tcp(packets::SYN))));
            tun.send(&without_ethernet(packets::v6(&[packets::ROUTING], packets::UDP, &packets::PORTS)));
            tun.send(&without_ethernet(packets::v4(packets::ICMP, &packets::message(8))));
        }
        let status = judged(40);
        assert_eq!(rule(&status, "dns"), (6, 14));
        assert_eq!(rule(&status, "syn"), (4, 6));
        assert_eq!(rule(&status, "short"), (2, 8));
    });
}

#[test]
fn a_tun_device_and_a_wire_share_buckets_lists_and_bans() {
    isolated(|| {
        let link = Link::silent();
        let tun = Tun::new("tun0");
        let raw = Raw::new(&link);
        let denied = "deny: [192.0.2.0/24]";
        let path = config(&[denied], &[FIVE]);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(&format!("[{SERVER}]"), "[server0, {name: tun0}]")).unwrap();
        let daemon = Daemon::start(&path);
        assert!(!fs::exists(format!("{PINS}/default/v2/GENERATION")).unwrap());
        for _ in 0..20 {
            raw.send(&frames::udp(V4.into()));
            tun.send(&packet());
        }
        assert_eq!(rule(&judged(40), "every"), (5, 35));
        let listed = packets::from(frames::udp(V4.into()), [192, 0, 2, 7]);
        raw.send(&listed);
        tun.send(&without_ethernet(listed));
        assert_eq!(reason(&judged(42), "denied").packets, 2);
        run(&["ban", "10.1.0.2"]);
        raw.send(&frames::udp(V4.into()));
        tun.send(&packet());
        assert_eq!(reason(&judged(44), "banned").packets, 2);
        run(&["unban", "10.1.0.2"]);
        // A reload gives each its own program again, and a daemon that comes after one that was killed does.
        run(&["reload"]);
        raw.send(&frames::udp(V4.into()));
        tun.send(&packet());
        assert_eq!(rule(&judged(46), "every"), (5, 37));
        daemon.kill();
        raw.send(&frames::udp(V4.into()));
        tun.send(&packet());
        assert_eq!(rule(&judged(48), "every"), (5, 39));
        let daemon = Daemon::start(&path);
        raw.send(&frames::udp(V4.into()));
        tun.send(&packet());
        assert_eq!(rule(&judged(50), "every"), (5, 41));
        daemon.signal(Signal::SIGTERM);
        assert_eq!(daemon.end().code(), Some(0));
        assert_no_files();
    });
}

#[test]
fn an_interface_of_another_kind_under_the_same_name_gets_its_program() {
    isolated(|| {
        let link = Link::silent();
        let tun = Tun::new("some0");
        let mut daemon = Daemon::start(&config_for("[some0]", &[FIVE]));
        (0..10).for_each(|_| tun.send(&packet()));
        assert_eq!(rule(&judged(10), "every"), (5, 5));
        drop(tun);
        daemon.wait_for("gone");
        link.add_wire(("some0", "02:00:00:00:00:11"), ("some1", "02:00:00:00:00:12"));
        wait::until("it is attached again", || (status().interfaces.len() == 1).then_some(()));
        let raw = Raw::on(&link, "some1");
        (0..10).for_each(|_| raw.send(&frames::udp(V4.into())));
        assert_eq!(rule(&judged(20), "every"), (5, 15));
        ip("link del some0");
        daemon.wait_for("gone");
        let tun = Tun::new("some0");
        wait::until("it is attached again", || (status().interfaces.len() == 1).then_some(()));
        (0..10).for_each(|_| tun.send(&packet()));
        assert_eq!(rule(&judged(30), "every"), (5, 25));
    });
}

/// CAN, as `if_arp.h` has it.
const CAN: u16 = 280;

#[test]
fn an_interface_that_cannot_be_read_is_refused_by_name() {
    isolated(|| {
        let tun = Tun::down("odd0");
        tun.set_type(CAN);
        let refused = output(command(&["run", "--config"]).arg(config_for("[odd0]", &[FIVE])));
        let (_, said) = text(&refused);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("odd0 is a CAN interface (link type 280)"), "{said}");
        assert!(said.contains("leave odd0 out"), "{said}");
        assert_no_files();
        // Beside others it is refused as well, and they keep what they have.
        let link = Link::silent();
        let _daemon = Daemon::start(&config_for("[server0]", &[FIVE]));
        let before = in_kernel();
        config_for("[odd0, server0]", &[FIVE]);
        let refused = output(&mut command(&["reload"]));
        assert!(text(&refused).1.contains("odd0 is a CAN interface"), "{:?}", text(&refused));
        assert_eq!(in_kernel(), before);
        let raw = Raw::new(&link);
        (0..10).for_each(|_| raw.send(&frames::udp(V4.into())));
        assert_eq!(rule(&judged(10), "every"), (5, 5));
    });
}

#[test]
fn a_reload_that_one_interface_refuses_changes_none_of_either_kind() {
    isolated(|| {
        let link = Link::silent();
        let tun = Tun::new("tun0");
        let _daemon = Daemon::start(&config_for("[server0, tun0]", &[FIVE]));
        // Its driver has no XDP.
        ip("link add vxlan0 type vxlan id 5 dstport 4789");
        config_for("[server0, tun0, {name: vxlan0, mode: native}]", &["{name: every, rate: 1/h, burst: 9}"]);
        let refused = output(&mut command(&["reload"]));
        assert!(!refused.status.success(), "{:?}", text(&refused));
        let raw = Raw::new(&link);
        for _ in 0..10 {
            raw.send(&frames::udp(V4.into()));
            tun.send(&packet());
        }
        assert_eq!(rule(&judged(20), "every"), (5, 15));
    });
}

/// A tunnel over GRE carries packets of any type, VLAN tags too, and the host takes those off that have no id.
#[test]
fn a_tag_without_an_id_hides_no_packet() {
    isolated(|| {
        let tun = Tun::new("tun0");
        let _daemon = Daemon::start(&config_for("[tun0]", &[FIVE]));
        // On a TUN device the first four bits must be those of an IP version.
        let six = without_ethernet(frames::udp(V6.into()));
        for (kind, packet) in [([0x08, 0x00], packet()), ([0x86, 0xdd], six)] {
            for first in [0x40, 0x60] {
                tun.send(&[&[first, 0], &kind[..], &packet].concat());
            }
        }
        assert_eq!(reason(&judged(4), "malformed_dropped").packets, 4);
        // A flow label that looks like a type, and a length that does not look like an IPv4 header.
        let mut labelled = without_ethernet(frames::udp(V6.into()));
        labelled[1..4].copy_from_slice(&[0, 8, 0]);
        tun.send(&labelled);
        assert_eq!(rule(&judged(5), "every"), (1, 0));
    });
}
