//! The shape of a rule's conditions: `match` and `except`.

use super::{RawPrefix, read_prefix};
use crate::{
    error::{At, Report},
    fields::{Field, LocatedText, LocatedTexts},
    keys,
};

/// `match`, or `except`, which has the same keys.
#[derive(Debug)]
pub struct RawMatch {
    /// Where it stands.
    pub at: At,
    /// Whether it has no keys.
    pub is_empty: bool,
    /// `protocol`
    pub protocol: Option<LocatedTexts>,
    /// `source`
    pub source: Option<RawPrefixes>,
    /// `destination`
    pub destination: Option<RawPrefixes>,
    /// `source_port`
    pub source_port: Option<LocatedTexts>,
    /// `destination_port`
    pub destination_port: Option<LocatedTexts>,
    /// `tcp_flags`
    pub tcp_flags: Option<RawFlags>,
    /// `icmp_type`
    pub icmp_type: Option<LocatedTexts>,
    /// `fragment`
    pub fragment: Option<LocatedTexts>,
    /// `vlan`
    pub vlan: Option<LocatedTexts>,
    /// `length`
    pub length: Option<LocatedTexts>,
    /// `ip_version`
    pub ip_version: Option<LocatedText>,
}

/// `source` or `destination`
#[derive(Debug)]
pub struct RawPrefixes {
    /// Where it stands.
    pub at: At,
    /// Its items, those of a wrong shape left out.
    pub items: Vec<RawPrefix>,
}

/// `tcp_flags`
#[derive(Debug)]
pub enum RawFlags {
    /// Flags that must be set.
    List(LocatedTexts),
    /// `{set: ..., unset: ...}`
    Mask {
        /// Where it stands.
        at: At,
        /// `set`
        set: Option<LocatedTexts>,
        /// `unset`
        unset: Option<LocatedTexts>,
    },
}

impl RawFlags {
    /// Where it stands.
    pub const fn at(&self) -> &At {
        match self {
            Self::List(texts) => &texts.at,
            Self::Mask { at, .. } => at,
        }
    }
}

/// Reads a condition.
pub fn read(field: &Field<'_>, report: &mut Report) -> Option<RawMatch> {
    let matches = field.mapping(&keys::names("network.rules[].match"), report)?;
    Some(RawMatch {
        at: matches.at().clone(),
        is_empty: matches.is_empty(),
        protocol: matches.texts("protocol", report),
        source: matches.get("source").and_then(|field| read_prefixes(&field, report)),
        destination: matches.get("destination").and_then(|field| read_prefixes(&field, report)),
        source_port: matches.texts("source_port", report),
        destination_port: matches.texts("destination_port", report),
        tcp_flags: matches.get("tcp_flags").and_then(|flags| read_flags(&flags, report)),
        icmp_type: matches.texts("icmp_type", report),
        fragment: matches.texts("fragment", report),
        vlan: matches.texts("vlan", report),
        length: matches.texts("length", report),
        ip_version: matches.text("ip_version", report),
    })
}

/// One prefix or file, or a list of them.
fn read_prefixes(field: &Field<'_>, report: &mut Report) -> Option<RawPrefixes> {
    Some(RawPrefixes { at: field.at().clone(), items: field.each(read_prefix, report)? })
}

fn read_flags(field: &Field<'_>, report: &mut Report) -> Option<RawFlags> {
    if !field.is_mapping() {
        return Some(RawFlags::List(field.one_or_more(report)?));
    }
    let mask = field.mapping(&keys::names("network.rules[].match.tcp_flags"), report)?;
    if mask.is_empty() {
        report.error(mask.at(), "is empty; write `[syn]` or `{set: [syn], unset: [ack]}`");
        return None;
    }
    let set = mask.texts("set", report);
    let unset = mask.texts("unset", report);
    Some(RawFlags::Mask { at: mask.at().clone(), set, unset })
}
