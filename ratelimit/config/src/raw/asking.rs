//! The shape of what is asked about a request: the keys that `auth` has of it, and others who ask.

use crate::{
    error::{At, Report},
    fields::{Field, LocatedText, Mapping},
    keys,
};

/// What is asked about a request.
#[derive(Debug)]
pub struct RawAsking {
    /// `domain`
    pub domain: Option<LocatedText>,
    /// Where `descriptors` stands.
    pub at_descriptors: At,
    /// Its items: keys and values in order.
    pub descriptors: Vec<Vec<(LocatedText, LocatedText)>>,
    /// `client.ipv4`
    pub ipv4: Option<LocatedText>,
    /// `client.ipv6`
    pub ipv6: Option<LocatedText>,
    /// `path`
    pub path: RawPath,
}

/// `path`
#[derive(Debug, Default)]
pub struct RawPath {
    /// `templates`
    pub templates: Vec<LocatedText>,
    /// `ignore_case`
    pub ignore_case: Option<LocatedText>,
    /// `escaped_slashes`
    pub escaped_slashes: Option<LocatedText>,
}

/// Reads it from the mapping at `parent`, a path of the table of keys.
pub fn read(map: &Mapping<'_>, parent: &str, report: &mut Report) -> RawAsking {
    let client = map.get("client").and_then(|client| {
        let client = client.mapping(&keys::names(&format!("{parent}.client")), report)?;
        Some((client.text("ipv4", report), client.text("ipv6", report)))
    });
    let (ipv4, ipv6) = client.unwrap_or_default();
    let descriptors = map.get("descriptors");
    if descriptors.is_none() {
        let message = "missing; add `descriptors: [{client: \"{client_address}\"}]`";
        report.error(&map.at_of("descriptors"), message);
    }
    let items = descriptors.map(|list| list.items(report)).unwrap_or_default();
    let descriptors = items.iter().filter_map(|item| read_descriptor(item, report)).collect();
    RawAsking {
        domain: map.required_text("domain", "edge", report),
        at_descriptors: map.at_of("descriptors"),
        descriptors,
        ipv4,
        ipv6,
        path: map.get("path").and_then(|path| read_path(&path, parent, report)).unwrap_or_default(),
    }
}

fn read_descriptor(item: &Field<'_>, report: &mut Report) -> Option<Vec<(LocatedText, LocatedText)>> {
    let entries = item.entries();
    if entries.is_empty() {
        let message = "must be a mapping of keys and values, such as `{client: \"{client_address}\"}`";
        report.error(item.at(), message);
        return None;
    }
    // In `{client: {client_address}}` YAML takes the value for a mapping.
    let entry = |(key, value): (LocatedText, Field<'_>)| Some((key, value.text(report)?));
    Some(entries.into_iter().filter_map(entry).collect())
}

/// Reads how paths are compared, below the mapping at `parent`.
pub fn read_path(field: &Field<'_>, parent: &str, report: &mut Report) -> Option<RawPath> {
    let path = field.mapping(&keys::names(&format!("{parent}.path")), report)?;
    Some(RawPath {
        templates: path.texts("templates", report).map(|texts| texts.items).unwrap_or_default(),
        ignore_case: path.text("ignore_case", report),
        escaped_slashes: path.text("escaped_slashes", report),
    })
}
