//! Packets whose headers are plain, which most are: read with few steps, or not at all.

use core::mem::offset_of;

use network_types::ip::{Ipv4Hdr, Ipv6Hdr};

use super::{
    Address, Frame, IPV4, IPV6, Packet,
    network::{bits_v4, flow_v6},
    number, read_link,
    transport::{FLAGS_OFFSET, TRANSPORT_NEEDED},
};
use crate::verifier::be16;

/// What [`super::parse`] says, of a packet that has no options, no extension headers, is no fragment and not broken,
/// and, if more than the source is read, is TCP or UDP; `None` of all others.
#[inline(always)]
pub fn parse_plain<F: Frame + ?Sized>(frame: &F) -> Option<Packet> {
    let mut packet = Packet::EMPTY;
    let (kind, offset) = read_link(frame, &mut packet.vlans).ok()?;
    match kind {
        IPV4 => plain_v4(frame, offset, &mut packet)?,
        IPV6 => plain_v6(frame, offset, &mut packet)?,
        _ => return None,
    }
    Some(packet)
}

/// Version 4, and no options.
const PLAIN_V4: u8 = 0x45;

#[inline(always)]
fn plain_v4<F: Frame + ?Sized>(frame: &F, offset: usize, packet: &mut Packet) -> Option<()> {
    let header: &[u8; Ipv4Hdr::LEN] = frame.read(offset)?;
    if header[0] != PLAIN_V4 {
        return None;
    }
    let total = u64::from(be16::<{ offset_of!(Ipv4Hdr, tot_len) }, _>(header));
    let protocol = header[offset_of!(Ipv4Hdr, proto)].into();
    if !has_room(frame, offset, total, Ipv4Hdr::LEN, protocol) {
        return None;
    }
    packet.source = Address { bits: [bits_v4::<{ offset_of!(Ipv4Hdr, src_addr) }>(header), 0], family: 0 };
    if F::IS_READ_WHOLE {
        // All but the flag that forbids to make fragments, and the bit that is reserved.
        if be16::<{ offset_of!(Ipv4Hdr, frags) }, _>(header) & 0x3fff != 0 {
            return None;
        }
        packet.destination.bits[0] = bits_v4::<{ offset_of!(Ipv4Hdr, dst_addr) }>(header);
        return read_ports(frame, offset + Ipv4Hdr::LEN, protocol, packet);
    }
    Some(())
}

#[inline(always)]
fn plain_v6<F: Frame + ?Sized>(frame: &F, offset: usize, packet: &mut Packet) -> Option<()> {
    let header: &[u8; Ipv6Hdr::LEN] = frame.read(offset)?;
    let protocol = u32::from(header[offset_of!(Ipv6Hdr, next_hdr)]);
    if header[0] >> 4 != 6 || !(protocol == number::TCP || protocol == number::UDP) {
        return None;
    }
    let payload = u64::from(be16::<{ offset_of!(Ipv6Hdr, payload_len) }, _>(header));
    let at = offset + Ipv6Hdr::LEN;
    if !has_room(frame, at, payload, 0, protocol) {
        return None;
    }
    flow_v6::<F>(header, packet);
    packet.protocol = protocol;
    if F::IS_READ_WHOLE { read_ports(frame, at, protocol, packet) } else { Some(()) }
}

/// Whether what is read of a transport has room behind so many bytes of a header, both by what is there and by the
/// length that is said.
#[inline(always)]
fn has_room<F: Frame + ?Sized>(frame: &F, start: usize, said: u64, header: usize, protocol: u32) -> bool {
    let has = |needed: usize| said >= needed as u64 && frame.length() >= (start + needed) as u64;
    has(header + TRANSPORT_NEEDED) || protocol != number::TCP && has(header + PORTS)
}

/// Bytes of both ports, or of an ICMP type and what belongs to it.
const PORTS: usize = 4;

/// The ports, and the flags of TCP.
#[inline(always)]
fn read_ports<F: Frame + ?Sized>(frame: &F, at: usize, protocol: u32, packet: &mut Packet) -> Option<()> {
    if protocol != number::TCP && protocol != number::UDP {
        return None;
    }
    let ports: &[u8; PORTS] = frame.read(at)?;
    packet.protocol = protocol;
    packet.source_port = be16::<0, _>(ports).into();
    packet.destination_port = be16::<2, _>(ports).into();
    if protocol == number::TCP {
        packet.tcp_flags = u32::from(be16::<0, _>(frame.read::<2>(at + FLAGS_OFFSET)?)) & 0xfff;
    }
    Some(())
}
