//! Names of what packets have numbers for: protocols, ICMP types and TCP flags.
//!
//! Those that a rule may be about; any other is written as its number.

/// Protocols by name, as IANA has them, some with a second name.
pub const PROTOCOLS: [(&str, u8); 31] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ipv6-icmp", 58),
    ("eigrp", 88),
    ("ospf", 89),
    ("etherip", 97),
    ("pim", 103),
    ("ipcomp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("isis", 124),
    ("sctp", 132),
    ("fc", 133),
    ("udplite", 136),
    ("udp-lite", 136),
    ("mpls", 137),
    ("hip", 139),
    ("shim6", 140),
    ("rohc", 142),
];

/// The name of a protocol, if it has one here.
#[must_use]
pub fn protocol_name(number: u8) -> Option<&'static str> {
    PROTOCOLS.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

/// ICMP
pub const ICMP: u8 = 1;
/// TCP
pub const TCP: u8 = 6;
/// ICMPv6
pub const ICMPV6: u8 = 58;

/// UDP, TCP and the like.
pub const WITH_PORTS: [u8; 5] = [TCP, 17, 33, 132, 136];

/// In IPv6 these are extension headers, and the protocol is what comes behind them.
pub const EXTENSION_HEADERS: [u8; 5] = [0, 43, 44, 51, 60];

/// Types by name, with their numbers in ICMP and in ICMPv6.
pub const ICMP_TYPES: [(&str, IcmpNumbers); 32] = [
    ("echo-request", both(8, 128)),
    ("echo-reply", both(0, 129)),
    ("destination-unreachable", both(3, 1)),
    ("time-exceeded", both(11, 3)),
    ("parameter-problem", both(12, 4)),
    ("redirect", both(5, 137)),
    ("router-solicitation", both(10, 133)),
    ("router-advertisement", both(9, 134)),
    ("extended-echo-request", both(42, 160)),
    ("extended-echo-reply", both(43, 161)),
    ("source-quench", icmp(4)),
    ("timestamp-request", icmp(13)),
    ("timestamp-reply", icmp(14)),
    ("information-request", icmp(15)),
    ("information-reply", icmp(16)),
    ("address-mask-request", icmp(17)),
    ("address-mask-reply", icmp(18)),
    ("packet-too-big", icmpv6(2)),
    ("multicast-listener-query", icmpv6(130)),
    ("multicast-listener-report", icmpv6(131)),
    ("multicast-listener-done", icmpv6(132)),
    ("neighbour-solicitation", icmpv6(135)),
    ("neighbor-solicitation", icmpv6(135)),
    ("neighbour-advertisement", icmpv6(136)),
    ("neighbor-advertisement", icmpv6(136)),
    ("router-renumbering", icmpv6(138)),
    ("node-information-query", icmpv6(139)),
    ("node-information-response", icmpv6(140)),
    ("multicast-listener-report-v2", icmpv6(143)),
    ("multicast-router-advertisement", icmpv6(151)),
    ("multicast-router-solicitation", icmpv6(152)),
    ("multicast-router-termination", icmpv6(153)),
];

/// The bits of the TCP header's flags.
pub const TCP_FLAGS: [(&str, u8); 8] =
    [("fin", 1), ("syn", SYN), ("rst", 4), ("psh", 8), ("ack", ACK), ("urg", 32), ("ece", 64), ("cwr", 128)];

/// Opens a connection.
pub const SYN: u8 = 2;
/// Acknowledges data; all packets of a connection but the first have it.
pub const ACK: u8 = 16;

/// A type's numbers, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpNumbers {
    /// In ICMP.
    pub v4: Option<u8>,
    /// In ICMPv6.
    pub v6: Option<u8>,
}

const fn both(v4: u8, v6: u8) -> IcmpNumbers {
    IcmpNumbers { v4: Some(v4), v6: Some(v6) }
}

const fn icmp(v4: u8) -> IcmpNumbers {
    IcmpNumbers { v4: Some(v4), v6: None }
}

const fn icmpv6(v6: u8) -> IcmpNumbers {
    IcmpNumbers { v4: None, v6: Some(v6) }
}
