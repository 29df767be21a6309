//! The classification tables: for each value of a dimension, the set of rules that it satisfies.

use std::{collections::BTreeMap, net::IpAddr, ops::RangeInclusive};

use ratelimit_common::{classify::Dimension, packet};

use crate::policy::{Fragment, IcmpType, IpVersion, Match, Part, Prefix, Rules, TcpFlags};

/// One dimension's table, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Which.
    pub dimension: Dimension,
    /// A set of rules for each row.
    pub rows: Vec<u64>,
}

/// Prefixes of one family, each with the rules that an address satisfies whose longest prefix it is.
pub type PrefixSets<K> = Vec<(K, u8, u64)>;

/// The conditions on addresses of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// The rules without such a condition: what an address satisfies that is in no prefix.
    pub any: u64,
    /// Of IPv4.
    pub v4: PrefixSets<[u8; 4]>,
    /// Of IPv6.
    pub v6: PrefixSets<[u8; 16]>,
}

/// The tables of the dimensions that some rule asks about.
pub fn tables(rules: &Rules) -> Vec<Table> {
    Dimension::ALL.into_iter().filter_map(|dimension| table(dimension, rules)).collect()
}

/// `None` if no rule asks about the dimension.
fn table(dimension: Dimension, rules: &Rules) -> Option<Table> {
    let satisfying = |part: &Part, matches: &Match| rows(dimension, part, matches);
    let any = set(rules, |part, matches| satisfying(part, matches).is_none());
    let mut table = Table { dimension, rows: vec![any; dimension.rows() as usize] };
    let mut is_asked = false;
    for (bit, part) in rules.parts().iter().enumerate() {
        let matches = rules.get(part.rule).map(|rule| &rule.matches);
        for range in matches.and_then(|matches| satisfying(part, matches)).into_iter().flatten() {
            is_asked = true;
            let range = *range.start() as usize..=*range.end() as usize;
            table.rows.get_mut(range).into_iter().flatten().for_each(|row| *row |= 1 << bit);
        }
    }
    is_asked.then_some(table)
}

type Rows = Vec<RangeInclusive<u64>>;

/// The rows that a part satisfies; `None` if it has no condition on the dimension. Where a value can't be told, all rules
/// are satisfied.
fn rows(dimension: Dimension, part: &Part, matches: &Match) -> Option<Rows> {
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
        Dimension::Kind => return kinds(part, matches),
        Dimension::Length => (wide(&matches.lengths), None),
    };
    (!rows.is_empty()).then(|| rows.into_iter().chain(unknown.map(|row| row.into()..=row.into())).collect())
}

fn one_each<T>(wanted: &[T], row: impl Fn(&T) -> u64) -> Rows {
    wanted.iter().map(row).map(|row| row..=row).collect()
}

fn wide(ranges: &[RangeInclusive<u16>]) -> Rows {
    ranges.iter().map(|range| u64::from(*range.start())..=u64::from(*range.end())).collect()
}

/// The rows of IP versions and fragments; `None` if all satisfy the part.
fn kinds(part: &Part, matches: &Match) -> Option<Rows> {
    let satisfies = |&row: &u64| {
        let (version, fragment) = kind(row);
        let bits = if version == IpVersion::V4 { part.ipv4 } else { part.ipv6 };
        bits.is_some()
            && matches.ip_version.is_none_or(|wanted| wanted == version)
            && (matches.fragments.is_empty() || matches.fragments.contains(&fragment))
    };
    let all = u64::from(Dimension::Kind.rows());
    let rows: Rows = (0..all).filter(satisfies).map(|row| row..=row).collect();
    ((rows.len() as u64) < all).then_some(rows)
}

/// The sources' prefixes, and the destinations'.
pub fn prefixes(rules: &Rules) -> [Prefixes; 2] {
    let sources = direction(rules, |matches| matches.sources.as_ref());
    [sources, direction(rules, |matches| matches.destinations.as_ref())]
}

/// The bits of the parts that satisfy something.
fn set(rules: &Rules, satisfies: impl Fn(&Part, &Match) -> bool) -> u64 {
    let bits = rules.parts().iter().enumerate().map(|(bit, part)| {
        let matches = rules.get(part.rule).map(|rule| &rule.matches);
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

fn direction(rules: &Rules, prefixes: impl Fn(&Match) -> Option<&Vec<Prefix>>) -> Prefixes {
    let any = set(rules, |_, matches| prefixes(matches).is_none());
    let mut named: BTreeMap<Prefix, u64> = BTreeMap::new();
    for (bit, part) in rules.parts().iter().enumerate() {
        for prefix in rules.get(part.rule).and_then(|rule| prefixes(&rule.matches)).into_iter().flatten() {
            *named.entry(*prefix).or_default() |= 1 << bit;
        }
    }
    let mut sets = Prefixes { any, ..Prefixes::default() };
    // A prefix comes directly before those inside it, so the ones around the present one are on the stack.
    let mut around: Vec<(Prefix, u64)> = Vec::new();
    for (prefix, own) in named {
        while around.pop_if(|(outer, _)| !outer.contains(&prefix)).is_some() {}
        let rules = own | around.last().map_or(any, |(_, rules)| *rules);
        around.push((prefix, rules));
        match prefix.address() {
            IpAddr::V4(address) => sets.v4.push((address.octets(), prefix.len(), rules)),
            IpAddr::V6(address) => sets.v6.push((address.octets(), prefix.len(), rules)),
        }
    }
    sets
}
