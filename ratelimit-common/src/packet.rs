//! What a frame says about itself: the same code in the XDP program and on the host.
//!
//! Ethernet, up to two VLAN tags, IPv4 and IPv6 addresses. Tunnels are not entered. A frame whose addresses can be read
//! is an IP packet, however broken the rest of it is; any other frame is not IP.

use core::{
    mem::offset_of,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use network_types::{
    eth::EthHdr,
    ip::{Ipv4Hdr, Ipv6Hdr},
    vlan::VlanHdr,
};

use crate::verifier::opaque;

/// A frame's bytes, from the Ethernet header on; reads outside give nothing.
pub trait Frame {
    /// The `N` bytes at `offset`, if all of them are inside.
    fn read<const N: usize>(&self, offset: usize) -> Option<&[u8; N]>;
}

impl Frame for [u8] {
    #[inline]
    fn read<const N: usize>(&self, offset: usize) -> Option<&[u8; N]> {
        self.get(offset..)?.first_chunk()
    }
}

/// An IPv4 or IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Address {
    /// The address in its first bits, zeros behind: 32 bits of an IPv4 address.
    pub bits: [u64; 2],
    /// 0 for IPv4, 1 for IPv6.
    pub family: Flag,
}

/// 0 or 1. A number and not a `bool`, because a `bool` comes from a branch, and the kernel's verifier would follow both ways
/// to the end of the program.
pub type Flag = u64;

impl Address {
    /// As the standard library has it.
    #[must_use]
    pub const fn to_ip(self) -> IpAddr {
        if self.family == 0 {
            return IpAddr::V4(Ipv4Addr::from_bits((self.bits[0] >> 32) as u32));
        }
        IpAddr::V6(Ipv6Addr::from_bits((self.bits[0] as u128) << 64 | self.bits[1] as u128))
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self { bits: [u64::from(address.to_bits()) << 32, 0], family: 0 },
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                Self { bits: [(bits >> 64) as u64, bits as u64], family: 1 }
            }
        }
    }
}

/// An IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where it comes from.
    pub source: Address,
    /// Where it goes to.
    pub destination: Address,
    /// 1 if a header contradicts itself or ends before it should.
    pub malformed: Flag,
    /// IPv6 neighbour discovery: ICMPv6 133 to 137 with hop limit 255, directly after the fixed header.
    pub is_neighbour_discovery: bool,
}

/// The frame has no IP addresses that could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotIp;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const CUSTOMER_TAG: u16 = 0x8100;
const SERVICE_TAG: u16 = 0x88a8;
const ICMPV6: u8 = 58;

/// Reads a frame.
///
/// # Errors
/// [`NotIp`] if there are no addresses to judge it by.
#[inline(always)]
pub fn parse<F: Frame + ?Sized>(frame: &F) -> Result<Packet, NotIp> {
    let ethernet: &[u8; EthHdr::LEN] = frame.read(0).ok_or(NotIp)?;
    let (mut kind, mut offset) = (half(ethernet, offset_of!(EthHdr, ether_type)), EthHdr::LEN);
    for _ in 0..2 {
        if kind != CUSTOMER_TAG && kind != SERVICE_TAG {
            break;
        }
        let tag: &[u8; VlanHdr::LEN] = frame.read(offset).ok_or(NotIp)?;
        (kind, offset) = (half(tag, 2), offset + VlanHdr::LEN);
    }
    match kind {
        IPV4 => parse_v4(frame, offset),
        IPV6 => parse_v6(frame, offset),
        _ => Err(NotIp),
    }
}

#[inline(always)]
fn parse_v4<F: Frame + ?Sized>(frame: &F, offset: usize) -> Result<Packet, NotIp> {
    let header: &[u8; Ipv4Hdr::LEN] = frame.read(offset).ok_or(NotIp)?;
    if header[0] >> 4 != 4 {
        return Err(NotIp);
    }
    let length = u64::from(header[0] & 0xf) * 4;
    let total = u64::from(half(header, offset_of!(Ipv4Hdr, tot_len)));
    // A total length of zero is how the kernel marks packets too large for the field.
    let malformed = less(length, Ipv4Hdr::LEN as u64) | (less(total, length) & less(0, total));
    let family = family(header[0]);
    let source = Address { bits: [bits_v4(header, offset_of!(Ipv4Hdr, src_addr)), 0], family };
    let destination = Address { bits: [bits_v4(header, offset_of!(Ipv4Hdr, dst_addr)), 0], family };
    Ok(Packet { source, destination, malformed, is_neighbour_discovery: false })
}

#[inline(always)]
fn parse_v6<F: Frame + ?Sized>(frame: &F, offset: usize) -> Result<Packet, NotIp> {
    let header: &[u8; Ipv6Hdr::LEN] = frame.read(offset).ok_or(NotIp)?;
    if header[0] >> 4 != 6 {
        return Err(NotIp);
    }
    let next = header[offset_of!(Ipv6Hdr, next_hdr)];
    let hop_limit = header[offset_of!(Ipv6Hdr, hop_limit)];
    let is_neighbour_discovery = next == ICMPV6
        && hop_limit == 255
        && frame.read::<1>(offset + Ipv6Hdr::LEN).is_some_and(|kind| (133..=137).contains(&kind[0]));
    let family = family(header[0]);
    let source = Address { bits: bits_v6(header, offset_of!(Ipv6Hdr, src_addr)), family };
    let destination = Address { bits: bits_v6(header, offset_of!(Ipv6Hdr, dst_addr)), family };
    Ok(Packet { source, destination, malformed: 0, is_neighbour_discovery })
}

/// From the version in the high four bits, which is 4 or 6.
#[inline(always)]
fn family(version: u8) -> Flag {
    opaque(u64::from(version)) >> 5 & 1
}

/// 1 if `a < b`, else 0; both below 2^63.
#[inline(always)]
fn less(a: u64, b: u64) -> Flag {
    opaque(a.wrapping_sub(b)) >> 63
}

/// Two bytes of a header in network byte order.
#[inline(always)]
const fn half<const N: usize>(header: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

#[inline(always)]
fn bits_v4<const N: usize>(header: &[u8; N], at: usize) -> u64 {
    u64::from(u32::from_be_bytes(part(header, at))) << 32
}

#[inline(always)]
fn bits_v6<const N: usize>(header: &[u8; N], at: usize) -> [u64; 2] {
    [u64::from_be_bytes(part(header, at)), u64::from_be_bytes(part(header, at + 8))]
}

#[inline(always)]
fn part<const N: usize, const M: usize>(header: &[u8; N], at: usize) -> [u8; M] {
    core::array::from_fn(|index| header[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: &[u8], rest: &[u8]) -> Vec<u8> {
        [&[0; 12], kind, rest].concat()
    }

    fn ipv4(first: u8, total: u16) -> Vec<u8> {
        let mut header = [0; 20];
        header[0] = first;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[12..16].copy_from_slice(&[192, 0, 2, 1]);
        header[16..20].copy_from_slice(&[198, 51, 100, 2]);
        header.to_vec()
    }

    fn ipv6(next: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = [0; 40];
        (header[0], header[6], header[7], header[23], header[39]) = (0x60, next, hop_limit, 1, 2);
        [&header, payload].concat()
    }

    fn addresses(packet: &Packet) -> (String, String) {
        (packet.source.to_ip().to_string(), packet.destination.to_ip().to_string())
    }

    fn expected() -> (String, String) {
        ("192.0.2.1".to_owned(), "198.51.100.2".to_owned())
    }

    #[test]
    fn ipv4_behind_up_to_two_tags() {
        for tags in [&[][..], &[0x81, 0, 0xe0, 7], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2]] {
            let bytes = frame(tags, &[&[8, 0][..], &ipv4(0x45, 20)].concat());
            let packet = parse(&bytes[..]).unwrap();
            assert_eq!((addresses(&packet), packet.malformed), (expected(), 0), "{tags:?}");
        }
        let three = [0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3];
        assert_eq!(parse(&frame(&three, &[&[8, 0][..], &ipv4(0x45, 20)].concat())[..]), Err(NotIp));
    }

    #[test]
    fn broken_ipv4_headers_still_have_addresses() {
        for (first, total, malformed) in [
            (0x45, 20, false),
            (0x4f, 60, false),
            (0x45, 0, false),
            (0x44, 20, true),
            (0x40, 20, true),
            (0x46, 20, true),
        ] {
            let packet = parse(&frame(&[8, 0], &ipv4(first, total))[..]).unwrap();
            assert_eq!(
                (addresses(&packet), packet.malformed != 0),
                (expected(), malformed),
                "{first:#x} {total}"
            );
        }
    }

    #[test]
    fn what_has_no_addresses_is_not_ip() {
        let whole = frame(&[8, 0], &ipv4(0x45, 20));
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), Err(NotIp), "{length}");
        }
        let whole = frame(&[0x86, 0xdd], &ipv6(17, 64, &[]));
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), Err(NotIp), "{length}");
        }
        for (kind, rest) in
            [([8, 6], ipv4(0x45, 20)), ([8, 0], ipv4(0x65, 20)), ([0x86, 0xdd], ipv4(0x45, 20))]
        {
            assert_eq!(parse(&frame(&kind, &rest)[..]), Err(NotIp), "{kind:?}");
        }
    }

    #[test]
    fn neighbour_discovery_is_told_apart() {
        for (next, hop_limit, payload, expected) in [
            (58, 255, &[135][..], true),
            (58, 255, &[133], true),
            (58, 255, &[137], true),
            (58, 255, &[128], false),
            (58, 255, &[138], false),
            (58, 64, &[135], false),
            (17, 255, &[135], false),
            (58, 255, &[], false),
        ] {
            let packet = parse(&frame(&[0x86, 0xdd], &ipv6(next, hop_limit, payload))[..]).unwrap();
            assert_eq!(packet.is_neighbour_discovery, expected, "{next} {hop_limit} {payload:?}");
            assert_eq!(addresses(&packet), ("::1".to_owned(), "::2".to_owned()));
        }
    }
}
