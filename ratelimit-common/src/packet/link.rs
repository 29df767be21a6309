//! Where the IP packet begins in what an interface hands over: behind an Ethernet header, at once, or behind the
//! headers of a GRE tunnel.

use core::mem::offset_of;

use network_types::{eth::EthHdr, ip::Ipv4Hdr, vlan::VlanHdr};

use super::{Flag, Frame, IPV4, IPV6, less, number};
use crate::verifier::be16;

/// What the packets of an interface begin with. The numbers are those of [`crate::wire::Globals::link`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum LinkLayer {
    /// An Ethernet header.
    #[default]
    Ethernet = 0,
    /// The IP header.
    RawIp = 1,
    /// The outer IPv4 header and the GRE header: on GRE interfaces without a remote address.
    OuterGre = 2,
}

impl LinkLayer {
    /// The one with a number; Ethernet if there is none.
    #[must_use]
    #[inline(always)]
    pub const fn of(number: u32) -> Self {
        match number {
            1 => Self::RawIp,
            2 => Self::OuterGre,
            _ => Self::Ethernet,
        }
    }
}

/// Bytes as an interface of this kind hands them over.
#[derive(Clone, Copy, Debug)]
pub struct Linked<'b>(pub LinkLayer, pub &'b [u8]);

impl Frame for Linked<'_> {
    #[inline]
    fn read<const N: usize>(&self, offset: usize) -> Option<&[u8; N]> {
        self.1.read(offset)
    }

    #[inline]
    fn length(&self) -> u64 {
        self.1.length()
    }

    #[inline]
    fn read_far<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.1.read_far(offset)
    }

    #[inline]
    fn link(&self) -> LinkLayer {
        self.0
    }
}

/// The type of the packet, as in an Ethernet header, and where it begins. Notes the ids of its tags, if anybody asks.
///
/// # Errors
/// There is no such packet: whether the frame hides one, as [`super::NotIp::hides`].
#[inline(always)]
pub fn read_link<F: Frame + ?Sized>(frame: &F, vlans: &mut [u32; 2]) -> Result<(u16, usize), Flag> {
    match frame.link() {
        LinkLayer::Ethernet => ethernet(frame, vlans),
        LinkLayer::RawIp => raw(frame, 0),
        LinkLayer::OuterGre => raw(frame, gre(frame)),
    }
}

#[inline(always)]
fn ethernet<F: Frame + ?Sized>(frame: &F, vlans: &mut [u32; 2]) -> Result<(u16, usize), Flag> {
    let Some(header) = frame.read::<{ EthHdr::LEN }>(0) else { return Err(0) };
    let (mut kind, mut offset) = (be16::<{ offset_of!(EthHdr, ether_type) }, _>(header), EthHdr::LEN);
    let mut empty = 0;
    for vlan in vlans {
        if !is_tag(kind) {
            break;
        }
        let Some(tag) = frame.read::<{ VlanHdr::LEN }>(offset) else { return Err(0) };
        let id = vlan_id(tag);
        empty |= less(id, 1);
        if F::IS_READ_WHOLE {
            *vlan = id as u32;
        }
        (kind, offset) = (be16::<2, _>(tag), offset + VlanHdr::LEN);
    }
    if is_tag(kind) {
        let third = frame.read::<{ VlanHdr::LEN }>(offset).map_or(1, vlan_id);
        return Err(empty | less(third, 1));
    }
    Ok((kind, offset))
}

#[inline(always)]
const fn is_tag(kind: u16) -> bool {
    kind == CUSTOMER_TAG || kind == SERVICE_TAG
}

/// The id of a tag without its priority.
#[inline(always)]
fn vlan_id(tag: &[u8; VlanHdr::LEN]) -> u64 {
    u64::from(be16::<0, _>(tag)) & 0xfff
}

/// How many bytes lie before the packet that are not counted as its own: those of an outer tunnel, all if it is cut off
/// there.
#[inline(always)]
pub fn outer_length<F: Frame + ?Sized>(frame: &F) -> u64 {
    match frame.link() {
        LinkLayer::OuterGre => (gre(frame) as u64).min(frame.length()),
        LinkLayer::Ethernet | LinkLayer::RawIp => 0,
    }
}

/// A packet without anything before it: its version says which.
#[inline(always)]
fn raw<F: Frame + ?Sized>(frame: &F, offset: usize) -> Result<(u16, usize), Flag> {
    let Some(start) = frame.read::<{ TAG_AND_TYPE + 2 }>(offset) else { return Err(0) };
    if is_hidden(start) {
        return Err(1);
    }
    match start[0] >> 4 {
        4 => Ok((IPV4, offset)),
        6 => Ok((IPV6, offset)),
        _ => Err(0),
    }
}

const CUSTOMER_TAG: u16 = 0x8100;
const SERVICE_TAG: u16 = 0x88a8;

/// A VLAN tag, and the type of what is behind it.
const TAG_AND_TYPE: usize = 4;

/// Whether a VLAN tag without an id lies before the packet. A GRE tunnel takes any type of packet from the other side,
/// and the host takes such tags off, so they would hide the packet. An IPv6 header can look like one, but not together
/// with what follows, unless it says that it has more than 16,000 bytes and a certain flow label.
#[inline(always)]
fn is_hidden(start: &[u8; TAG_AND_TYPE + 2]) -> bool {
    if be16::<0, _>(start) & 0xfff != 0 {
        return false;
    }
    match be16::<2, _>(start) {
        IPV4 => start[TAG_AND_TYPE] >> 4 == 4,
        IPV6 => start[TAG_AND_TYPE] >> 4 == 6,
        kind => is_tag(kind) && be16::<TAG_AND_TYPE, _>(start) & 0xfff == 0,
    }
}

/// Where the packet begins that a GRE tunnel carries.
#[inline(always)]
fn gre<F: Frame + ?Sized>(frame: &F) -> usize {
    let Some(outer) = frame.read::<{ Ipv4Hdr::LEN }>(0) else { return 0 };
    if outer[0] >> 4 != 4 || u32::from(outer[offset_of!(Ipv4Hdr, proto)]) != number::GRE {
        return 0;
    }
    let at = usize::from(outer[0] & 0xf) * 4;
    let Some(header) = frame.read::<GRE_LENGTH>(at) else { return 0 };
    let flags = usize::from(header[0]);
    // Checksum, key and sequence number, if they are there.
    let options = (flags >> 7) + (flags >> 5 & 1) + (flags >> 4 & 1);
    let inner = at + GRE_LENGTH + options * 4;
    // The host takes these for IPv4, and for theirs what is not.
    let is_wccp =
        be16::<2, _>(header) == WCCP && frame.read::<1>(inner).is_some_and(|first| first[0] >> 4 != 4);
    if is_wccp { inner + WCCP_LENGTH } else { inner }
}

const GRE_LENGTH: usize = 4;

/// The type of packets that Web Cache Communication Protocol redirects: IPv4, before which its own header may lie.
const WCCP: u16 = 0x883e;
const WCCP_LENGTH: usize = 4;

/// Bytes that the headers of the link may have, beside the interface's MTU: Ethernet with two VLAN tags, or nothing.
const fn most_headers(link: LinkLayer) -> u64 {
    match link {
        LinkLayer::Ethernet => 14 + 2 * 4,
        LinkLayer::RawIp | LinkLayer::OuterGre => 0,
    }
}

/// The shortest MTU of any interface: what is not longer is one packet.
pub const LEAST_MTU: u64 = 68;

/// How many packets a frame of so many bytes stands for at least: the kernel, or the network card, joins packets of a
/// flow to one, of up to the interface's MTU each. Between 1 and [`MOST_PACKETS`].
#[must_use]
#[inline(always)]
pub fn packets_in(bytes: u64, mtu: u64, link: LinkLayer) -> u64 {
    let payload = bytes.saturating_sub(most_headers(link));
    match payload.checked_div(mtu) {
        Some(whole) if payload > mtu => (whole + u64::from(whole * mtu < payload)).min(MOST_PACKETS),
        _ => 1,
    }
}

/// The most packets that a frame counts as; more than the kernel ever joins.
pub const MOST_PACKETS: u64 = 65_535;
