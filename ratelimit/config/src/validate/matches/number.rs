//! Numbers of packets as people write them: protocols and ICMP types by name, ports, VLANs and lengths in ranges.

use std::ops::RangeInclusive;

use crate::{
    error::quoted,
    numbers::{ICMP_TYPES, IcmpNumbers, PROTOCOLS},
    policy::{IcmpType, IpVersion},
    words::{nearest, parse_word},
};

/// The largest VLAN id; 4,095 is reserved.
const MOST_VLAN: u16 = 4094;

/// Bytes of an IPv4 packet without any data, on an interface without Ethernet headers.
const SHORTEST_PACKET: u16 = 20;

/// Why a text is not a number of a packet, or not a range of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// Not a name, and not a number.
    #[error("{} is not {what}{}", quoted(.text), meant(.near, .example))]
    Name {
        /// What was written.
        text: String,
        /// What it was to be, such as `a port`.
        what: &'static str,
        /// A known name that was probably meant.
        near: Option<&'static str>,
        /// Some names.
        example: &'static str,
    },
    /// A type of the other ICMP.
    #[error("{} is a type of {} only, but `protocol` is {} only", quoted(.text), .of, .protocol)]
    OtherIcmp {
        /// What was written.
        text: String,
        /// What it is a type of.
        of: &'static str,
        /// What the rule is about.
        protocol: &'static str,
    },
    /// Not a number in range, and not a range of such.
    #[error("{} is not {what}; write a number from 0 to {most}, or a range such as {example}", quoted(.text))]
    Range {
        /// What was written.
        text: String,
        /// What it was to be, such as `a port`.
        what: &'static str,
        /// The largest.
        most: u16,
        /// A range.
        example: &'static str,
    },
    /// A range that is empty.
    #[error("a range goes from the smaller to the larger number; did you mean {last}-{first}?")]
    Descending {
        /// Before the dash.
        first: u16,
        /// Behind it.
        last: u16,
    },
    /// No packet is so short.
    #[error("no IP packet has fewer than {SHORTEST_PACKET} bytes, or 34 with an Ethernet header")]
    TooShort,
}

fn meant(near: &Option<&str>, example: &str) -> String {
    match near {
        Some(near) => format!(", did you mean `{near}`?"),
        None => format!("; write {example}, or a number from 0 to 255"),
    }
}

/// A protocol, by name or number.
pub fn protocol(text: &str) -> Result<u8, NumberError> {
    let known = parse_word(text, &PROTOCOLS).ok();
    known.or_else(|| small_number(text)).ok_or_else(|| NumberError::Name {
        text: text.to_owned(),
        what: "a protocol",
        near: nearest(text, &PROTOCOLS.map(|(name, _)| name)),
        example: "tcp, udp, icmp, icmpv6, gre",
    })
}

/// The types of ICMP messages that a name or number stands for in these versions; at least one.
pub fn icmp_types(text: &str, versions: &[IpVersion]) -> Result<Vec<IcmpType>, NumberError> {
    let named = parse_word(text, &ICMP_TYPES).ok();
    let numbered = || small_number(text).map(|number| IcmpNumbers { v4: Some(number), v6: Some(number) });
    let Some(numbers) = named.or_else(numbered) else {
        return Err(NumberError::Name {
            text: text.to_owned(),
            what: "an ICMP type",
            near: nearest(text, &ICMP_TYPES.map(|(name, _)| name)),
            example: "echo-request, time-exceeded, packet-too-big",
        });
    };
    let types: Vec<IcmpType> = [(IpVersion::V4, numbers.v4), (IpVersion::V6, numbers.v6)]
        .into_iter()
        .filter(|(version, _)| versions.contains(version))
        .filter_map(|(version, number)| Some(IcmpType { version, number: number? }))
        .collect();
    if types.is_empty() {
        let (of, protocol) = if numbers.v4.is_some() { ("ICMP", "icmpv6") } else { ("ICMPv6", "icmp") };
        return Err(NumberError::OtherIcmp { text: text.to_owned(), of, protocol });
    }
    Ok(types)
}

/// A port or a range of them.
pub fn ports(text: &str) -> Result<RangeInclusive<u16>, NumberError> {
    range(text, "a port", u16::MAX, "8000-8999")
}

/// A VLAN id or a range of them.
pub fn vlans(text: &str) -> Result<RangeInclusive<u16>, NumberError> {
    range(text, "a VLAN id", MOST_VLAN, "100-199")
}

/// A length of packets or a range of them.
pub fn lengths(text: &str) -> Result<RangeInclusive<u16>, NumberError> {
    let lengths = range(text, "a length in bytes", u16::MAX, "64-128")?;
    if *lengths.end() < SHORTEST_PACKET { Err(NumberError::TooShort) } else { Ok(lengths) }
}

fn range(
    text: &str,
    what: &'static str,
    most: u16,
    example: &'static str,
) -> Result<RangeInclusive<u16>, NumberError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| digits(text).filter(|number| *number <= most);
    let (Some(first), Some(last)) = (number(first), number(last)) else {
        return Err(NumberError::Range { text: text.to_owned(), what, most, example });
    };
    if first > last {
        return Err(NumberError::Descending { first, last });
    }
    Ok(first..=last)
}

fn small_number(text: &str) -> Option<u8> {
    digits(text).and_then(|number| u8::try_from(number).ok())
}

/// `parse` alone would take `+8`.
fn digits(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_name_is_known_once_and_read_back() {
        for (name, number) in PROTOCOLS {
            assert_eq!(protocol(name), Ok(number));
            assert_eq!(protocol(&number.to_string()), Ok(number));
        }
        for (name, numbers) in ICMP_TYPES {
            let types = icmp_types(name, &[IpVersion::V4, IpVersion::V6]).unwrap();
            let of = |version| types.iter().find(|kind| kind.version == version).map(|kind| kind.number);
            assert_eq!((of(IpVersion::V4), of(IpVersion::V6)), (numbers.v4, numbers.v6), "{name}");
        }
        assert!(crate::policy::duplicates(PROTOCOLS.map(|(name, _)| name)).is_empty());
        assert!(crate::policy::duplicates(ICMP_TYPES.map(|(name, _)| name)).is_empty());
    }

    #[test]
    fn ranges_and_single_numbers() {
        assert_eq!(ports("443"), Ok(443..=443));
        assert_eq!(ports("0-65535"), Ok(0..=65_535));
        assert_eq!(vlans("4094"), Ok(4094..=4094));
        assert_eq!(lengths("0-34"), Ok(0..=34));
        for text in ["", "-", "1-", "-1", "+1", "65536", "1-65536", "1-2-3", "1 - 2", "http", "0x50", "１"] {
            assert!(matches!(ports(text), Err(NumberError::Range { .. })), "{text}");
        }
        assert_eq!(ports("9-5"), Err(NumberError::Descending { first: 9, last: 5 }));
        assert_eq!(lengths("10-20"), Ok(10..=20));
        assert_eq!(lengths("10-19"), Err(NumberError::TooShort));
    }

    proptest! {
        #[test]
        fn any_text_is_a_number_or_an_error(text in "\\PC*|[0-9a-z+-]{0,12}") {
            let _ = (protocol(&text), icmp_types(&text, &[IpVersion::V4]), ports(&text), vlans(&text));
            let _ = lengths(&text);
        }
    }
}
