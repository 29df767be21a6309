//! Exceptions of rules that change nothing, or that leave a rule without packets.

use std::ops::RangeInclusive;

use super::super::{
    error::Report,
    raw::{RawMatch, RawRule},
};
use crate::policy::{IpVersion, Match, PacketRule, Prefix, PrefixList};

/// Notes them.
pub fn find(raw: &RawRule, rule: &PacketRule, report: &mut Report) {
    for (index, (raw, except)) in raw.except.iter().zip(&rule.except).enumerate() {
        if is_empty(raw, except, report) {
            continue;
        }
        let others = rule.except.iter().take(index);
        if contains(except, &rule.matches) {
            report.warning(&raw.at, "excepts all that `match` names: the rule matches no packet");
        } else if let Some(key) = apart(except, &rule.matches) {
            let message = format!("`{key}` has nothing in common with that of `match`: nothing is excepted");
            report.warning(&raw.at, message);
        } else if others.into_iter().any(|other| contains(other, except)) {
            report.warning(&raw.at, "an exception before it excepts all of this: leave it out");
        }
    }
}

fn is_empty(raw: &RawMatch, except: &Match, report: &mut Report) -> bool {
    let mut is_empty = false;
    for (raw, prefixes) in [(&raw.source, &except.sources), (&raw.destination, &except.destinations)] {
        if let (Some(raw), Some([])) = (raw, prefixes.as_deref()) {
            is_empty = true;
            report.warning(&raw.at, "has no prefix, because its files are empty: nothing is excepted");
        }
    }
    is_empty
}

/// Whether every packet that fulfils `inner` fulfils `outer`, as far as each key tells it by itself.
fn contains(outer: &Match, inner: &Match) -> bool {
    has_addresses(outer.sources.as_ref(), inner.sources.as_ref(), inner.ip_version)
        && has_addresses(outer.destinations.as_ref(), inner.destinations.as_ref(), inner.ip_version)
        && has_ranges(&outer.source_ports, &inner.source_ports)
        && has_ranges(&outer.destination_ports, &inner.destination_ports)
        && has_ranges(&outer.vlans, &inner.vlans)
        && has_ranges(&outer.lengths, &inner.lengths)
        && has_all(&outer.protocols, &inner.protocols)
        && has_all(&outer.icmp_types, &inner.icmp_types)
        && has_all(&outer.fragments, &inner.fragments)
        && (outer.tcp_flags.is_none() || outer.tcp_flags == inner.tcp_flags)
        && (outer.ip_version.is_none() || outer.ip_version == inner.ip_version)
}

fn has_addresses(
    outer: Option<&Vec<Prefix>>,
    inner: Option<&Vec<Prefix>>,
    version: Option<IpVersion>,
) -> bool {
    let Some(outer) = outer.map(|outer| PrefixList::new(outer.clone())) else { return true };
    let versions = [IpVersion::V4, IpVersion::V6].into_iter();
    match inner {
        Some(inner) => inner.iter().all(|prefix| outer.around(prefix).is_some()),
        None => versions
            .filter(|of| version.is_none_or(|version| version == *of))
            .all(|version| outer.has_all_of(version)),
    }
}

/// Whether each of the ranges lies in one of the outer ones.
fn has_ranges(outer: &[RangeInclusive<u16>], inner: &[RangeInclusive<u16>]) -> bool {
    let is_inside = |range: &RangeInclusive<u16>| {
        outer.iter().any(|outer| outer.contains(range.start()) && outer.contains(range.end()))
    };
    outer.is_empty() || !inner.is_empty() && inner.iter().all(is_inside)
}

fn has_all<T: PartialEq>(outer: &[T], inner: &[T]) -> bool {
    outer.is_empty() || !inner.is_empty() && inner.iter().all(|item| outer.contains(item))
}

/// A key by which no packet fulfils both.
fn apart(one: &Match, other: &Match) -> Option<&'static str> {
    let keys = [
        ("source", are_addresses_apart(one.sources.as_ref(), other.sources.as_ref())),
        ("destination", are_addresses_apart(one.destinations.as_ref(), other.destinations.as_ref())),
        ("source_port", are_ranges_apart(&one.source_ports, &other.source_ports)),
        ("destination_port", are_ranges_apart(&one.destination_ports, &other.destination_ports)),
        ("length", are_ranges_apart(&one.lengths, &other.lengths)),
        ("protocol", are_apart(&one.protocols, &other.protocols)),
        ("icmp_type", are_apart(&one.icmp_types, &other.icmp_types)),
        ("fragment", are_apart(&one.fragments, &other.fragments)),
        ("ip_version", one.ip_version.zip(other.ip_version).is_some_and(|(one, other)| one != other)),
    ];
    keys.into_iter().find(|(_, are_apart)| *are_apart).map(|(key, _)| key)
}

fn are_addresses_apart(one: Option<&Vec<Prefix>>, other: Option<&Vec<Prefix>>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    let other = PrefixList::new(other.clone());
    one.iter().all(|prefix| other.meeting(prefix).is_none())
}

fn are_ranges_apart(one: &[RangeInclusive<u16>], other: &[RangeInclusive<u16>]) -> bool {
    let meets = |one: &RangeInclusive<u16>| {
        other.iter().any(|other| one.start() <= other.end() && other.start() <= one.end())
    };
    !one.is_empty() && !other.is_empty() && !one.iter().any(meets)
}

fn are_apart<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    !one.is_empty() && !other.is_empty() && !one.iter().any(|item| other.contains(item))
}
