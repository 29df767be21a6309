//! The classification tables: for each value of a dimension, the set of rules that it satisfies.

use std::{collections::BTreeMap, net::IpAddr, ops::RangeInclusive};

use ratelimit_common::{classify::Dimension, packet};

use crate::policy::{
    Fragment, IcmpType, IpVersion, Match, PacketRule, PacketRules, Prefix, RulePart, TcpFlags,
};

/// One dimension's table, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimensionTable {
    /// Which.
    pub dimension: Dimension,
    /// A set of rules that match for each row; then, if rules except by this dimension, a set of those that except.
    pub rows: Vec<u64>,
}

impl DimensionTable {
    /// The rules that IPv4 and IPv6 packets match, if this is the table of that and fragments make no difference.
    pub fn of_versions(&self) -> Option<[u64; 2]> {
        let alike = |sets: &[u64]| sets.iter().all(|set| Some(set) == sets.first());
        match (self.dimension, self.rows.chunks_exact(3).all(alike), self.rows.as_slice()) {
            (Dimension::Kind, true, &[ipv4, _, _, ipv6, ..]) => Some([ipv4, ipv6]),
            _ => None,
        }
    }
}

/// Prefixes of one family, each with the rules that an address satisfies whose longest prefix it is: those that match, and
/// those that except.
pub type PrefixSets<K> = Vec<(K, u8, [u64; 2])>;

/// The conditions on addresses of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressConditions {
    /// The rules without such a condition: what an address satisfies that is in no prefix.
    pub any: [u64; 2],
    /// Of IPv4.
    pub v4: PrefixSets<[u8; 4]>,
    /// Of IPv6.
    pub v6: PrefixSets<[u8; 16]>,
}

/// Which conditions of rules: what they match, or what they except.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `match`
    Matches,
    /// `except`
    Excepts,
}

impl Side {
    /// Both, in the order of sets.
    pub const BOTH: [Self; 2] = [Self::Matches, Self::Excepts];

    /// The condition of a rule. One without `except` has none there.
    pub fn of(self, rule: &PacketRule) -> Option<&Match> {
        match self {
            Self::Matches => Some(&rule.matches),
            Self::Excepts => rule.except.as_ref(),
        }
    }
}

/// The tables of the dimensions that some rule asks about, and for each side the bits of these dimensions.
pub fn tables(rules: &PacketRules) -> (Vec<DimensionTable>, [u32; 2]) {
    let mut asked = [0; 2];
    let mut table = |dimension: Dimension| {
        let sides = Side::BOTH.map(|side| side_table(side, dimension, rules));
        for (asked, side) in asked.iter_mut().zip(&sides) {
            *asked |= if side.is_some() { dimension.bit() } else { 0 };
        }
        let all = || vec![set(Side::Matches, rules, |_, _| true); dimension.rows() as usize];
        match sides {
            [None, None] => None,
            [matches, excepts] => {
                let rows = [matches.unwrap_or_else(all), excepts.unwrap_or_default()].concat();
                Some(DimensionTable { dimension, rows })
            }
        }
    };
    let tables = Dimension::ALL.into_iter().filter_map(&mut table).collect();
    (tables, asked)
}

/// `None` if no rule asks about the dimension.
fn side_table(side: Side, dimension: Dimension, rules: &PacketRules) -> Option<Vec<u64>> {
    let satisfying = |part: &RulePart, matches: &Match| rows(side, dimension, part, matches);
    let any = set(side, rules, |part, matches| satisfying(part, matches).is_none());
    let mut table = vec![any; dimension.rows() as usize];
    let mut is_asked = false;
    for (bit, part) in rules.parts().iter().enumerate() {
        let matches = rules.get(part.rule).and_then(|rule| side.of(rule));
        for range in matches.and_then(|matches| satisfying(part, matches)).into_iter().flatten() {
            is_asked = true;
            let range = *range.start() as usize..=*range.end() as usize;
            table.get_mut(range).into_iter().flatten().for_each(|row| *row |= 1 << bit);
        }
    }
    is_asked.then_some(table)
}

type Rows = Vec<RangeInclusive<u64>>;

/// The rows that a part satisfies; `None` if it has no condition on the dimension. Where a value can't be told, all rules
/// match and none excepts.
fn rows(side: Side, dimension: Dimension, part: &RulePart, matches: &Match) -> Option<Rows> {
    let (rows, unknown): (Rows, Option<u32>) = match dimension {
        Dimension::Protocol => {
            (one_each(&matches.protocols, |&protocol| protocol.into()), Some(packet::UNKNOWN_PROTOCOL))
        }
        Dimension::SourcePort => (wide(&matches.source_ports), Some(packet::UNKNOWN_PORT)),
        Dimension::DestinationPort => (wide(&matches.destination_ports), Some(packet::UNKNOWN_PORT)),
        Dimension::TcpFlags => {
            let flags: Vec<TcpFlags> = matches.tcp_flags.into_iter().collect();
            let all = 0..u64::from(packet::NO_FLAGS);
            let rows = flags.iter().flat_map(|flags| all.clone().filter(|&row| flags.matches(row as u8)));
            (rows.map(|row| row..=row).collect(), Some(packet::UNKNOWN_FLAGS))
        }
        Dimension::IcmpType => {
            let base = |version| if version == IpVersion::V6 { packet::ICMPV6_TYPE } else { 0 };
            let row = |kind: &IcmpType| u64::from(base(kind.version) + u32::from(kind.number));
            (one_each(&matches.icmp_types, row), Some(packet::UNKNOWN_TYPE))
        }
        Dimension::Vlan => (wide(&matches.vlans), None),
        Dimension::Kind => return kinds(side, part, matches),
        Dimension::Length => (wide(&matches.lengths), None),
    };
    let unknown = unknown.filter(|_| side == Side::Matches).map(|row| row.into()..=row.into());
    (!rows.is_empty()).then(|| rows.into_iter().chain(unknown).collect())
}

fn one_each<T>(wanted: &[T], row: impl Fn(&T) -> u64) -> Rows {
    wanted.iter().map(row).map(|row| row..=row).collect()
}

fn wide(ranges: &[RangeInclusive<u16>]) -> Rows {
    ranges.iter().map(|range| u64::from(*range.start())..=u64::from(*range.end())).collect()
}

/// The rows of IP versions and fragments; `None` if all satisfy the part.
fn kinds(side: Side, part: &RulePart, matches: &Match) -> Option<Rows> {
    let satisfies = |&row: &u64| {
        let (version, fragment) = kind(row);
        let bits = if version == IpVersion::V4 { part.ipv4 } else { part.ipv6 };
        (bits.is_some() || side == Side::Excepts)
            && matches.ip_version.is_none_or(|wanted| wanted == version)
            && (matches.fragments.is_empty() || matches.fragments.contains(&fragment))
    };
    let all = u64::from(Dimension::Kind.rows());
    let rows: Rows = (0..all).filter(satisfies).map(|row| row..=row).collect();
    ((rows.len() as u64) < all).then_some(rows)
}

/// The sources' prefixes, and the destinations'.
pub fn prefixes(rules: &PacketRules) -> [AddressConditions; 2] {
    let sources = direction(rules, |matches| matches.sources.as_ref());
    [sources, direction(rules, |matches| matches.destinations.as_ref())]
}

/// The bits of the parts whose condition satisfies something.
pub fn set(side: Side, rules: &PacketRules, satisfies: impl Fn(&RulePart, &Match) -> bool) -> u64 {
    let bits = rules.parts().iter().enumerate().map(|(bit, part)| {
        let matches = rules.get(part.rule).and_then(|rule| side.of(rule));
        u64::from(matches.is_some_and(|matches| satisfies(part, matches))) << bit
    });
    bits.fold(0, |set, bit| set | bit)
}

/// What a row of [`Dimension::Kind`] stands for.
fn kind(row: u64) -> (IpVersion, Fragment) {
    let version = if row < 3 { IpVersion::V4 } else { IpVersion::V6 };
    let fragment = match (row % 3) as u32 {
        packet::WHOLE => Fragment::No,
        packet::FIRST => Fragment::First,
        _ => Fragment::Later,
    };
    (version, fragment)
}

fn direction(rules: &PacketRules, prefixes: impl Fn(&Match) -> Option<&Vec<Prefix>>) -> AddressConditions {
    let any = Side::BOTH.map(|side| set(side, rules, |_, matches| prefixes(matches).is_none()));
    let mut named: BTreeMap<Prefix, [u64; 2]> = BTreeMap::new();
    for (bit, part) in rules.parts().iter().enumerate() {
        for (place, side) in Side::BOTH.into_iter().enumerate() {
            let condition = rules.get(part.rule).and_then(|rule| side.of(rule));
            for prefix in condition.and_then(&prefixes).into_iter().flatten() {
                named.entry(*prefix).or_default()[place] |= 1 << bit;
            }
        }
    }
    let mut sets = AddressConditions { any, ..AddressConditions::default() };
    // A prefix comes directly before those inside it, so the ones around the present one are on the stack.
    let mut around: Vec<(Prefix, [u64; 2])> = Vec::new();
    for (prefix, own) in named {
        while around.pop_if(|(outer, _)| !outer.contains(&prefix)).is_some() {}
        let outer = around.last().map_or(any, |(_, rules)| *rules);
        let rules = [own[0] | outer[0], own[1] | outer[1]];
        around.push((prefix, rules));
        match prefix.address() {
            IpAddr::V4(address) => sets.v4.push((address.octets(), prefix.len(), rules)),
            IpAddr::V6(address) => sets.v6.push((address.octets(), prefix.len(), rules)),
        }
    }
    sets
}
