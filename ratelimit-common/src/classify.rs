//! Which rules judge a packet: for each dimension a table gives the set of rules that the packet's value satisfies, as
//! the bits of one word, and their intersection is the rules that match. So the cost does not grow with the number of
//! rules.
//!
//! What rules except are conditions of the same kind, in tables of their own, which only packets are asked about that
//! match such a rule.

use crate::packet::{Address, Packet, Ports};

/// What rules can ask of a packet, besides its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Dimension {
    /// The transport protocol.
    Protocol = 0,
    /// The source port.
    SourcePort = 1,
    /// The destination port.
    DestinationPort = 2,
    /// The flags of a TCP packet.
    TcpFlags = 3,
    /// The type of an ICMP or ICMPv6 message.
    IcmpType = 4,
    /// The ids of its VLAN tags.
    Vlan = 5,
    /// IP version and kind of fragment.
    Kind = 6,
    /// The frame's length.
    Length = 7,
}

impl Dimension {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Protocol,
        Self::SourcePort,
        Self::DestinationPort,
        Self::TcpFlags,
        Self::IcmpType,
        Self::Vlan,
        Self::Kind,
        Self::Length,
    ];

    /// How many rows its table has: the values, and those that say a packet has none or that it can't be told.
    #[must_use]
    pub const fn rows(self) -> u32 {
        match self {
            Self::Protocol => 256 + 1,
            Self::SourcePort | Self::DestinationPort => 65_536 + 2,
            Self::TcpFlags => 4_096 + 2,
            Self::IcmpType => 512 + 2,
            Self::Vlan => 4_096 + 1,
            Self::Kind => 6,
            Self::Length => 65_536,
        }
    }

    /// Those that few rules ask about.
    pub const RARE: [Self; 3] = [Self::TcpFlags, Self::IcmpType, Self::Vlan];

    /// Its bit in [`crate::wire::Conditions::dimensions`].
    #[must_use]
    #[inline(always)]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The tables of one generation: of what its rules match, or of what they except.
pub trait Tables {
    /// Whether some rule has a condition on a dimension.
    fn asks(&self, dimension: Dimension) -> bool;
    /// Whether some rule has a condition on one of [`Dimension::RARE`]. In the program each question is an instruction
    /// or two, though its answer is a constant.
    #[inline(always)]
    fn asks_rarely(&self) -> bool {
        Dimension::RARE.into_iter().any(|dimension| self.asks(dimension))
    }
    /// The set in a row of a dimension's table; all rules if no rule has a condition on this dimension.
    fn row(&self, dimension: Dimension, row: u64) -> u64;
    /// The rules whose condition on the source address this one satisfies.
    fn source(&self, address: &Address) -> u64;
    /// The rules whose condition on the destination address this one satisfies.
    fn destination(&self, address: &Address) -> u64;
}

/// The tables of exceptions, of which a rule can have several.
pub trait Exceptions: Tables {
    /// The bits of further exceptions. The first one of a rule has the rule's own bits.
    fn further(&self) -> u64;
    /// The rules of further exceptions: for each byte of a word, 256 rows of what its bits stand for.
    fn rules_of(&self, row: u64) -> u64;
}

/// Rows of [`Exceptions::rules_of`].
pub const ROWS_OF_FURTHER: usize = 256 * size_of::<u64>();

/// The rules that judge a packet, of which the frame is so long: those that it matches and that do not except it.
/// `some` are those that except something.
#[inline(always)]
pub fn judging(
    matches: &impl Tables,
    excepts: &impl Exceptions,
    some: u64,
    packet: &Packet,
    wire_length: u64,
) -> u64 {
    let rules = matching(matches, packet, wire_length);
    if rules & some == 0 { rules } else { rules & !excepting(excepts, packet, wire_length) }
}

/// The rules that except a packet.
#[inline(always)]
pub fn excepting(excepts: &impl Exceptions, packet: &Packet, wire_length: u64) -> u64 {
    rules_of(excepts, matching(excepts, packet, wire_length))
}

/// The rules of the exceptions that hold.
#[inline(always)]
fn rules_of(excepts: &impl Exceptions, exceptions: u64) -> u64 {
    let further = excepts.further();
    if further == 0 {
        return exceptions;
    }
    // Each question is answered when the program is loaded, and no loop: so only bytes are looked up that have some.
    let of_byte = |byte: u64| match further >> (8 * byte) & 0xff {
        0 => 0,
        mask => excepts.rules_of(byte << 8 | exceptions >> (8 * byte) & mask),
    };
    exceptions & !further
        | of_byte(0)
        | of_byte(1)
        | of_byte(2)
        | of_byte(3)
        | of_byte(4)
        | of_byte(5)
        | of_byte(6)
        | of_byte(7)
}

/// The same where no rule asks for more than the source address, the IP version and the length.
#[inline(always)]
pub fn judging_source(
    matches: &impl Tables,
    excepts: &impl Exceptions,
    some: u64,
    source: &Address,
    wire_length: u64,
) -> u64 {
    let rules = matching_source(matches, source, wire_length);
    if rules & some == 0 {
        rules
    } else {
        rules & !rules_of(excepts, matching_source(excepts, source, wire_length))
    }
}

/// The rules of which a packet satisfies the conditions.
#[inline(always)]
pub fn matching(tables: &impl Tables, packet: &Packet, wire_length: u64) -> u64 {
    let [outer, inner] = packet.vlans;
    let kind = packet.source.family * 3 + u64::from(packet.fragment);
    let mut rules = matching_kind(tables, &packet.source, kind, packet.ports(), wire_length);
    if tables.asks_rarely() {
        let mut ask = |dimension, row: u32| {
            if tables.asks(dimension) {
                rules &= tables.row(dimension, row.into());
            }
        };
        ask(Dimension::TcpFlags, packet.tcp_flags);
        ask(Dimension::IcmpType, packet.icmp_type);
        if tables.asks(Dimension::Vlan) {
            rules &= tables.row(Dimension::Vlan, outer.into()) | tables.row(Dimension::Vlan, inner.into());
        }
    }
    rules & tables.destination(&packet.destination)
}

/// The same of a packet that is no fragment, where no rule asks for more than its source, IP version, transport, ports
/// and length.
#[inline(always)]
pub fn matching_ports(tables: &impl Tables, source: &Address, ports: Ports, wire_length: u64) -> u64 {
    matching_kind(tables, source, source.family * 3, ports, wire_length)
}

/// By the source address, the row of IP version and fragment, the transport, its ports, and the length.
#[inline(always)]
fn matching_kind(tables: &impl Tables, source: &Address, kind: u64, ports: Ports, wire_length: u64) -> u64 {
    let mut rules = matching_any_version(tables, source, wire_length);
    // One after the other, since few dimensions are asked about: so nothing has to be kept of the others.
    let mut ask = |dimension, row| {
        if tables.asks(dimension) {
            rules &= tables.row(dimension, row);
        }
    };
    ask(Dimension::Kind, kind);
    ask(Dimension::Protocol, ports.protocol());
    ask(Dimension::DestinationPort, ports.destination());
    ask(Dimension::SourcePort, ports.source());
    rules
}

/// By the source address, the IP version and the length.
#[inline(always)]
fn matching_source(tables: &impl Tables, source: &Address, wire_length: u64) -> u64 {
    let rules = matching_any_version(tables, source, wire_length);
    if tables.asks(Dimension::Kind) { rules & tables.row(Dimension::Kind, source.family * 3) } else { rules }
}

#[inline(always)]
fn matching_any_version(tables: &impl Tables, source: &Address, wire_length: u64) -> u64 {
    let rules = tables.source(source);
    if !tables.asks(Dimension::Length) {
        return rules;
    }
    rules & tables.row(Dimension::Length, if wire_length < 65_535 { wire_length } else { 65_535 })
}
