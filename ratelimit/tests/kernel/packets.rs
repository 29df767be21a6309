//! Packets of every kind: transports, fragments, options, chains of extension headers, tags.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::frames;

/// Where they come from, unless it is changed.
pub const V4: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
pub const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 2);

pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = frames::UDP;
pub const GRE: u8 = 47;
pub const ESP: u8 = 50;
pub const ICMPV6: u8 = frames::ICMPV6;
pub const SCTP: u8 = 132;

pub const SYN: u8 = 0x02;
pub const ACK: u8 = 0x10;

/// Ports 4096 and 8192, as UDP, SCTP and others begin.
pub const PORTS: [u8; 16] = [0x10, 0, 0x20, 0, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

/// The same ports in a TCP header with these flags.
pub fn tcp(flags: u8) -> Vec<u8> {
    [&PORTS[..4], &[0; 8], &[0x50, flags], &[0; 6]].concat()
}

/// A message that begins with this type.
pub fn message(kind: u8) -> Vec<u8> {
    vec![kind, 0, 0, 0, 0, 1, 0, 1]
}

pub fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = frames::ipv4(V4, 5, payload);
    frame[23] = protocol;
    frame
}

/// With a header of so many words; what is more than five are options that do nothing.
pub fn v4_with_options(words: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let options = vec![1; (usize::from(words) - 5) * 4];
    let mut frame = v4(protocol, &[&options, payload].concat());
    frame[14] = 0x40 | words;
    frame
}

/// A fragment of an IPv4 packet: where it lies in eights of bytes, and whether more come.
pub fn fragment(mut frame: Vec<u8>, position: u16, more: bool) -> Vec<u8> {
    frame[20..22].copy_from_slice(&(position | u16::from(more) << 13).to_be_bytes());
    frame
}

/// An extension header: its number, and itself without the next one's number.
pub type Extension<'b> = (u8, &'b [u8]);

pub const HOP_BY_HOP: Extension<'_> = (0, &[0, 1, 4, 0, 0, 0, 0]);
pub const ROUTING: Extension<'_> = (43, &[0, 4, 0, 0, 0, 0, 0]);
pub const DESTINATION: Extension<'_> = (60, &[0, 1, 4, 0, 0, 0, 0]);
pub const FIRST: Extension<'_> = (44, &[0, 0, 1, 0, 0, 0, 7]);
/// A whole packet that says that it is a fragment.
pub const ATOMIC: Extension<'_> = (44, &[0, 0, 0, 0, 0, 0, 7]);
pub const LATER: Extension<'_> = (44, &[0, 0, 8, 0, 0, 0, 7]);
/// Its length is in words of four bytes, less two.
pub const AUTHENTICATION: Extension<'_> =
    (51, &[4, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
/// With the option that has the length of a packet that is too long for its header.
pub const JUMBO: Extension<'_> = (0, &[0, 0xc2, 4, 0, 1, 0, 0]);
/// It says 2,048 bytes and has eight.
pub const TOO_LONG: Extension<'_> = (0, &[255, 1, 4, 0, 0, 0, 0]);

/// An IPv6 packet with a chain of extension headers.
pub fn v6(chain: &[Extension<'_>], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (mut next, mut packet) = (protocol, payload.to_vec());
    for &(number, rest) in chain.iter().rev() {
        packet = [&[next], rest, &packet].concat();
        next = number;
    }
    frames::ipv6(V6, next, 64, &packet)
}

/// Puts a tag of 802.1Q, outside of those that there are. `control` is priority, drop bit and id.
pub fn tagged(frame: &[u8], control: u16) -> Vec<u8> {
    [&frame[..12], &[0x81, 0], &control.to_be_bytes(), &frame[12..]].concat()
}

/// Puts the outer tag of 802.1ad.
pub fn service_tagged(frame: &[u8], control: u16) -> Vec<u8> {
    [&frame[..12], &[0x88, 0xa8], &control.to_be_bytes(), &frame[12..]].concat()
}

/// The same IPv4 packet from another source.
pub fn from(mut frame: Vec<u8>, source: [u8; 4]) -> Vec<u8> {
    frame[26..30].copy_from_slice(&source);
    frame
}

/// The same IPv4 packet to another destination.
pub fn to(mut frame: Vec<u8>, destination: [u8; 4]) -> Vec<u8> {
    frame[30..34].copy_from_slice(&destination);
    frame
}

/// The same packet in a frame of so many bytes. What is behind the packet's end is padding.
pub fn padded(mut frame: Vec<u8>, length: usize) -> Vec<u8> {
    assert!(frame.len() <= length);
    frame.resize(length, 0);
    frame
}
