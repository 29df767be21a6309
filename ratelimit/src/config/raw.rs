//! The configuration in its own shape: known keys, lists and texts, each with its place, no value looked at yet.
//!
//! Here wrong shapes, unknown keys and missing ones are found; what the values say is for `validate`.

use super::{
    error::{At, Report},
    fields::{Field, Mapping, Text},
    limit::LimitOption,
    pending::{self, NOT_SUPPORTED_YET},
    tree::Node,
};
use crate::policy::{Rules, SetError};

/// A whole file.
#[derive(Debug)]
pub struct RawConfig {
    /// `instance`
    pub instance: Option<Text>,
    /// `network`
    pub network: Option<RawNetwork>,
    /// `control`
    pub control: Option<Text>,
}

/// `network`
#[derive(Debug)]
pub struct RawNetwork {
    /// Where it stands.
    pub at: At,
    /// `interfaces`
    pub interfaces: Vec<RawInterface>,
    /// `allow`
    pub allow: Vec<Text>,
    /// `table_size`
    pub table_size: Option<Text>,
    /// `on_exit`
    pub on_exit: Option<Text>,
    /// `rules`
    pub rules: Vec<RawRule>,
}

/// An item of `interfaces`.
#[derive(Debug)]
pub struct RawInterface {
    /// The item, or its `name`.
    pub name: Text,
    /// `mode`
    pub mode: Option<Text>,
}

/// An item of `rules`.
#[derive(Debug)]
pub struct RawRule {
    /// Where it stands.
    pub at: At,
    /// `name`
    pub name: Option<Text>,
    /// `key`
    pub key: RawKey,
    /// `action`
    pub action: Option<Text>,
    /// `algorithm`, `rate` and so on, as far as they are given.
    pub limit: Vec<(LimitOption, Text)>,
}

/// `key`
#[derive(Debug, Default)]
pub enum RawKey {
    /// Not given, or of a wrong shape that has been reported.
    #[default]
    Default,
    /// A word.
    Word(Text),
    /// `{source: {ipv4: N, ipv6: N}}`
    Source {
        /// `ipv4`
        ipv4: Option<Text>,
        /// `ipv6`
        ipv6: Option<Text>,
    },
}

/// The limit's options that a rule on packets has. No `on_limit`: packets can't be held back.
const PACKET_OPTIONS: [LimitOption; 5] = [
    LimitOption::Algorithm,
    LimitOption::Rate,
    LimitOption::Burst,
    LimitOption::Refill,
    LimitOption::CountDenied,
];

/// Reads a whole file; what is wrong goes to `report`.
pub fn read(node: &Node, report: &mut Report) -> Option<RawConfig> {
    let root = Field::root(node);
    if root.is_null() {
        report.error(&At::default(), "the file is empty");
        return None;
    }
    let top = root.mapping(&["instance", "network", "control"], report)?;
    // With another mistake here, such as a misspelled `network`, this would only confuse.
    if top.get("network").is_none() && report.is_clean() {
        report.error(top.at(), "nothing to do: add `network` with at least one rule");
    }
    Some(RawConfig {
        instance: top.text("instance", report),
        network: top.get("network").and_then(|network| read_network(&network, report)),
        control: top.text("control", report),
    })
}

fn read_network(field: &Field<'_>, report: &mut Report) -> Option<RawNetwork> {
    let network = field.mapping(&["interfaces", "allow", "table_size", "on_exit", "rules"], report)?;
    Some(RawNetwork {
        at: network.at().clone(),
        interfaces: read_items(&network, "interfaces", read_interface, report),
        allow: read_items(&network, "allow", read_prefix, report),
        table_size: network.text("table_size", report),
        on_exit: network.text("on_exit", report),
        rules: read_rules(&network, report),
    })
}

/// Those that are too many are not looked at.
fn read_rules(network: &Mapping<'_>, report: &mut Report) -> Vec<RawRule> {
    let items = network.get("rules").map(|list| list.items(report)).unwrap_or_default();
    if let Some(first_too_many) = items.get(Rules::MOST) {
        report.error(first_too_many.at(), SetError::TooManyRules { count: items.len() });
    }
    items.iter().take(Rules::MOST).filter_map(|item| read_rule(item, report)).collect()
}

fn read_items<'t, T>(
    parent: &Mapping<'t>,
    key: &str,
    read: impl Fn(&Field<'t>, &mut Report) -> Option<T>,
    report: &mut Report,
) -> Vec<T> {
    let items = parent.get(key).map(|list| list.items(report)).unwrap_or_default();
    items.iter().filter_map(|item| read(item, report)).collect()
}

fn read_interface(field: &Field<'_>, report: &mut Report) -> Option<RawInterface> {
    if !field.is_mapping() {
        return Some(RawInterface { name: field.text(report)?, mode: None });
    }
    let interface = field.mapping(&["name", "mode"], report)?;
    let name = interface.required_text("name", "eth0", report);
    let mode = interface.text("mode", report);
    Some(RawInterface { name: name?, mode })
}

fn read_prefix(field: &Field<'_>, report: &mut Report) -> Option<Text> {
    let file = field.key_at("file");
    if let Some(at) = file.filter(|at| pending::is_pending_key(&at.field)) {
        report.error(&at, format!("`file` is {NOT_SUPPORTED_YET}; write the prefixes into the list"));
        return None;
    }
    field.text(report)
}

fn read_rule(field: &Field<'_>, report: &mut Report) -> Option<RawRule> {
    let known: Vec<&str> =
        ["name", "key", "action"].into_iter().chain(PACKET_OPTIONS.map(LimitOption::name)).collect();
    let rule = field.mapping(&known, report)?;
    let name = rule.required_text("name", "every-source", report);
    let mut limit = Vec::new();
    for option in PACKET_OPTIONS {
        let text = match option {
            LimitOption::Rate => rule.required_text(option.name(), "100/s", report),
            _ => rule.text(option.name(), report),
        };
        limit.extend(text.map(|text| (option, text)));
    }
    let key = rule.get("key").and_then(|key| read_key(&key, report)).unwrap_or_default();
    Some(RawRule { at: rule.at().clone(), name, key, action: rule.text("action", report), limit })
}

fn read_key(field: &Field<'_>, report: &mut Report) -> Option<RawKey> {
    if !field.is_mapping() {
        return Some(RawKey::Word(field.text(report)?));
    }
    let key = field.mapping(&["source"], report)?;
    let Some(source) = key.get("source") else {
        if key.is_empty() {
            report.error(key.at(), "is empty; write `source` or `{source: {ipv4: 32, ipv6: 64}}`");
        }
        return None;
    };
    let lengths = source.mapping(&["ipv4", "ipv6"], report)?;
    let ipv4 = read_length(&lengths, "ipv4", report);
    let ipv6 = read_length(&lengths, "ipv6", report);
    Some(RawKey::Source { ipv4, ipv6 })
}

fn read_length(lengths: &Mapping<'_>, family: &str, report: &mut Report) -> Option<Text> {
    let length = lengths.get(family)?;
    if length.is_mapping() && pending::is_pending_value(&length.at().field, "mapping") {
        report.error(
            length.at(),
            format!("several prefix lengths are {NOT_SUPPORTED_YET}; write one, such as 24"),
        );
        return None;
    }
    length.text(report)
}
