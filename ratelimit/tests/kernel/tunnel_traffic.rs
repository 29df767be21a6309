//! Packets that come out of tunnels. A kind of tunnel is tested where the kernel has it: those of the virtual machines
//! do.

use std::{fs, net::Ipv6Addr};

use crate::{
    daemon::{Daemon, config, judged, reason, rule, run},
    frames::{self, Raw},
    net::{Link, SERVER, SERVER_V4, SERVER_V6, ip, isolated},
    packets::{self, V4, V6},
    tunnels::device,
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

/// Forty packets through a tunnel of a kind come out, of each of which five pass.
fn limited(kind: &str, options: &str, frames: &[Vec<u8>], bytes: usize) {
    let link = Link::new(&[PEER_V4, PEER_V6]);
    if device("tunnel0", kind, options) {
        ip("link set tunnel0 up");
        let path = config(&[], &[FIVE]);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(&format!("[{SERVER}]"), "[tunnel0]")).unwrap();
        let daemon = Daemon::start(&path);
        let raw = Raw::new(&link);
        for frame in frames {
            (0..40).for_each(|_| raw.send(frame));
        }
        let count = frames.len() as u64;
        let status = judged(40 * count);
        assert_eq!(rule(&status, "every"), (5 * count, 35 * count), "{kind} {options}");
        assert_eq!(reason(&status, "passed").bytes, 5 * bytes as u64, "{kind} {options}");
        drop(daemon);
        run(&["detach"]);
        ip("link del tunnel0");
    }
    ip(&format!("link del {SERVER}"));
}

fn four() -> Vec<u8> {
    inner(packets::from(frames::udp(V4.into()), [192, 0, 2, 7]))
}

fn six() -> Vec<u8> {
    inner(frames::udp("2001:db8::7".parse().unwrap()))
}

const GRE_IPV4: [u8; 4] = [0, 0, 8, 0];
const GRE_IPV6: [u8; 4] = [0, 0, 0x86, 0xdd];

#[test]
fn packets_out_of_gre_tunnels_are_limited_by_their_own_source() {
    isolated(|| {
        let plain =
            [over_v4(packets::GRE, &gre(&GRE_IPV4, &four())), over_v4(packets::GRE, &gre(&GRE_IPV6, &six()))];
        let both = four().len() + six().len();
        limited("gre", &format!("local {SERVER_V4} remote {PEER_V4}"), &plain, both);
        // Without a remote address the outer headers come first.
        limited("gre", &format!("local {SERVER_V4}"), &plain, both);
        limited("gre", "external", &plain, both);
        let keyed = [0x20, 0, 8, 0, 0, 0, 0, 5];
        let keyed = [over_v4(packets::GRE, &gre(&keyed, &four()))];
        limited("gre", &format!("local {SERVER_V4} key 5"), &keyed, four().len());
        limited("gre", &format!("local {SERVER_V4} remote {PEER_V4} key 5"), &keyed, four().len());
    });
}

#[test]
fn packets_out_of_other_tunnels_are_limited_by_their_own_source() {
    isolated(|| {
        let between = format!("local {SERVER_V4} remote {PEER_V4}");
        let between_v6 = format!("local {SERVER_V6} remote {PEER_V6}");
        limited("ipip", &between, &[over_v4(IPIP, &four())], four().len());
        limited("sit", &between, &[over_v4(IPV6_IN_IP, &six())], six().len());
        let both = [over_v6(IPIP, &four()), over_v6(IPV6_IN_IP, &six())];
        limited("ip6tnl", &format!("mode any {between_v6}"), &both, four().len() + six().len());
        let gre = [over_v6(packets::GRE, &gre(&GRE_IPV4, &four()))];
        limited("ip6gre", &between_v6, &gre, four().len());
        limited("ip6gre", &format!("local {SERVER_V6}"), &gre, four().len());
    });
}

/// The other side says what a GRE packet carries, and the host takes off tags without an id.
#[test]
fn a_tag_in_a_gre_tunnel_hides_no_packet() {
    isolated(|| {
        for options in ["", " remote 10.1.0.2"] {
            let link = Link::new(&[PEER_V4]);
            if !device("tunnel0", "gre", &format!("local {SERVER_V4}{options}")) {
                return;
            }
            ip("link set tunnel0 up");
            let path = config(&[], &[FIVE]);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace(&format!("[{SERVER}]"), "[tunnel0]")).unwrap();
            let daemon = Daemon::start(&path);
            let raw = Raw::new(&link);
            let tagged = [&[0, 0, 0x81, 0, 0, 0, 8, 0][..], &four()].concat();
            (0..10).for_each(|_| raw.send(&over_v4(packets::GRE, &tagged)));
            assert_eq!(reason(&judged(10), "malformed_dropped").packets, 10, "gre{options}");
            drop(daemon);
            run(&["detach"]);
            ip("link del tunnel0");
            ip(&format!("link del {SERVER}"));
        }
    });
}
