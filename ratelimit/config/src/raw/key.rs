//! The shape of a rule's key: a word, or a mapping with prefix lengths.

use crate::{
    error::{At, Report, quoted},
    fields::{Field, LocatedText, Mapping},
    keys,
};

/// `key`
#[derive(Debug, Default)]
pub enum RawKey {
    /// Not given, or of a wrong shape that has been reported.
    #[default]
    Default,
    /// A word.
    Word(LocatedText),
    /// `{source: {ipv4: ..., ipv6: ...}}`, or with another word than `source`.
    Lengths {
        /// Where it stands.
        at: At,
        /// One of the keys that are known.
        word: &'static str,
        /// `ipv4`
        ipv4: RawLengths,
        /// `ipv6`
        ipv6: RawLengths,
    },
}

/// `ipv4` or `ipv6` in a key.
#[derive(Debug, Default)]
pub enum RawLengths {
    /// Not given, or of a wrong shape that has been reported.
    #[default]
    Default,
    /// A single length.
    One(LocatedText),
    /// Lengths with a factor each; at least one.
    Several(Vec<(LocatedText, LocatedText)>),
}

/// Words that stand for a key only by themselves.
const WITHOUT_LENGTHS: [&str; 2] = ["flow", "global"];

/// Reads a key.
pub fn read(field: &Field<'_>, report: &mut Report) -> Option<RawKey> {
    if !field.is_mapping() {
        return Some(RawKey::Word(field.text(report)?));
    }
    if let Some((word, at)) = WITHOUT_LENGTHS.iter().find_map(|word| Some((word, field.key_at(word)?))) {
        report.error(&at, format!("`{word}` has no prefix lengths; write `key: {word}`"));
        return None;
    }
    let known = keys::names("network.rules[].key");
    let key = field.mapping(&known, report)?;
    let mut words = known.into_iter().filter_map(|word| Some((word, key.get(word)?)));
    let Some((word, lengths)) = words.next() else {
        if key.is_empty() {
            report.error(key.at(), "is empty; write `source` or `{source: {ipv4: 32, ipv6: 64}}`");
        }
        return None;
    };
    for (other, _) in words {
        let at = field.key_at(other).unwrap_or_default();
        let message = format!(
            "a key is one of these, and there is `{word}` already; for both addresses together \
                               write `source_destination`, or make two rules"
        );
        report.error(&at, message);
    }
    let lengths = lengths.mapping(&keys::names("network.rules[].key.source"), report)?;
    let ipv4 = read_lengths(&lengths, "ipv4", report);
    let ipv6 = read_lengths(&lengths, "ipv6", report);
    Some(RawKey::Lengths {
        at: key.at().clone(),
        word,
        ipv4: ipv4.unwrap_or_default(),
        ipv6: ipv6.unwrap_or_default(),
    })
}

fn read_lengths(lengths: &Mapping<'_>, family: &str, report: &mut Report) -> Option<RawLengths> {
    let length = lengths.get(family)?;
    if !length.is_mapping() {
        return Some(RawLengths::One(length.text(report)?));
    }
    let entries = length.entries();
    if entries.is_empty() {
        report
            .error(length.at(), "is empty; write a prefix length, or several with factors: {32: 1, 24: 32}");
    }
    let factors: Vec<(LocatedText, LocatedText)> = entries
        .into_iter()
        .filter_map(|(length, factor)| {
            if factor.is_null() {
                let length = quoted(&length.text);
                report.error(
                    factor.at(),
                    format!("has no factor; write how many times the limit {length} has"),
                );
                return None;
            }
            Some((length, factor.text(report)?))
        })
        .collect();
    (!factors.is_empty()).then_some(RawLengths::Several(factors))
}
