//! The classification tables: for each value of a dimension, the set of rules that it satisfies.

use std::{collections::BTreeMap, net::IpAddr, ops::RangeInclusive};

use ratelimit_common::{
    classify::{Dimension, ROWS_OF_FURTHER},
    packet,
};

use crate::policy::{Fragment, IcmpType, IpVersion, Match, PacketRules, Prefix, RulePart, TcpFlags};

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

/// Prefixes of one family, each with the rules that an address satisfies whose longest prefix it is: those that match,
/// and those that except.
pub type PrefixSets<K> = Vec<(K, u8, [u64; 2])>;

/// The conditions on addresses of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressConditions {
    /// The rules without such a condition: what an address satisfies that is in no prefix.
    pub any: [u64; 2],
    /// The sets of IPv4 prefixes.
    pub v4: PrefixSets<[u8; 4]>,
    /// The sets of IPv6 prefixes.
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

    /// All conditions of this side.
    fn conditions(self, rules: &PacketRules) -> Vec<Condition<'_>> {
        match self {
            Self::Matches => {
                let parts = rules.parts().iter().enumerate();
                let condition = |(bit, part): (usize, &RulePart)| {
                    let versions = [part.ipv4, part.ipv6].map(|bits| bits.is_some());
                    Some(Condition { bits: 1 << bit, versions, matches: &rules.get(part.rule)?.matches })
                };
                parts.filter_map(condition).collect()
            }
            Self::Excepts => {
                let first = rules
                    .iter()
                    .enumerate()
                    .filter_map(|(index, rule)| Some((bits_of(rules, index), rule.except.first()?)));
                let further = further_excepts(rules).into_iter().map(|further| (further.bit, further.except));
                let all = first.chain(further);
                all.map(|(bits, matches)| Condition { bits, versions: [true; 2], matches }).collect()
            }
        }
    }
}

/// A condition, the bits that stand for it, and for which versions of IP it can hold.
struct Condition<'r> {
    bits: u64,
    versions: [bool; 2],
    matches: &'r Match,
}

/// An exception that is not the first of its rule.
pub struct FurtherExcept<'r> {
    /// The bit that stands for it.
    pub bit: u64,
    /// The bits of its rule.
    pub rule: u64,
    except: &'r Match,
}

/// All of those, with bits that no first exception has: there are enough, see [`PacketRules::new`].
pub fn further_excepts(rules: &PacketRules) -> Vec<FurtherExcept<'_>> {
    let excepting = excepting(rules);
    let free = (0..u64::BITS).map(|bit| 1 << bit).filter(|bit: &u64| excepting & bit == 0);
    let further = rules.iter().enumerate().flat_map(|(index, rule)| {
        rule.except.iter().skip(1).map(move |except| (bits_of(rules, index), except))
    });
    free.zip(further).map(|(bit, (rule, except))| FurtherExcept { bit, rule, except }).collect()
}

/// The bits of the rules that except something.
pub fn excepting(rules: &PacketRules) -> u64 {
    let some = rules.iter().enumerate().filter(|(_, rule)| !rule.except.is_empty());
    some.fold(0, |set, (index, _)| set | bits_of(rules, index))
}

/// What [`ratelimit_common::classify::Exceptions::rules_of`] looks up.
pub fn rows_of_further(rules: &PacketRules) -> Box<[u64; ROWS_OF_FURTHER]> {
    let mut rows = Box::new([0; ROWS_OF_FURTHER]);
    for FurtherExcept { bit, rule, .. } in further_excepts(rules) {
        let (byte, place) = (bit.trailing_zeros() / 8, bit.trailing_zeros() % 8);
        let of_byte = rows.iter_mut().skip(256 * byte as usize).take(256).enumerate();
        of_byte.filter(|(row, _)| row >> place & 1 != 0).for_each(|(_, rules)| *rules |= rule);
    }
    rows
}

/// The bits of all parts of the rule at `index`.
fn bits_of(rules: &PacketRules, index: usize) -> u64 {
    let parts = rules.parts().iter().enumerate().filter(|(_, part)| part.rule == index);
    parts.fold(0, |set, (bit, _)| set | 1 << bit)
}

/// The tables of the dimensions that some rule asks about, and for each side the bits of these dimensions.
pub fn tables(rules: &PacketRules) -> (Vec<DimensionTable>, [u32; 2]) {
    let mut asked = [0; 2];
    let mut table = |dimension: Dimension| {
        let sides = Side::BOTH.map(|side| side_table(side, dimension, rules));
        for (asked, side) in asked.iter_mut().zip(&sides) {
            *asked |= if side.is_some() { dimension.bit() } else { 0 };
        }
        let all = || vec![all(Side::Matches, rules); dimension.rows() as usize];
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
    let (mut any, mut asking) = (0, Vec::new());
    for condition in side.conditions(rules) {
        match rows(side, dimension, &condition) {
            None => any |= condition.bits,
            Some(rows) => asking.push((condition.bits, rows)),
        }
    }
    let mut table = vec![any; dimension.rows() as usize];
    for (bits, rows) in &asking {
        for range in rows {
            let range = *range.start() as usize..=*range.end() as usize;
            table.get_mut(range).into_iter().flatten().for_each(|row| *row |= bits);
        }
    }
    (!asking.is_empty()).then_some(table)
}

type Rows = Vec<RangeInclusive<u64>>;

/// The rows that satisfy a condition; `None` if it does not ask about the dimension. Where a value can't be told, all
/// rules match and none excepts.
fn rows(side: Side, dimension: Dimension, condition: &Condition<'_>) -> Option<Rows> {
    let matches = condition.matches;
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
        Dimension::Kind => return kinds(condition),
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

/// The rows of IP versions and fragments; `None` if all satisfy the condition.
fn kinds(condition: &Condition<'_>) -> Option<Rows> {
    let Condition { versions, matches, .. } = condition;
    let satisfies = |&row: &u64| {
        let (version, fragment) = kind(row);
        versions[usize::from(version == IpVersion::V6)]
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

/// The bits of all conditions of a side.
pub fn all(side: Side, rules: &PacketRules) -> u64 {
    side.conditions(rules).iter().fold(0, |set, condition| set | condition.bits)
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
    let mut any = [0; 2];
    let mut named: BTreeMap<Prefix, [u64; 2]> = BTreeMap::new();
    for (place, side) in Side::BOTH.into_iter().enumerate() {
        for Condition { bits, matches, .. } in side.conditions(rules) {
            match prefixes(matches) {
                None => any[place] |= bits,
                Some(prefixes) => {
                    prefixes.iter().for_each(|prefix| named.entry(*prefix).or_default()[place] |= bits);
                }
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
