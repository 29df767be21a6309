//! Conditions that no packet can fulfil together: a rule that never matches is a mistake, and so is an item of a list
//! that never does.

use super::{BOTH, Items, Parts, Prefixes};
use crate::{
    error::{At, Report},
    numbers::{EXTENSION_HEADERS, ICMP, ICMPV6, PROTOCOLS, TCP, WITH_PORTS},
    policy::{Fragment, IpVersion},
    raw::RawMatch,
};

/// A condition that packets of some protocols only can fulfil.
struct OfTransport<'r> {
    key: &'static str,
    at: &'r At,
    /// What the others have none of.
    what: &'static str,
    protocols: &'static [u8],
}

/// A list of which each item may be about one IP version only.
struct OfVersion<'r> {
    key: &'static str,
    at: &'r At,
    items: Vec<(Vec<IpVersion>, &'r At)>,
    is_complete: bool,
}

/// Reports what does not go together.
pub fn find(raw: &RawMatch, parts: &Parts<'_>, report: &mut Report) {
    let conditions = transport_conditions(raw, parts);
    find_in_protocols(parts, &conditions, report);
    find_in_fragments(parts, &conditions, report);
    find_in_versions(parts, report);
}

fn transport_conditions<'r>(raw: &'r RawMatch, parts: &Parts<'r>) -> Vec<OfTransport<'r>> {
    let flags = raw.tcp_flags.as_ref().map(|flags| flags.at());
    let conditions = [
        ("source_port", parts.source_ports.at, "ports", &WITH_PORTS[..]),
        ("destination_port", parts.destination_ports.at, "ports", &WITH_PORTS),
        ("tcp_flags", flags, "TCP flags", &[TCP]),
        ("icmp_type", parts.icmp_types.at, "ICMP type", &[ICMP, ICMPV6]),
    ];
    let given = |(key, at, what, protocols): (_, Option<&'r At>, _, _)| {
        Some(OfTransport { key, at: at?, what, protocols })
    };
    conditions.into_iter().filter_map(given).collect()
}

fn find_in_protocols(parts: &Parts<'_>, conditions: &[OfTransport<'_>], report: &mut Report) {
    for (protocol, at) in &parts.protocols.items {
        if let Some(condition) = conditions.iter().find(|condition| !condition.protocols.contains(protocol)) {
            let (name, OfTransport { key, what, .. }) = (protocol_name(*protocol), condition);
            report.error(
                at,
                format!("{name} has no {what}, so it can never match together with `{key}`; leave one out"),
            );
        }
    }
    if parts.protocols.at.is_some() {
        return;
    }
    // TCP has flags and ports; so only ICMP types go with nothing else.
    if let [first, .., last] = conditions
        && last.key == "icmp_type"
    {
        let (what, key) = (first.what, first.key);
        report
            .error(last.at, format!("no packet has both an ICMP type and {what}; leave this or `{key}` out"));
    }
}

fn find_in_fragments(parts: &Parts<'_>, conditions: &[OfTransport<'_>], report: &mut Report) {
    let Some(OfTransport { key, what, .. }) = conditions.first() else { return };
    for (_, at) in parts.fragments.items.iter().filter(|(fragment, _)| *fragment == Fragment::Later) {
        report.error(
            at,
            format!(
                "a later fragment has no {what}, so it can never match together with `{key}`; leave one out"
            ),
        );
    }
}

fn find_in_versions(parts: &Parts<'_>, report: &mut Report) {
    let lists: Vec<OfVersion<'_>> = [
        OfVersion::new("source", &parts.sources, prefix_versions),
        OfVersion::new("destination", &parts.destinations, prefix_versions),
        OfVersion::new("protocol", &parts.protocols, protocol_versions),
        OfVersion::new("icmp_type", &parts.icmp_types, |types| {
            types.iter().map(|kind| kind.version).collect()
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(version) = parts.ip_version {
        for (versions, at) in lists.iter().flat_map(|list| &list.items) {
            if !versions.contains(&version) {
                let (is, wanted) = (only(versions), number(version));
                report.error(
                    at,
                    format!("is about {is} only, so it can never match together with `ip_version: {wanted}`"),
                );
            }
        }
        return;
    }
    for (index, later) in lists.iter().enumerate() {
        let (versions, earlier) = (later.versions(), lists.iter().take(index));
        let mut others = earlier.map(|list| (list.key, list.versions()));
        if let Some((key, others)) = others.find(|(_, others)| !versions.iter().any(|v| others.contains(v))) {
            let (is, other) = (only(&versions), only(&others));
            report.error(
                later.at,
                format!("is about {is} only, and `{key}` about {other} only: no packet is both"),
            );
            return;
        }
    }
}

impl<'r> OfVersion<'r> {
    /// `None` if the list is not given.
    fn new<T>(
        key: &'static str,
        list: &Items<'r, T>,
        versions: impl Fn(&T) -> Vec<IpVersion>,
    ) -> Option<Self> {
        let items = list.items.iter().map(|(item, at)| (versions(item), *at)).collect();
        Some(Self { key, at: list.at?, items, is_complete: list.is_complete })
    }

    /// The versions of all items; those of items that could not be read may be any.
    fn versions(&self) -> Vec<IpVersion> {
        let has = |version: &IpVersion| self.items.iter().any(|(versions, _)| versions.contains(version));
        BOTH.into_iter().filter(|version| !self.is_complete || has(version)).collect()
    }
}

/// What a file has may be another tomorrow.
fn prefix_versions(item: &Prefixes) -> Vec<IpVersion> {
    match item {
        Prefixes::Inline(prefix) if prefix.address().is_ipv4() => vec![IpVersion::V4],
        Prefixes::Inline(_) => vec![IpVersion::V6],
        Prefixes::File(_) => BOTH.to_vec(),
    }
}

fn protocol_versions(protocol: &u8) -> Vec<IpVersion> {
    match *protocol {
        ICMPV6 => vec![IpVersion::V6],
        ICMP => vec![IpVersion::V4],
        // In IPv6 the protocol is what comes behind them.
        header if EXTENSION_HEADERS.contains(&header) => vec![IpVersion::V4],
        _ => BOTH.to_vec(),
    }
}

const fn number(version: IpVersion) -> u8 {
    match version {
        IpVersion::V4 => 4,
        IpVersion::V6 => 6,
    }
}

fn only(versions: &[IpVersion]) -> &'static str {
    if versions.contains(&IpVersion::V4) { "IPv4" } else { "IPv6" }
}

fn protocol_name(number: u8) -> String {
    match PROTOCOLS.iter().find(|(_, known)| *known == number) {
        Some((name, _)) => format!("`{name}`"),
        None => format!("protocol {number}"),
    }
}
