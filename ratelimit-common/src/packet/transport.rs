//! What rules can ask of the transport.

use network_types::tcp::TcpHdr;

use super::{
    Frame, ICMPV6_TYPE, LATER, Packet, UNKNOWN_FLAGS, UNKNOWN_PORT, UNKNOWN_PROTOCOL, UNKNOWN_TYPE, WHOLE,
    less, number,
};
use crate::verifier::opaque;

/// Where the transport begins, and where the bytes of the packet end; 0 if the transport can't be reached.
pub(super) struct TransportSpan {
    pub at: usize,
    pub end: u64,
}

impl TransportSpan {
    /// For a packet in which nothing is broken, when nobody asks for more than its source.
    #[inline(always)]
    pub(super) fn unread(packet: &mut Packet) -> Self {
        (packet.fragment, packet.malformed) = (opaque(WHOLE.into()) as u32, opaque(0) as u32);
        Self { at: 0, end: 0 }
    }

    /// Reads what rules can ask of it into the packet, whose protocol is known.
    #[inline(always)]
    pub(super) fn read<F: Frame + ?Sized>(self, frame: &F, packet: &mut Packet) {
        let protocol = packet.protocol;
        let has_ports = has_ports(protocol);
        let has_type = protocol == number::ICMP || protocol == number::ICMPV6;
        if packet.fragment == LATER || !(has_ports || has_type || protocol == UNKNOWN_PROTOCOL) {
            return;
        }
        let there = self.end.saturating_sub(self.at as u64);
        // A chain of headers that is only too long is not broken.
        let needed = match protocol {
            number::TCP => TRANSPORT_NEEDED as u64,
            UNKNOWN_PROTOCOL => 0,
            _ => 4,
        };
        packet.malformed |= less(there, needed) as u32;
        if F::IS_READ_WHOLE {
            packet.read_ports(frame, self.at, there);
            if protocol == number::TCP || protocol == UNKNOWN_PROTOCOL {
                packet.read_flags(frame, self.at, there);
            }
        }
    }
}

impl Packet {
    /// Reads the first bytes of a transport that has ports or a type, or that can't be reached.
    #[inline(always)]
    fn read_ports<F: Frame + ?Sized>(&mut self, frame: &F, at: usize, there: u64) {
        let is_unknown = self.protocol == UNKNOWN_PROTOCOL;
        let is_icmp = self.protocol == number::ICMP || self.protocol == number::ICMPV6;
        match if there >= 4 { frame.read_far::<4>(at) } else { None } {
            Some([kind, ..]) if is_icmp => {
                self.icmp_type =
                    u32::from(kind) + if self.protocol == number::ICMPV6 { ICMPV6_TYPE } else { 0 };
            }
            Some([a, b, c, d]) => {
                self.source_port = u16::from_be_bytes([a, b]).into();
                self.destination_port = u16::from_be_bytes([c, d]).into();
            }
            None => {
                if !is_icmp {
                    (self.source_port, self.destination_port) = (UNKNOWN_PORT, UNKNOWN_PORT);
                }
                if is_icmp || is_unknown {
                    self.icmp_type = UNKNOWN_TYPE;
                }
            }
        }
    }

    #[inline(always)]
    fn read_flags<F: Frame + ?Sized>(&mut self, frame: &F, at: usize, there: u64) {
        let is_there = there >= TRANSPORT_NEEDED as u64;
        self.tcp_flags = match if is_there { frame.read_far::<2>(at + FLAGS_OFFSET) } else { None } {
            Some(flags) => u32::from(u16::from_be_bytes(flags)) & 0xfff,
            None => UNKNOWN_FLAGS,
        };
    }
}

/// As many bytes as any transport needs of which something is read.
pub(super) const TRANSPORT_NEEDED: usize = FLAGS_OFFSET + 2;

/// Where the flags lie in a TCP header.
pub(super) const FLAGS_OFFSET: usize = 12;
const _: () = assert!(TRANSPORT_NEEDED <= TcpHdr::LEN);

#[inline(always)]
fn has_ports(protocol: u32) -> bool {
    use number::{DCCP, SCTP, TCP, UDP, UDP_LITE};
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}
