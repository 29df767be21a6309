//! Descriptors: what an entry is to look like, what is counted apart, and what may come below.

use std::{collections::HashSet, path::Path};

use serde_json::{Map, Number, Value};

use super::{
    check_length,
    keys::read_mapping,
    limit,
    networks::{self, NetworkFiles},
};
use crate::{
    error::{At, Report, quoted},
    fields::{Field, LocatedText, Mapping},
    policy::application::{DescriptorRule, Networks, RequestBan, composite_key, metric_label},
};

/// Reads the descriptors of one domain.
pub struct Descriptors<'r, 'n> {
    domain: &'r str,
    /// What their limits replace: the own name, if there is one, and the other.
    pub replaced: Vec<(Option<String>, LocatedText)>,
    /// Under which labels metrics show them, and where they stand.
    pub labels: Vec<(String, At)>,
    /// Their bans, and where these stand.
    pub bans: Vec<(RequestBan, At)>,
    /// Networks, and the directory that their files' names are relative to.
    networks: (&'r mut NetworkFiles<'n>, &'r Path),
    report: &'r mut Report,
}

/// Words for yes and no, as YAML has had them.
const YES: [&str; 4] = ["true", "yes", "on", "y"];
const NO: [&str; 4] = ["false", "no", "off", "n"];

impl<'r, 'n> Descriptors<'r, 'n> {
    /// Reads those of a file in that directory.
    pub fn new(
        domain: &'r str,
        networks: &'r mut NetworkFiles<'n>,
        directory: &'r Path,
        report: &'r mut Report,
    ) -> Self {
        Self {
            domain,
            replaced: Vec::new(),
            labels: Vec::new(),
            bans: Vec::new(),
            networks: (networks, directory),
            report,
        }
    }

    /// Reads a list of descriptors; of two with one key and value, the second is a mistake. Also says where each
    /// stands.
    pub fn read(&mut self, list: &Field<'_>, path: &[&DescriptorRule]) -> (Vec<DescriptorRule>, Vec<At>) {
        let (mut rules, mut places) = (Vec::new(), Vec::new());
        let mut seen: HashSet<String> = HashSet::new();
        for item in list.items(self.report) {
            let Some(rule) = self.read_one(&item, path) else { continue };
            if seen.insert(format!("{:?}", rule.identity())) {
                rules.push(rule);
                places.push(item.at().clone());
            } else {
                let key = composite_key(self.domain, path.iter().copied().chain([&rule]));
                self.report.error(item.at(), format!("duplicate composite key {}", quoted(&key)));
            }
        }
        networks::warn_of_twice(&rules, &places, self.report);
        (rules, places)
    }

    fn read_one(&mut self, item: &Field<'_>, path: &[&DescriptorRule]) -> Option<DescriptorRule> {
        if let Some(text) = item.scalar() {
            let message = format!(
                "list item {} is not a map; a descriptor has at least a key: `- key: {text}`",
                quoted(text)
            );
            self.report.error(item.at(), message);
            return None;
        }
        let map = read_mapping(item, "descriptors[]", self.report)?;
        let mut rule = DescriptorRule::new(self.key(&map)?, self.text(&map, "value"));
        rule.networks = self.networks(&map, &rule);
        rule.shadow_mode = self.flag(&map, "shadow_mode");
        rule.quota_mode = self.flag(&map, "quota_mode");
        rule.detailed_metric = self.flag(&map, "detailed_metric");
        rule.value_to_metric = self.flag(&map, "value_to_metric");
        rule.share_threshold = self.flag(&map, "share_threshold");
        if rule.share_threshold && rule.networks.is_none() && !rule.label().contains('*') {
            let message = "share_threshold is for patterns and networks: there is no `*` in key or value, and no `value_in`";
            self.report.error(&map.at_of("share_threshold"), message);
        }
        rule.metadata = map.get("metadata").filter(|field| !field.is_null()).map(|field| json(&field));
        if rule.metadata.as_ref().is_some_and(|metadata| !metadata.is_object()) {
            self.report.error(&map.at_of("metadata"), "must be a mapping");
        }
        rule.limit = match map.get("rate_limit").filter(|field| !field.is_null()) {
            Some(field) => limit::read(&field, self.report).map(|(limit, replaced)| {
                self.replaced.extend(replaced.into_iter().map(|name| (limit.name.clone(), name)));
                limit
            }),
            None => None,
        };
        self.note_ban(&rule, &map);
        if rule.limit.is_some() {
            let label = metric_label(path.iter().copied().chain([&rule]));
            self.labels.push((label, item.at().clone()));
        }
        if let Some(below) = map.get("descriptors").filter(|field| !field.is_null()) {
            let path: Vec<&DescriptorRule> = path.iter().copied().chain([&rule]).collect();
            let children = self.read(&below, &path).0;
            rule.children = children;
        }
        Some(rule)
    }

    /// Whoever is never denied is never banned.
    fn note_ban(&mut self, rule: &DescriptorRule, map: &Mapping<'_>) {
        let Some(ban) = rule.limit.as_ref().and_then(|limit| limit.ban.clone()) else { return };
        let Some(at) = map.get("rate_limit").and_then(|limit| limit.key_at("ban")) else { return };
        if rule.shadow_mode {
            self.report.error(&at, "a rule in shadow mode bans nobody: leave one of them out");
        }
        self.bans.push((ban, at));
    }

    fn networks(&mut self, map: &Mapping<'_>, rule: &DescriptorRule) -> Option<Networks> {
        let field = map.get("value_in").filter(|field| !field.is_null())?;
        if rule.value.is_some() {
            self.report.error(field.at(), "value and value_in are both given: leave one of them out");
        }
        if rule.key.contains('*') {
            self.report.error(field.at(), "networks are looked up by the key: write one without `*`");
        }
        let (networks, directory) = &mut self.networks;
        networks.networks(&field, directory, self.report)
    }

    fn key(&mut self, map: &Mapping<'_>) -> Option<String> {
        let key = self.text(map, "key");
        if key.is_none() && !map.has_misspelled("key") {
            self.report
                .error(&map.at_of("key"), "empty key; every descriptor needs one, such as `key: user`");
        }
        key
    }

    /// A text; `None` if it is not there or empty.
    fn text(&mut self, map: &Mapping<'_>, key: &str) -> Option<String> {
        let field = map.get(key).filter(|field| !field.is_null())?;
        let text = field.text(self.report)?;
        check_length(&text.text, &text.at, self.report);
        Some(text.text).filter(|text| !text.is_empty())
    }

    fn flag(&mut self, map: &Mapping<'_>, key: &str) -> bool {
        flag(map, key, self.report)
    }
}

/// A yes or no; no if it is not there.
pub fn flag(map: &Mapping<'_>, key: &str, report: &mut Report) -> bool {
    let text = map.get(key).filter(|field| !field.is_null()).and_then(|field| field.text(report));
    let Some(text) = text else { return false };
    let is = |words: [&str; 4]| words.iter().any(|word| text.text.eq_ignore_ascii_case(word));
    if !is(YES) && !is(NO) {
        report.error(&text.at, format!("{} is not a yes or no; accepted: true, false", quoted(&text.text)));
    }
    is(YES)
}

/// A value as it is, its scalars as YAML reads them.
fn json(field: &Field<'_>) -> Value {
    if field.is_null() {
        return Value::Null;
    }
    if field.is_mapping() {
        let entry = |(key, value): (LocatedText, Field<'_>)| (key.text, json(&value));
        return Value::Object(field.entries().into_iter().map(entry).collect::<Map<_, _>>());
    }
    match (field.list(), field.scalar()) {
        (Some(items), _) => items.iter().map(json).collect(),
        (None, Some(text)) if field.is_quoted() => text.into(),
        (None, text) => typed(text.unwrap_or_default()),
    }
}

fn typed(text: &str) -> Value {
    let float = || text.parse().ok().and_then(Number::from_f64).filter(|_| text.contains(['.', 'e', 'E']));
    let number = || text.parse::<i64>().ok().map(Number::from).or_else(float);
    match text {
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        _ => number().map_or_else(|| text.into(), Value::Number),
    }
}
