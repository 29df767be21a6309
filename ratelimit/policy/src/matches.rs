//! Which packets a rule is about.

use std::{net::IpAddr, ops::RangeInclusive};

use super::Prefix;

/// A condition on packets. All parts must hold; a part that is empty or `None` always does. In a list, one item is
/// enough.
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

impl Match {
    /// Whether a packet of this source can fulfil it.
    #[must_use]
    pub fn can_match_source(&self, source: IpAddr) -> bool {
        let host = Prefix::from(source);
        let version = if source.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
        self.ip_version.is_none_or(|wanted| wanted == version)
            && self.sources.as_ref().is_none_or(|all| all.iter().any(|prefix| prefix.contains(&host)))
    }

    /// Whether each packet of this source fulfils it, whatever else is in the packet.
    #[must_use]
    pub fn matches_all_of_source(&self, source: IpAddr) -> bool {
        let Self {
            protocols,
            sources: _,
            destinations: None,
            source_ports,
            destination_ports,
            tcp_flags: None,
            icmp_types,
            fragments,
            vlans,
            lengths,
            ip_version: _,
        } = self
        else {
            return false;
        };
        let ranges = [source_ports, destination_ports, vlans, lengths];
        let is_about_more = !protocols.is_empty() || !icmp_types.is_empty() || !fragments.is_empty();
        !is_about_more && ranges.iter().all(|ranges| ranges.is_empty()) && self.can_match_source(source)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_source_alone_decides_is_told_from_what_it_does_not() {
        let [own, other]: [IpAddr; 2] = ["10.1.0.2", "fd00::2"].map(|address| address.parse().unwrap());
        let prefix = |text: &str| Some(vec![text.parse::<Prefix>().unwrap()]);
        let any = Match::default();
        let decided = |matches: &Match| (matches.can_match_source(own), matches.matches_all_of_source(own));
        for (matches, expected) in [
            (any.clone(), (true, true)),
            (Match { sources: prefix("10.1.0.0/24"), ..any.clone() }, (true, true)),
            (Match { sources: prefix("10.2.0.0/24"), ..any.clone() }, (false, false)),
            (Match { sources: Some(Vec::new()), ..any.clone() }, (false, false)),
            (Match { ip_version: Some(IpVersion::V4), ..any.clone() }, (true, true)),
            (Match { ip_version: Some(IpVersion::V6), ..any.clone() }, (false, false)),
            (Match { destinations: prefix("10.1.0.1"), ..any.clone() }, (true, false)),
            (Match { protocols: vec![17], ..any.clone() }, (true, false)),
            (Match { source_ports: vec![53..=53], ..any.clone() }, (true, false)),
            (Match { destination_ports: vec![53..=53], ..any.clone() }, (true, false)),
            (Match { tcp_flags: Some(TcpFlags { set: 2, unset: 0 }), ..any.clone() }, (true, false)),
            (
                Match { icmp_types: vec![IcmpType { version: IpVersion::V4, number: 8 }], ..any.clone() },
                (true, false),
            ),
            (Match { fragments: vec![Fragment::No], ..any.clone() }, (true, false)),
            (Match { vlans: vec![7..=7], ..any.clone() }, (true, false)),
            (Match { lengths: vec![0..=64], ..any.clone() }, (true, false)),
        ] {
            assert_eq!(decided(&matches), expected, "{matches:?}");
        }
        assert!(!Match { sources: prefix("10.0.0.0/8"), ..any }.can_match_source(other));
    }
}
