//! The condition of a rule: each value for itself (`number`, `flags`), and whether they go together (`conflicts`).

mod conflicts;
mod flags;
mod number;

use std::{ops::RangeInclusive, sync::Arc};

use super::{parsed, prefixes::ListReader, word};
use crate::{
    error::{At, Report},
    fields::LocatedTexts,
    numbers,
    policy::{Fragment, IcmpType, IpVersion, ListPurpose, Match, Prefix, PrefixList, TcpFlags},
    raw::{RawMatch, RawPrefix, RawPrefixes},
    words::parse_word,
};

const FRAGMENTS: [(&str, Fragment); 3] =
    [("no", Fragment::No), ("first", Fragment::First), ("later", Fragment::Later)];
const IP_VERSIONS: [(&str, IpVersion); 2] = [("4", IpVersion::V4), ("6", IpVersion::V6)];

/// Both versions of IP.
const BOTH: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];

/// The items of a list that are right, with their places.
#[derive(Debug)]
struct Items<'r, T> {
    /// Where the list stands; nowhere if it is not given.
    at: Option<&'r At>,
    items: Vec<(T, &'r At)>,
    /// Whether no item was wrong.
    is_complete: bool,
}

impl<'r, T> Items<'r, T> {
    /// Judges each item of a list.
    fn read<E: std::fmt::Display>(
        texts: Option<&'r LocatedTexts>,
        parse: impl Fn(&str) -> Result<T, E>,
        report: &mut Report,
    ) -> Self {
        let Some(texts) = texts else { return Self { at: None, items: Vec::new(), is_complete: true } };
        let parsed = texts.items.iter().filter_map(|text| {
            let value = parse(&text.text).map_err(|error| report.error(&text.at, error)).ok()?;
            Some((value, &text.at))
        });
        let items: Vec<_> = parsed.collect();
        Self { at: Some(&texts.at), is_complete: items.len() == texts.items.len(), items }
    }

    fn values(self) -> Vec<T> {
        self.items.into_iter().map(|(value, _)| value).collect()
    }
}

/// An item of a list of prefixes.
#[derive(Debug)]
enum Prefixes {
    Inline(Prefix),
    File(Arc<PrefixList>),
}

/// All parts of a condition.
#[derive(Debug)]
struct Parts<'r> {
    protocols: Items<'r, u8>,
    sources: Items<'r, Prefixes>,
    destinations: Items<'r, Prefixes>,
    source_ports: Items<'r, RangeInclusive<u16>>,
    destination_ports: Items<'r, RangeInclusive<u16>>,
    tcp_flags: Option<TcpFlags>,
    icmp_types: Items<'r, Vec<IcmpType>>,
    fragments: Items<'r, Fragment>,
    vlans: Items<'r, RangeInclusive<u16>>,
    lengths: Items<'r, RangeInclusive<u16>>,
    ip_version: Option<IpVersion>,
}

/// Judges a condition, of which the lists of sources and destinations are called so, unless the rule's name is wrong.
/// With a mistake reported, what comes back is not to be used.
pub fn validate(
    raw: &RawMatch,
    own: Option<&[ListPurpose; 2]>,
    lists: &mut ListReader<'_>,
    report: &mut Report,
) -> Match {
    let protocols = Items::read(raw.protocol.as_ref(), number::protocol, report);
    let icmp_versions = icmp_versions(&protocols);
    let [source, destination] =
        own.map_or([None; 2], |[source, destination]| [Some(source), Some(destination)]);
    let parts = Parts {
        sources: prefixes(raw.source.as_ref(), source, lists, report),
        destinations: prefixes(raw.destination.as_ref(), destination, lists, report),
        source_ports: Items::read(raw.source_port.as_ref(), number::ports, report),
        destination_ports: Items::read(raw.destination_port.as_ref(), number::ports, report),
        tcp_flags: raw.tcp_flags.as_ref().and_then(|flags| flags::validate(flags, report)),
        icmp_types: Items::read(
            raw.icmp_type.as_ref(),
            |text| number::icmp_types(text, &icmp_versions),
            report,
        ),
        fragments: Items::read(raw.fragment.as_ref(), |text| parse_word(text, &FRAGMENTS), report),
        vlans: Items::read(raw.vlan.as_ref(), number::vlans, report),
        lengths: Items::read(raw.length.as_ref(), number::lengths, report),
        ip_version: word(raw.ip_version.as_ref(), &IP_VERSIONS, report),
        protocols,
    };
    conflicts::find(raw, &parts, report);
    Match {
        protocols: parts.protocols.values(),
        sources: listed(parts.sources),
        destinations: listed(parts.destinations),
        source_ports: parts.source_ports.values(),
        destination_ports: parts.destination_ports.values(),
        tcp_flags: parts.tcp_flags,
        icmp_types: parts.icmp_types.values().concat(),
        fragments: parts.fragments.values(),
        vlans: parts.vlans.values(),
        lengths: parts.lengths.values(),
        ip_version: parts.ip_version,
    }
}

/// Judges a list of prefixes and files of them.
fn prefixes<'r>(
    raw: Option<&'r RawPrefixes>,
    list: Option<&ListPurpose>,
    lists: &mut ListReader<'_>,
    report: &mut Report,
) -> Items<'r, Prefixes> {
    let Some(raw) = raw else { return Items { at: None, items: Vec::new(), is_complete: true } };
    let mut read = |item: &'r RawPrefix| match item {
        RawPrefix::Inline(text) => Some((Prefixes::Inline(parsed(Some(text), report)?), &text.at)),
        RawPrefix::File(path) => Some((Prefixes::File(lists.matched(list, path, report)?), &path.at)),
        // Those that are known have been resolved.
        RawPrefix::List(_) => None,
    };
    let items: Vec<_> = raw.items.iter().filter_map(&mut read).collect();
    Items { at: Some(&raw.at), is_complete: items.len() == raw.items.len(), items }
}

/// `None` if there is no such condition. One that has no prefix, because a file is empty, nothing fulfils.
fn listed(items: Items<'_, Prefixes>) -> Option<Vec<Prefix>> {
    items.at?;
    let mut all = Vec::new();
    for (item, _) in items.items {
        match item {
            Prefixes::Inline(prefix) => all.push(prefix),
            Prefixes::File(prefixes) => all.extend(prefixes.iter()),
        }
    }
    Some(all)
}

/// The versions of ICMP that these protocols leave: both if they are others altogether, which `conflicts` reports.
fn icmp_versions(protocols: &Items<'_, u8>) -> Vec<IpVersion> {
    let has = |wanted: u8| protocols.items.iter().any(|(protocol, _)| *protocol == wanted);
    match (has(numbers::ICMP), has(numbers::ICMPV6)) {
        _ if !protocols.is_complete => BOTH.to_vec(),
        (true, false) => vec![IpVersion::V4],
        (false, true) => vec![IpVersion::V6],
        _ => BOTH.to_vec(),
    }
}
