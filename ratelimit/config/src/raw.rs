//! The configuration in its own shape: known keys, lists and texts, each with its place, no value looked at yet.
//!
//! Here wrong shapes, unknown keys and missing ones are found; what the values say is for `validate`.

mod application;
mod asking;
mod ban;
mod key;
mod matches;
mod proxy;
mod rule;
mod store;

use super::{
    error::{At, Report},
    fields::{Field, LocatedText, Mapping},
    keys, rule_file,
    tree::YamlNode,
};
use crate::policy::{PacketRules, SetError};

pub use application::{RawApplication, RawAuth, RawListener, RawTls};
pub use asking::{RawAsking, RawPath};
pub use ban::{RawBan, read_ban};
pub use key::{RawKey, RawLengths};
pub use matches::{RawFlags, RawMatch, RawPrefixes};
pub use proxy::{RawProxy, RawRoute};
pub use rule::RawRule;
pub use store::{RawRedis, RawStore};

/// A whole file.
#[derive(Debug)]
pub struct RawConfig {
    /// `instance`
    pub instance: Option<LocatedText>,
    /// `lists`
    pub lists: Vec<RawList>,
    /// `network`
    pub network: Option<RawNetwork>,
    /// `application`
    pub application: Option<RawApplication>,
    /// `metrics.listen`
    pub metrics: Option<LocatedText>,
    /// `control`
    pub control: Option<LocatedText>,
}

/// `network`
#[derive(Debug)]
pub struct RawNetwork {
    /// Where it stands.
    pub at: At,
    /// `interfaces`
    pub interfaces: Vec<RawInterface>,
    /// `allow`
    pub allow: Vec<RawPrefix>,
    /// `deny`
    pub deny: Vec<RawPrefix>,
    /// `table_size`
    pub table_size: Option<LocatedText>,
    /// `on_exit`
    pub on_exit: Option<LocatedText>,
    /// `on_malformed`
    pub on_malformed: Option<LocatedText>,
    /// `rules`
    pub rules: Vec<RawRule>,
}

/// An item of `interfaces`.
#[derive(Debug)]
pub struct RawInterface {
    /// The item, or its `name`.
    pub name: LocatedText,
    /// `mode`
    pub mode: Option<LocatedText>,
}

/// An item of a list of prefixes.
#[derive(Clone, Debug)]
pub enum RawPrefix {
    /// A prefix.
    Inline(LocatedText),
    /// The path of a file of them.
    File(LocatedText),
    /// The name of a list of them.
    List(LocatedText),
}

impl RawPrefix {
    /// What is written.
    pub const fn text(&self) -> &LocatedText {
        match self {
            Self::Inline(text) | Self::File(text) | Self::List(text) => text,
        }
    }
}

/// One of `lists`.
#[derive(Debug)]
pub struct RawList {
    /// Its name.
    pub name: LocatedText,
    /// What it has.
    pub items: Vec<RawPrefix>,
}

/// Reads a whole file; what is wrong goes to `report`.
pub fn read(node: &YamlNode, report: &mut Report) -> Option<RawConfig> {
    let root = Field::root(node);
    if root.is_null() {
        report.error(&At::default(), "the file is empty; a configuration has `network` or `application`");
        return None;
    }
    if rule_file::is_one(node) {
        let message =
            "this is a file of rules on requests; a configuration names it under `application.rules`";
        report.error(root.at(), message);
        return None;
    }
    let top = root.mapping(&keys::names(""), report)?;
    // With another mistake here, such as a misspelled `network`, this would only confuse.
    if top.get("network").or(top.get("application")).is_none() && report.is_clean() {
        report.error(
            top.at(),
            "nothing to do: add `network` with at least one rule, or `application` with files of rules",
        );
    }
    Some(RawConfig {
        instance: top.text("instance", report),
        lists: top.get("lists").map(|lists| read_lists(&lists, report)).unwrap_or_default(),
        network: top.get("network").and_then(|network| read_network(&network, report)),
        application: top.get("application").and_then(|section| application::read(&section, report)),
        metrics: top.get("metrics").and_then(|metrics| read_metrics(&metrics, report)),
        control: top.text("control", report),
    })
}

fn read_lists(field: &Field<'_>, report: &mut Report) -> Vec<RawList> {
    if !field.is_mapping() {
        report.error(field.at(), "must be a mapping of names to lists, such as `office: {file: office.txt}`");
    }
    let list = |(name, items): (LocatedText, Field<'_>)| {
        Some(RawList { name, items: items.each(read_prefix, report)? })
    };
    field.entries().into_iter().filter_map(list).collect()
}

fn read_metrics(field: &Field<'_>, report: &mut Report) -> Option<LocatedText> {
    let metrics = field.mapping(&keys::names("metrics"), report)?;
    metrics.required_text("listen", "127.0.0.1:9102", report)
}

fn read_network(field: &Field<'_>, report: &mut Report) -> Option<RawNetwork> {
    let network = field.mapping(&keys::names("network"), report)?;
    Some(RawNetwork {
        at: network.at().clone(),
        interfaces: read_items(&network, "interfaces", read_interface, report),
        allow: read_items(&network, "allow", read_prefix, report),
        deny: read_items(&network, "deny", read_prefix, report),
        table_size: network.text("table_size", report),
        on_exit: network.text("on_exit", report),
        on_malformed: network.text("on_malformed", report),
        rules: read_rules(&network, report),
    })
}

/// Those that are too many are not looked at.
fn read_rules(network: &Mapping<'_>, report: &mut Report) -> Vec<RawRule> {
    let items = network.get("rules").map(|list| list.items(report)).unwrap_or_default();
    if let Some(first_too_many) = items.get(PacketRules::MOST) {
        report.error(first_too_many.at(), SetError::TooManyRules { count: items.len() });
    }
    items.iter().take(PacketRules::MOST).filter_map(|item| rule::read(item, report)).collect()
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
    let interface = field.mapping(&keys::names("network.interfaces[]"), report)?;
    let name = interface.required_text("name", "eth0", report);
    let mode = interface.text("mode", report);
    Some(RawInterface { name: name?, mode })
}

/// Reads an item of a list of prefixes.
pub fn read_prefix(field: &Field<'_>, report: &mut Report) -> Option<RawPrefix> {
    match (field.key_at("file"), field.key_at("list")) {
        (None, None) => field.text(report).map(RawPrefix::Inline),
        (Some(_), Some(at)) => {
            report.error(&at, "`file` and `list` are both given: write two items");
            None
        }
        (file, _) => {
            let item = field.mapping(&keys::names("network.allow[]"), report)?;
            match file {
                Some(_) => item.text("file", report).map(RawPrefix::File),
                None => item.text("list", report).map(RawPrefix::List),
            }
        }
    }
}
