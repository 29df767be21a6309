//! What rules can ask of the transport.

use network_types::tcp::TcpHdr;

use super::{
    Frame, ICMPV6_TYPE, LATER, NO_FLAGS, NO_PORT, NO_TYPE, Packet, UNKNOWN_FLAGS, UNKNOWN_PORT,
    UNKNOWN_PROTOCOL, UNKNOWN_TYPE, less, network::Network, number,
};

/// What rules can ask of the transport.
#[inline(always)]
pub(super) fn read_transport<F: Frame + ?Sized>(frame: &F, network: &Network, vlans: [u64; 2]) -> Packet {
    let mut packet = Packet {
        source: network.source,
        destination: network.destination,
        vlans,
        protocol: network.protocol,
        source_port: NO_PORT,
        destination_port: NO_PORT,
        tcp_flags: NO_FLAGS,
        icmp_type: NO_TYPE,
        fragment: network.fragment,
        malformed: network.malformed,
        is_neighbour_discovery: network.is_neighbour_discovery,
    };
    let protocol = network.protocol;
    let has_ports = has_ports(protocol);
    let has_type = protocol == number::ICMP || protocol == number::ICMPV6;
    if network.fragment == LATER || !(has_ports || has_type || protocol == UNKNOWN_PROTOCOL) {
        return packet;
    }
    let there = network.end.saturating_sub(network.transport as u64);
    // A chain of headers that is only too long is not broken.
    let needed = match protocol {
        number::TCP => TRANSPORT_NEEDED as u64,
        UNKNOWN_PROTOCOL => 0,
        _ => 4,
    };
    packet.malformed |= less(there, needed);
    if F::IS_READ_WHOLE {
        packet.read_ports(frame, network.transport, there);
        if protocol == number::TCP || protocol == UNKNOWN_PROTOCOL {
            packet.read_flags(frame, network.transport, there);
        }
    }
    packet
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
                    u64::from(kind) + if self.protocol == number::ICMPV6 { ICMPV6_TYPE } else { 0 };
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
            Some(flags) => u64::from(u16::from_be_bytes(flags)) & 0xfff,
            None => UNKNOWN_FLAGS,
        };
    }
}

/// As many bytes as any transport needs of which something is read.
pub(super) const TRANSPORT_NEEDED: usize = FLAGS_OFFSET + 2;

/// Where the flags lie in a TCP header.
const FLAGS_OFFSET: usize = 12;
const _: () = assert!(TRANSPORT_NEEDED <= TcpHdr::LEN);

#[inline(always)]
fn has_ports(protocol: u64) -> bool {
    use number::{DCCP, SCTP, TCP, UDP, UDP_LITE};
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}
