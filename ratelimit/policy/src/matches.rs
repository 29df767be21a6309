//! Which packets a rule is about.

use std::ops::RangeInclusive;

use super::Prefix;

/// A condition on packets. All parts must hold; a part that is empty or `None` always does. In a list, one item is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Numbers of transport protocols, as IANA assigns them.
    pub protocols: Vec<u8>,
    /// Prefixes of the source address. An empty list, as an empty file may be, is about no source at all.
    pub sources: Option<Vec<Prefix>>,
    /// Prefixes of the destination address, likewise.
    pub destinations: Option<Vec<Prefix>>,
    /// Ports of TCP, UDP, UDP-Lite, SCTP and DCCP.
    pub source_ports: Vec<RangeInclusive<u16>>,
    /// See above.
    pub destination_ports: Vec<RangeInclusive<u16>>,
    /// Flags of TCP packets.
    pub tcp_flags: Option<TcpFlags>,
    /// Types of ICMP and ICMPv6 messages.
    pub icmp_types: Vec<IcmpType>,
    /// Whole packets, first or later fragments.
    pub fragments: Vec<Fragment>,
    /// VLAN ids, 0 to 4,094, of which one of the frame's tags has one.
    pub vlans: Vec<RangeInclusive<u16>>,
    /// Wire bytes, Ethernet header included.
    pub lengths: Vec<RangeInclusive<u16>>,
    /// The IP version.
    pub ip_version: Option<IpVersion>,
}

/// Flags that must be set, and flags that must not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFlags {
    /// As in the header's 14th byte: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
    pub set: u8,
    /// See above.
    pub unset: u8,
}

impl TcpFlags {
    /// Whether a packet with these flags is meant.
    #[must_use]
    pub const fn matches(self, flags: u8) -> bool {
        flags & self.set == self.set && flags & self.unset == 0
    }
}

/// A type of ICMP or of ICMPv6 messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IcmpType {
    /// `V4` for ICMP, `V6` for ICMPv6.
    pub version: IpVersion,
    /// Its number.
    pub number: u8,
}

/// What part of a packet an IP packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fragment {
    /// All of it.
    No,
    /// The first fragment, which has the transport header.
    First,
    /// A later one.
    Later,
}

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpVersion {
    /// IPv4
    V4,
    /// IPv6
    V6,
}
