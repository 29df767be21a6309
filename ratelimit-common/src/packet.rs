//! What a frame says about itself: the same code in the XDP program and on the host.
//!
//! Ethernet or nothing, up to two VLAN tags, IPv4 with options, IPv6 with up to eight extension headers, and of the
//! transport what rules can ask for. Tunnels are not entered. A frame whose addresses can be read is an IP packet,
//! however broken the rest of it is; any other frame is not IP.
//!
//! What a packet does not have and what can't be told are different: a rule on ports does not match a packet that has
//! none (ICMP, a later fragment), but does match one whose ports can't be reached, so that breaking a header is no way
//! around a limit.

mod link;
mod network;
mod number;
mod plain;
mod transport;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use self::network::{read_v4, read_v6};
pub use self::{
    link::{LEAST_MTU, LinkLayer, Linked, MOST_PACKETS, outer_length, packets_in, read_link},
    network::Chain,
    plain::parse_plain,
};
use crate::verifier::opaque;

/// A frame's bytes, from where its interface begins to count them; reads outside give nothing.
pub trait Frame {
    /// The `N` bytes at `offset`, if all of them are in the frame's first buffer.
    fn read<const N: usize>(&self, offset: usize) -> Option<&[u8; N]>;
    /// The bytes that are there.
    fn length(&self) -> u64;
    /// The `N` bytes at `offset`, if all of them are in the frame.
    fn read_far<const N: usize>(&self, offset: usize) -> Option<[u8; N]>;
    /// [`Chain::follow`]: a call of its own in the kernel.
    #[inline(always)]
    fn follow(&self, chain: &mut Chain) -> bool {
        chain.follow(self)
    }
    /// What it begins with.
    #[inline(always)]
    fn link(&self) -> LinkLayer {
        LinkLayer::Ethernet
    }
    /// Whether anybody asks for more than the source address: if not, what else there is may be left as if the packet
    /// had none of it.
    const IS_READ_WHOLE: bool = true;
}

impl Frame for [u8] {
    #[inline]
    fn read<const N: usize>(&self, offset: usize) -> Option<&[u8; N]> {
        self.get(offset..)?.first_chunk()
    }

    #[inline]
    fn length(&self) -> u64 {
        self.len() as u64
    }

    #[inline]
    fn read_far<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.read(offset).copied()
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

/// 0 or 1. A number and not a `bool`, because a `bool` comes from a branch, and the kernel's verifier would follow both
/// ways to the end of the program.
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

/// An IP packet. Where a field's value can be missing or unreachable, numbers above all values say so. Fields are
/// narrow, because the kernel has little stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    /// Where it comes from.
    pub source: Address,
    /// Where it goes to.
    pub destination: Address,
    /// The ids of its VLAN tags, the outer one first, or [`NO_VLAN`].
    pub vlans: [u32; 2],
    /// The transport's number, or [`UNKNOWN_PROTOCOL`]; that of a later IPv6 fragment is not known, because the host
    /// goes by what the first one says.
    pub protocol: u32,
    /// The source port, [`NO_PORT`] or [`UNKNOWN_PORT`].
    pub source_port: u32,
    /// The destination port, likewise.
    pub destination_port: u32,
    /// The flags of a TCP packet (the low byte those that have names), [`NO_FLAGS`] or [`UNKNOWN_FLAGS`].
    pub tcp_flags: u32,
    /// The type of an ICMP message, [`ICMPV6_TYPE`] plus that of an ICMPv6 message, [`NO_TYPE`] or [`UNKNOWN_TYPE`].
    pub icmp_type: u32,
    /// [`WHOLE`], [`FIRST`] or [`LATER`].
    pub fragment: u32,
    /// 1 if a header contradicts itself or ends before it should.
    pub malformed: u32,
    /// 1 for IPv6 neighbour discovery: ICMPv6 133 to 137 with hop limit 255, directly after the fixed header.
    pub is_neighbour_discovery: u32,
}

/// There is no such tag.
pub const NO_VLAN: u32 = 4_096;
/// No transport: what is left of a packet that is not read whole.
const NO_PROTOCOL: u32 = 59;
/// In a dry run: it is not IP.
pub const NOT_IP: u32 = u32::MAX;
/// The transport can't be reached.
pub const UNKNOWN_PROTOCOL: u32 = 256;
/// The packet has no ports.
pub const NO_PORT: u32 = 65_536;
/// Its ports can't be reached.
pub const UNKNOWN_PORT: u32 = NO_PORT + 1;
/// The packet has no TCP flags.
pub const NO_FLAGS: u32 = 4_096;
/// Its flags can't be reached.
pub const UNKNOWN_FLAGS: u32 = NO_FLAGS + 1;
/// What is added to the types of ICMPv6.
pub const ICMPV6_TYPE: u32 = 256;
/// The packet has no ICMP type.
pub const NO_TYPE: u32 = 512;
/// Its type can't be reached.
pub const UNKNOWN_TYPE: u32 = NO_TYPE + 1;
/// Not a fragment.
pub const WHOLE: u32 = 0;
/// The first fragment, which has the transport's header.
pub const FIRST: u32 = 1;
/// A later fragment.
pub const LATER: u32 = 2;

impl Packet {
    /// The packet that shows nothing.
    pub const EMPTY: Self = {
        const NOWHERE: Address = Address { bits: [0; 2], family: 0 };
        Self {
            source: NOWHERE,
            destination: NOWHERE,
            vlans: [NO_VLAN; 2],
            protocol: NO_PROTOCOL,
            source_port: NO_PORT,
            destination_port: NO_PORT,
            tcp_flags: NO_FLAGS,
            icmp_type: NO_TYPE,
            fragment: WHOLE,
            malformed: 0,
            is_neighbour_discovery: 0,
        }
    };

    /// What besides the addresses makes a flow: IP version, ports and protocol.
    #[must_use]
    #[inline(always)]
    pub const fn ports(&self) -> Ports {
        let family = self.source.family << 63;
        let [source, destination] = [self.source_port as u64, self.destination_port as u64];
        Ports(family | source << 40 | destination << 16 | self.protocol as u64)
    }
}

/// What besides the addresses makes a flow, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Ports(pub u64);

impl Ports {
    /// 0 for IPv4, 1 for IPv6.
    #[must_use]
    #[inline(always)]
    pub const fn family(self) -> Flag {
        self.0 >> 63
    }

    /// The source port, as in [`Packet::source_port`].
    #[must_use]
    pub const fn source(self) -> u64 {
        self.0 >> 40 & 0x1_ffff
    }

    /// The destination port, as in [`Packet::destination_port`].
    #[must_use]
    pub const fn destination(self) -> u64 {
        self.0 >> 16 & 0x1_ffff
    }

    /// The transport's number, as in [`Packet::protocol`].
    #[must_use]
    pub const fn protocol(self) -> u64 {
        self.0 & 0xffff
    }
}

/// The frame has no IP addresses that could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotIp {
    /// The ids of its VLAN tags, as in [`Packet::vlans`].
    pub vlans: [u32; 2],
    /// 1 if VLAN tags hide what it is: more than two of which one has no id, or one without an id where no tag belongs.
    /// The host takes off tags without an id, however many there are, so it may be any packet; nobody sends such frames
    /// for another reason.
    pub hides: Flag,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Reads a frame.
///
/// # Errors
/// [`NotIp`] if there are no addresses to judge it by.
#[inline(always)]
pub fn parse<F: Frame + ?Sized>(frame: &F) -> Result<Packet, NotIp> {
    let mut packet = Packet::EMPTY;
    let (kind, offset) =
        read_link(frame, &mut packet.vlans).map_err(|hides| NotIp { vlans: packet.vlans, hides })?;
    if read_packet(frame, kind, offset, &mut packet) {
        return Ok(packet);
    }
    Err(NotIp { vlans: packet.vlans, hides: 0 })
}

/// Reads a packet of a type that begins at an offset into one that is empty but for its tags; false if there are no
/// addresses to judge it by.
#[inline(always)]
pub fn read_packet<F: Frame + ?Sized>(frame: &F, kind: u16, offset: usize, packet: &mut Packet) -> bool {
    let transport = match kind {
        IPV4 => read_v4(frame, offset, packet),
        IPV6 => read_v6(frame, offset, packet),
        _ => None,
    };
    let Some(transport) = transport else { return false };
    transport.read(frame, packet);
    true
}

/// 1 if `a < b`, else 0; both below 2^63.
#[inline(always)]
fn less(a: u64, b: u64) -> Flag {
    opaque(a.wrapping_sub(b)) >> 63
}

#[cfg(test)]
mod tests;
