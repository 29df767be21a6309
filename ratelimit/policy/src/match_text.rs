//! A rule's condition in one line, with the keys and words of the configuration.

use std::{fmt::Display, ops::RangeInclusive};

use super::numbers::{ICMP_TYPES, TCP_FLAGS, protocol_name};
use crate::{Fragment, IcmpType, IpVersion, Match, Prefix, TcpFlags};

/// Longer ones are cut: they are for people, and are kept with what is in force.
const LONGEST: usize = 400;

/// What a rule without a condition matches.
const ANY: &str = "any packet";

/// Which packets a rule judges, whose condition and whose exception are written so.
#[must_use]
pub fn with_except(matches: String, except: Option<&str>) -> String {
    match except {
        Some(except) => format!("{matches}, except {except}"),
        None => matches,
    }
}

/// Writes what a rule excepts in one line; `None` if it is nothing.
#[must_use]
pub fn format_except(except: &[Match]) -> Option<String> {
    match except {
        [] => None,
        [only] => Some(format_match(only)),
        several => {
            let each = several.iter().map(|except| format!("({})", format_match(except)));
            Some(shortened(each.collect::<Vec<_>>().join(" or ")))
        }
    }
}

/// Writes a condition in one line.
#[must_use]
pub fn format_match(matches: &Match) -> String {
    let flags = matches.tcp_flags.map(flags).unwrap_or_default();
    let versions = matches.ip_version.map(|version| if version == IpVersion::V4 { "4" } else { "6" });
    let parts = [
        ("protocol", list(&matches.protocols, |&number| named(protocol_name(number), number))),
        ("source", prefixes(matches.sources.as_ref())),
        ("destination", prefixes(matches.destinations.as_ref())),
        ("source_port", list(&matches.source_ports, range)),
        ("destination_port", list(&matches.destination_ports, range)),
        ("tcp_flags", flags),
        ("icmp_type", icmp_types(&matches.icmp_types)),
        ("fragment", list(&matches.fragments, |fragment| word(*fragment).to_owned())),
        ("vlan", list(&matches.vlans, range)),
        ("length", list(&matches.lengths, range)),
        ("ip_version", versions.unwrap_or_default().to_owned()),
    ];
    let parts = parts.iter().filter(|(_, values)| !values.is_empty());
    let text = parts.map(|(key, values)| format!("{key} {values}")).collect::<Vec<_>>().join(", ");
    if text.is_empty() { ANY.to_owned() } else { shortened(text) }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn list<T>(items: &[T], format: impl Fn(&T) -> String) -> String {
    items.iter().map(format).collect::<Vec<_>>().join(" ")
}

/// Many of them, as from a file, are more than is shown.
fn prefixes(prefixes: Option<&Vec<Prefix>>) -> String {
    match prefixes.map(Vec::as_slice) {
        None => String::new(),
        Some([]) => "none".to_owned(),
        Some(prefixes) => list(prefixes.get(..LONGEST).unwrap_or(prefixes), ToString::to_string),
    }
}

/// A name that both versions of ICMP have is there once.
fn icmp_types(types: &[IcmpType]) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in types.iter().map(icmp_type) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" ")
}

fn named(name: Option<&str>, number: impl Display) -> String {
    name.map_or_else(|| number.to_string(), str::to_owned)
}

fn range(range: &RangeInclusive<u16>) -> String {
    let (first, last) = (range.start(), range.end());
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

fn flags(flags: TcpFlags) -> String {
    let named = |bits: u8, sign: &str| {
        let set = TCP_FLAGS.iter().filter(|(_, bit)| bits & bit != 0);
        set.map(|(name, _)| format!("{sign}{name}")).collect::<Vec<_>>()
    };
    [named(flags.set, ""), named(flags.unset, "!")].concat().join(" ")
}

fn icmp_type(wanted: &IcmpType) -> String {
    let number = Some(wanted.number);
    let known = ICMP_TYPES.iter().find(|(_, numbers)| match wanted.version {
        IpVersion::V4 => numbers.v4 == number,
        IpVersion::V6 => numbers.v6 == number,
    });
    named(known.map(|(name, _)| *name), wanted.number)
}

const fn word(fragment: Fragment) -> &'static str {
    match fragment {
        Fragment::No => "no",
        Fragment::First => "first",
        Fragment::Later => "later",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_written_as_they_are_configured() {
        let matches = Match {
            protocols: vec![6, 200],
            sources: Some(vec!["10.0.0.0/8".parse().unwrap()]),
            destination_ports: vec![80..=80, 8_000..=8_999],
            tcp_flags: Some(TcpFlags { set: 2, unset: 16 }),
            fragments: vec![Fragment::No],
            ip_version: Some(IpVersion::V4),
            ..Match::default()
        };
        assert_eq!(
            format_match(&matches),
            "protocol tcp 200, source 10.0.0.0/8, destination_port 80 8000-8999, tcp_flags syn !ack, fragment no, \
             ip_version 4"
        );
        assert_eq!(format_match(&Match::default()), "any packet");
        let types = [(IpVersion::V4, 8), (IpVersion::V6, 250)];
        let icmp_types = types.map(|(version, number)| IcmpType { version, number }).to_vec();
        assert_eq!(format_match(&Match { icmp_types, ..Match::default() }), "icmp_type echo-request 250");
        let both = [(IpVersion::V4, 8), (IpVersion::V6, 128), (IpVersion::V4, 250), (IpVersion::V6, 250)];
        let icmp_types = both.map(|(version, number)| IcmpType { version, number }).to_vec();
        assert_eq!(format_match(&Match { icmp_types, ..Match::default() }), "icmp_type echo-request 250");
    }

    #[test]
    fn several_exceptions_are_told_apart() {
        let of = |protocol| Match {
            protocols: vec![protocol],
            destination_ports: vec![53..=53],
            ..Match::default()
        };
        assert_eq!(format_except(&[]), None);
        assert_eq!(format_except(&[of(17)]).unwrap(), "protocol udp, destination_port 53");
        let both = "(protocol udp, destination_port 53) or (protocol tcp, destination_port 53)";
        assert_eq!(format_except(&[of(17), of(6)]).unwrap(), both);
        assert_eq!(format_except(&vec![of(17); 40]).unwrap().chars().count(), LONGEST + 3);
    }

    #[test]
    fn an_empty_list_of_prefixes_is_told_from_none() {
        let matches = Match { sources: Some(Vec::new()), ..Match::default() };
        assert_eq!(format_match(&matches), "source none");
    }

    #[test]
    fn what_is_too_long_to_be_kept_is_cut() {
        let vlans = (0..2_000).map(|id| id..=id).collect();
        let text = format_match(&Match { vlans, ..Match::default() });
        assert!(text.starts_with("vlan 0 1 2 ") && text.ends_with("..."), "{text}");
        assert_eq!(text.len(), LONGEST + 3);
    }
}
