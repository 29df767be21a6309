//! The IP header, and the headers between it and the transport.

use core::mem::offset_of;

use network_types::ip::{Ipv4Hdr, Ipv6Hdr};

use super::{
    Address, FIRST, Flag, Frame, LATER, Packet, UNKNOWN_PROTOCOL, WHOLE, less, number,
    transport::{TRANSPORT_NEEDED, TransportSpan},
};
use crate::verifier::{be16, be32, be64, opaque};

/// `None` if it is no such header.
#[inline(always)]
pub(super) fn read_v4<F: Frame + ?Sized>(
    frame: &F,
    offset: usize,
    packet: &mut Packet,
) -> Option<TransportSpan> {
    let header: &[u8; Ipv4Hdr::LEN] = frame.read(offset)?;
    if header[0] >> 4 != 4 {
        return None;
    }
    packet.source =
        Address { bits: [bits_v4::<{ offset_of!(Ipv4Hdr, src_addr) }>(header), 0], family: opaque(0) };
    let total = u64::from(be16::<{ offset_of!(Ipv4Hdr, tot_len) }, _>(header));
    let there = (frame.length() - offset as u64).min(total);
    if !F::IS_READ_WHOLE && header[0] == 0x45 && there >= (Ipv4Hdr::LEN + TRANSPORT_NEEDED) as u64 {
        return Some(TransportSpan::unread(packet));
    }
    let length = u64::from(header[0] & 0xf) * 4;
    // A total length of zero is how the kernel marks packets too large for the field.
    let malformed = less(length, Ipv4Hdr::LEN as u64) | (less(total, length) & less(0, total));
    let position = u64::from(be16::<{ offset_of!(Ipv4Hdr, frags) }, _>(header));
    if F::IS_READ_WHOLE {
        packet.destination.bits[0] = bits_v4::<{ offset_of!(Ipv4Hdr, dst_addr) }>(header);
    }
    packet.protocol = header[offset_of!(Ipv4Hdr, proto)].into();
    packet.fragment = fragment(position & 0x1fff, position >> 13 & 1);
    packet.malformed = malformed as u32;
    let end = end(frame, offset as u64, total);
    Some(TransportSpan { at: offset + length as usize, end: end & malformed.wrapping_sub(1) })
}

/// `None` if it is no such header.
#[inline(always)]
pub(super) fn read_v6<F: Frame + ?Sized>(
    frame: &F,
    offset: usize,
    packet: &mut Packet,
) -> Option<TransportSpan> {
    let header: &[u8; Ipv6Hdr::LEN] = frame.read(offset)?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let (next, hop_limit) = (header[offset_of!(Ipv6Hdr, next_hdr)], header[offset_of!(Ipv6Hdr, hop_limit)]);
    let is_neighbour_discovery = u32::from(next) == number::ICMPV6
        && hop_limit == 255
        && frame.read::<1>(offset + Ipv6Hdr::LEN).is_some_and(|kind| (133..=137).contains(&kind[0]));
    packet.is_neighbour_discovery = is_neighbour_discovery.into();
    let payload = u64::from(be16::<{ offset_of!(Ipv6Hdr, payload_len) }, _>(header));
    flow_v6::<F>(header, packet);
    let at = offset + Ipv6Hdr::LEN;
    // Zero if an option has the length, or the kernel: see above.
    let end = end(frame, at as u64, payload);
    if is_extension(next.into()) {
        return Some(follow_all(frame, Chain::new(next, at, end), packet));
    }
    packet.protocol = next.into();
    Some(TransportSpan { at, end })
}

/// The addresses of an IPv6 header.
#[inline(always)]
pub(super) fn flow_v6<F: Frame + ?Sized>(header: &[u8; Ipv6Hdr::LEN], packet: &mut Packet) {
    const SOURCE: usize = offset_of!(Ipv6Hdr, src_addr);
    const DESTINATION: usize = offset_of!(Ipv6Hdr, dst_addr);
    let source = [be64::<SOURCE, _>(header), be64::<{ SOURCE + 8 }, _>(header)];
    packet.source = Address { bits: source, family: opaque(1) };
    packet.destination.family = packet.source.family;
    if F::IS_READ_WHOLE {
        packet.destination.bits = [be64::<DESTINATION, _>(header), be64::<{ DESTINATION + 8 }, _>(header)];
    }
}

/// What is behind extension headers.
#[inline(always)]
fn follow_all<F: Frame + ?Sized>(frame: &F, mut chain: Chain, packet: &mut Packet) -> TransportSpan {
    for _ in 0..MOST_EXTENSIONS {
        if !frame.follow(&mut chain) {
            break;
        }
    }
    chain.is_lost |= Flag::from(is_extension(chain.next));
    (packet.fragment, packet.malformed) = (chain.fragment, chain.malformed as u32);
    // A later fragment says what it is of, but the host goes by the first one.
    packet.protocol =
        if chain.is_lost == 0 && chain.fragment != LATER { chain.next } else { UNKNOWN_PROTOCOL };
    TransportSpan { at: chain.offset(), end: if chain.is_lost == 0 { chain.end } else { 0 } }
}

/// The most extension headers that are followed.
const MOST_EXTENSIONS: usize = 8;

/// A walk along IPv6 extension headers.
#[derive(Debug)]
#[repr(C)]
pub struct Chain {
    at: usize,
    end: u64,
    next: u32,
    fragment: u32,
    is_lost: Flag,
    malformed: Flag,
}

impl Chain {
    #[inline(always)]
    fn new(next: u8, at: usize, end: u64) -> Self {
        Self { next: next.into(), at, end, fragment: WHOLE, is_lost: 0, malformed: 0 }
    }

    /// Steps over one extension header, if there is one that can be stepped over.
    #[inline(always)]
    pub fn follow<F: Frame + ?Sized>(&mut self, frame: &F) -> bool {
        if !is_extension(self.next) || self.fragment == LATER {
            return false;
        }
        let at = self.offset();
        let header = if at as u64 + 4 <= self.end { frame.read_far::<4>(at) } else { None };
        let Some([next, length, high, low]) = header else { return self.lose() };
        let length = match self.next {
            number::FRAGMENT => {
                // Only the host knows what a fragment in a fragment is, when it has put the outer one together.
                if self.fragment == FIRST {
                    return self.lose();
                }
                let position = u64::from(u16::from_be_bytes([high, low]));
                self.fragment = fragment(position >> 3, position & 1);
                8
            }
            number::AUTHENTICATION => (length as usize + 2) * 4,
            _ => (length as usize + 1) * 8,
        };
        self.at = at + length;
        self.next = next.into();
        if self.at as u64 > self.end {
            return self.lose();
        }
        true
    }

    /// Where the next header begins: eight of at most 2,048 bytes are below the mask, which tells the verifier.
    #[inline(always)]
    fn offset(&self) -> usize {
        opaque(self.at as u64) as usize & 0x7fff
    }

    #[inline(always)]
    fn lose(&mut self) -> bool {
        (self.is_lost, self.malformed) = (1, 1);
        false
    }
}

#[inline(always)]
fn is_extension(next: u32) -> bool {
    use number::{AUTHENTICATION, DESTINATION, FRAGMENT, HOP_BY_HOP, ROUTING};
    matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION)
}

/// Where the bytes of a packet end that begins at `start`. A length of zero says nothing.
#[inline(always)]
fn end<F: Frame + ?Sized>(frame: &F, start: u64, length: u64) -> u64 {
    let (there, said) = (frame.length(), start + length);
    if length == 0 || there < said { there } else { said }
}

/// From the offset and the flag that says that more come.
#[inline(always)]
fn fragment(offset: u64, more: u64) -> u32 {
    if offset != 0 { LATER } else { more as u32 }
}

#[inline(always)]
pub(super) fn bits_v4<const AT: usize>(header: &[u8; Ipv4Hdr::LEN]) -> u64 {
    u64::from(be32::<AT, _>(header)) << 32
}
