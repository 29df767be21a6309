//! Packets that come out of tunnels. A kind of tunnel is tested where the kernel has it: those of the virtual machines
//! do.

use std::net::{IpAddr, Ipv6Addr};

use crate::{
    daemon::{Daemon, config_for, judged, reason, rule, status},
    frames::{self, Raw},
    net::{Link, SERVER_V4, SERVER_V6, ip, isolated},
    packets::{self, V6},
    tunnels::device,
    wait,
};

const FIVE: &str = "{name: every, rate: 1/h, burst: 5}";
const IPIP: u8 = 4;
const IPV6_IN_IP: u8 = 41;

/// The other end of the tunnels.
const PEER_V4: &str = "10.1.0.2";
const PEER_V6: &str = "fd00:0:0:1::2";

/// The packet of a frame, without its Ethernet header.
fn inner(frame: Vec<u8>) -> Vec<u8> {
    frame.get(14..).unwrap().to_vec()
}

/// An IPv4 packet from the peer to the server.
fn over_v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = packets::v4(protocol, payload);
    checksum(frame.get_mut(14..34).unwrap());
    frame
}

/// Writes an IPv4 header's checksum, without which the kernel takes no packet.
fn checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// An IPv6 packet from the peer to the server.
fn over_v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = frames::ipv6(V6, next, 64, payload);
    frame[38..54].copy_from_slice(&SERVER_V6.parse::<Ipv6Addr>().unwrap().octets());
    frame
}

fn gre(header: &[u8], packet: &[u8]) -> Vec<u8> {
    [header, packet].concat()
}

/// A daemon that limits `tunnel0`, whatever kind of device that is, and who sends to it. A start for each kind would
/// take most of the time.
struct Tunnels {
    daemon: Option<Daemon>,
    raw: Raw,
    _link: Link,
}

impl Tunnels {
    fn new() -> Self {
        let link = Link::new(&[PEER_V4, PEER_V6]);
        Self { daemon: None, raw: Raw::new(&link), _link: link }
    }

    /// Does something with a tunnel of a kind, if this kernel has that.
    fn with(&mut self, kind: &str, options: &str, what: impl FnOnce(&Raw)) {
        if !device("tunnel0", kind, options) {
            return;
        }
        ip("link set tunnel0 up");
        self.daemon.get_or_insert_with(|| Daemon::start(&config_for("[tunnel0]", &[FIVE])));
        wait::until("it is limited", || (status().interfaces.len() == 1).then_some(()));
        what(&self.raw);
        ip("link del tunnel0");
        wait::until("it is forgotten", || status().interfaces.is_empty().then_some(()));
    }
}

/// What a tunnel carries: packets with these inside, and the lengths of what comes out.
type Carried = fn(v4: &[u8], v6: &[u8]) -> Vec<(Vec<u8>, usize)>;

/// Forty packets of each source come out of a tunnel, of which five pass.
fn limited(tunnels: &[(&str, String, Carried)]) {
    let (mut all, mut passed, mut bytes) = (0, 0, 0);
    let mut limited = Tunnels::new();
    for (number, (kind, options, carried)) in (1..).zip(tunnels) {
        // Nobody sends through two of them.
        let sources: [IpAddr; 2] =
            [[192, 0, 2, number].into(), Ipv6Addr::new(0x2001, 0xdb8, 0, number.into(), 0, 0, 0, 7).into()];
        let [v4, v6] = sources.map(|source| inner(frames::udp(source)));
        limited.with(kind, options, |raw| {
            for (packet, length) in carried(&v4, &v6) {
                (0..40).for_each(|_| raw.send(&packet));
                (all, passed, bytes) = (all + 40, passed + 5, bytes + 5 * length as u64);
            }
            let status = judged(all);
            assert_eq!(rule(&status, "every"), (passed, all - passed), "{kind} {options}");
            assert_eq!(reason(&status, "passed").bytes, bytes, "{kind} {options}");
        });
    }
}

const GRE_IPV4: [u8; 4] = [0, 0, 8, 0];
const GRE_IPV6: [u8; 4] = [0, 0, 0x86, 0xdd];

fn over_gre(v4: &[u8], v6: &[u8]) -> Vec<(Vec<u8>, usize)> {
    let over = |header: &[u8], packet: &[u8]| (over_v4(packets::GRE, &gre(header, packet)), packet.len());
    vec![over(&GRE_IPV4, v4), over(&GRE_IPV6, v6)]
}

fn over_keyed_gre(v4: &[u8], _: &[u8]) -> Vec<(Vec<u8>, usize)> {
    vec![(over_v4(packets::GRE, &gre(&[0x20, 0, 8, 0, 0, 0, 0, 5], v4)), v4.len())]
}

#[test]
fn packets_out_of_gre_tunnels_are_limited_by_their_own_source() {
    isolated(|| {
        limited(&[
            ("gre", format!("local {SERVER_V4} remote {PEER_V4}"), over_gre),
            // Without a remote address the outer headers come first.
            ("gre", format!("local {SERVER_V4}"), over_gre),
            ("gre", "external".to_owned(), over_gre),
            ("gre", format!("local {SERVER_V4} key 5"), over_keyed_gre),
            ("gre", format!("local {SERVER_V4} remote {PEER_V4} key 5"), over_keyed_gre),
        ]);
    });
}

#[test]
fn packets_out_of_other_tunnels_are_limited_by_their_own_source() {
    isolated(|| {
        let between = format!("local {SERVER_V4} remote {PEER_V4}");
        let between_v6 = format!("local {SERVER_V6} remote {PEER_V6}");
        let over_ip6gre: Carried = |v4, _| vec![(over_v6(packets::GRE, &gre(&GRE_IPV4, v4)), v4.len())];
        limited(&[
            ("ipip", between.clone(), |v4, _| vec![(over_v4(IPIP, v4), v4.len())]),
            ("ip6tnl", format!("mode any {between_v6}"), |v4, v6| {
                vec![(over_v6(IPIP, v4), v4.len()), (over_v6(IPV6_IN_IP, v6), v6.len())]
            }),
            ("ip6gre", between_v6, over_ip6gre),
            ("ip6gre", format!("local {SERVER_V6}"), over_ip6gre),
            ("sit", between, |_, v6| vec![(over_v4(IPV6_IN_IP, v6), v6.len())]),
        ]);
    });
}

/// The other side says what a GRE packet carries, and the host takes off tags without an id.
#[test]
fn a_tag_in_a_gre_tunnel_hides_no_packet() {
    isolated(|| {
        let (mut tunnels, mut dropped) = (Tunnels::new(), 0);
        let packet = inner(frames::udp([192, 0, 2, 7].into()));
        let tagged = [&[0, 0, 0x81, 0, 0, 0, 8, 0][..], &packet].concat();
        for options in ["", " remote 10.1.0.2"] {
            tunnels.with("gre", &format!("local {SERVER_V4}{options}"), |raw| {
                (0..10).for_each(|_| raw.send(&over_v4(packets::GRE, &tagged)));
                dropped += 10;
                let status = judged(dropped);
                assert_eq!(reason(&status, "malformed_dropped").packets, dropped, "gre{options}");
            });
        }
    });
}
