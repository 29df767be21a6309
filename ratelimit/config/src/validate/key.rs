//! The key of a rule: what has a bucket of its own.

use std::num::NonZeroU32;

use super::word;
use crate::{
    count::parse_count,
    error::{At, Report, quoted},
    fields::LocatedText,
    policy::{PacketKey, PacketLimit, PrefixLength, PrefixLengths},
    raw::{RawKey, RawLengths},
};

/// The largest factor. A network of that many active sources needs no limit but a global one.
const MOST_FACTOR: u32 = 1_000_000;

/// A key that is right, and what can still turn out wrong with it.
#[derive(Debug)]
pub struct CheckedKey<'r> {
    /// The key.
    pub key: PacketKey,
    /// Where it stands, if it is given.
    pub at: Option<&'r At>,
    factors: Vec<(NonZeroU32, &'r At)>,
}

impl CheckedKey<'_> {
    /// Reports the factors with which a limit becomes too large.
    pub fn check_factors(&self, limit: &PacketLimit, report: &mut Report) {
        for (factor, at) in &self.factors {
            if let Err(error) = limit.times(*factor) {
                report.error(at, format!("with factor {factor}: {error}"));
            }
        }
    }
}

/// Judges a key.
pub fn validate<'r>(raw: &'r RawKey, report: &mut Report) -> Option<CheckedKey<'r>> {
    let words = || {
        let lengths = PrefixLengths::default;
        [
            ("source", PacketKey::Source(lengths())),
            ("destination", PacketKey::Destination(lengths())),
            ("source_destination", PacketKey::SourceDestination(lengths())),
            ("flow", PacketKey::Flow),
            ("global", PacketKey::Global),
        ]
    };
    match raw {
        RawKey::Default => Some(CheckedKey { key: PacketKey::default(), at: None, factors: Vec::new() }),
        RawKey::Word(text) => {
            let key = word(Some(text), &words(), report)?;
            Some(CheckedKey { key, at: Some(&text.at), factors: Vec::new() })
        }
        RawKey::Lengths { at, word, ipv4, ipv6 } => {
            let mut factors = Vec::new();
            let ipv4 =
                lengths(ipv4, PrefixLengths::DEFAULT_IPV4, PrefixLengths::MOST_IPV4, &mut factors, report);
            let ipv6 =
                lengths(ipv6, PrefixLengths::DEFAULT_IPV6, PrefixLengths::MOST_IPV6, &mut factors, report);
            let lengths = PrefixLengths::new(ipv4?, ipv6?)?;
            let key = match *word {
                "source" => PacketKey::Source(lengths),
                "destination" => PacketKey::Destination(lengths),
                _ => PacketKey::SourceDestination(lengths),
            };
            Some(CheckedKey { key, at: Some(at), factors })
        }
    }
}

/// The lengths for one family. Each factor goes to `factors`, with its place.
fn lengths<'r>(
    raw: &'r RawLengths,
    default: u8,
    most: u8,
    factors: &mut Vec<(NonZeroU32, &'r At)>,
    report: &mut Report,
) -> Option<Vec<PrefixLength>> {
    let entries = match raw {
        RawLengths::Default => return Some(vec![default.into()]),
        RawLengths::One(text) => return Some(vec![bits(text, most, report)?.into()]),
        RawLengths::Several(entries) => entries,
    };
    let mut judged: Vec<(PrefixLength, &At)> = Vec::new();
    for (length, text) in entries {
        let (bits, factor) = (bits(length, most, report), factor(text, report));
        factors.extend(factor.map(|factor| (factor, &text.at)));
        if let (Some(bits), Some(factor)) = (bits, factor) {
            if judged.iter().any(|(other, _)| other.bits == bits) {
                report.error(&length.at, format!("the length {bits} is there twice"));
            } else {
                judged.push((PrefixLength { bits, factor }, &text.at));
            }
        }
    }
    refuse_smaller_factors(&judged, report);
    (judged.len() == entries.len()).then(|| judged.into_iter().map(|(length, _)| length).collect())
}

fn bits(text: &LocatedText, most: u8, report: &mut Report) -> Option<u8> {
    let digits = text.text.bytes().all(|byte| byte.is_ascii_digit());
    let length = text.text.parse().ok().filter(|length| digits && (1..=most).contains(length));
    if length.is_none() {
        let given = quoted(&text.text);
        report.error(
            &text.at,
            format!("{given} is not a prefix length; must be a whole number from 1 to {most}"),
        );
    }
    length
}

fn factor(text: &LocatedText, report: &mut Report) -> Option<NonZeroU32> {
    let factor = parse_count(&text.text).ok().and_then(|count| NonZeroU32::try_from(count).ok());
    let factor = factor.filter(|factor| factor.get() <= MOST_FACTOR);
    if factor.is_none() {
        let given = quoted(&text.text);
        report.error(
            &text.at,
            format!("{given} is not a factor; must be a whole number from 1 to {MOST_FACTOR}"),
        );
    }
    factor
}

/// A network's limit below that of a part of it would leave the part's limit without effect.
fn refuse_smaller_factors(lengths: &[(PrefixLength, &At)], report: &mut Report) {
    for (length, at) in lengths {
        let longer = lengths.iter().map(|(longer, _)| longer).filter(|longer| longer.bits > length.bits);
        if let Some(longer) = longer.filter(|longer| longer.factor > length.factor).max_by_key(|l| l.factor) {
            let (bits, factor) = (length.bits, length.factor);
            let (longer_bits, longer_factor) = (longer.bits, longer.factor);
            report.error(
                at,
                format!(
                    "a /{bits} with factor {factor} allows less than a /{longer_bits} inside it, with factor \
                     {longer_factor}, whose limit would never be reached; must be at least {longer_factor}"
                ),
            );
        }
    }
}
