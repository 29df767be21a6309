//! `value_in`: networks that a descriptor is about, inline and from files, each of which is read once.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::keys::read_mapping;
use crate::{
    error::{At, Report, quoted},
    fields::{Field, LocatedText},
    last::LastLists,
    list_file::{self, ListFile},
    policy::{
        Prefix,
        application::{DescriptorRule, NetworkFile, Networks},
    },
    raw::RawPrefix,
    text::Thousands,
    validate::NamedLists,
};

/// Networks at most that all rules have, those of a file counted for each rule that names it.
const MOST_NETWORKS: usize = 4 << 20;

/// Reads the files that rules name.
#[derive(Debug, Default)]
pub struct NetworkFiles<'n> {
    last: LastLists,
    /// Lists of the configuration; not known for files of rules alone.
    named: Option<&'n NamedLists>,
    read: HashMap<PathBuf, Option<NetworkFile>>,
    count: usize,
}

impl<'n> NetworkFiles<'n> {
    /// Files that have become empty keep what they had `last`.
    pub fn new(last: &LastLists, named: Option<&'n NamedLists>) -> Self {
        Self { last: last.clone(), named, ..Self::default() }
    }

    /// What was read, by name.
    pub fn into_files(self) -> Vec<NetworkFile> {
        let mut files: Vec<_> = self.read.into_values().flatten().collect();
        files.sort_unstable_by(|one, other| one.file.cmp(&other.file));
        files
    }

    /// Reads `value_in` of a rule whose file is in that directory.
    pub fn networks(&mut self, field: &Field<'_>, directory: &Path, report: &mut Report) -> Option<Networks> {
        let items = field.each(|item, report| read_item(item, report), report)?;
        let mut parts = Parts::default();
        let names = items.iter().map(|item| match item {
            RawPrefix::Inline(text) | RawPrefix::File(text) => text.text.clone(),
            RawPrefix::List(name) => format!("list {}", name.text),
        });
        let names = names.collect::<Vec<_>>().join(",");
        for item in &items {
            match (item, self.named) {
                (RawPrefix::List(name), Some(named)) => {
                    for item in named.items(name, report) {
                        self.add(item, directory, &mut parts, report);
                    }
                }
                (RawPrefix::List(name), None) => {
                    parts.is_incomplete = true;
                    let message =
                        "lists are defined in the configuration that names this file: validate that one";
                    report.warning(&name.at, message);
                }
                (item, _) => self.add(item, directory, &mut parts, report),
            }
        }
        let Parts { files: mut parts, inline, is_incomplete } = parts;
        parts.push(inline.into());
        self.count += parts.iter().map(|part: &Arc<[Prefix]>| part.len()).sum::<usize>();
        if self.count > MOST_NETWORKS {
            let most = Thousands(MOST_NETWORKS as u64);
            report.error(field.at(), format!("with these all rules have more than {most} networks"));
        } else if parts.iter().all(|part| part.is_empty()) && !is_incomplete && report.is_clean() {
            report.warning(
                field.at(),
                "has no network, because its files are empty: the rule matches no request",
            );
        }
        Some(Networks::new(names, parts))
    }

    fn add(&mut self, item: &RawPrefix, directory: &Path, parts: &mut Parts, report: &mut Report) {
        match item {
            RawPrefix::Inline(text) => match text.text.parse::<Prefix>() {
                Ok(prefix) => parts.inline.push(prefix),
                Err(error) => report.error(&text.at, format!("{}: {error}", quoted(&text.text))),
            },
            RawPrefix::File(path) => parts.files.extend(self.file(path, directory, report)),
            // Resolved before.
            RawPrefix::List(_) => {}
        }
    }

    fn file(&mut self, named: &LocatedText, directory: &Path, report: &mut Report) -> Option<Arc<[Prefix]>> {
        let path = directory.join(&named.text);
        let last = &self.last;
        let read = self.read.entry(path).or_insert_with_key(|path| read(path, last, &named.at, report));
        Some(Arc::clone(&read.as_ref()?.prefixes))
    }
}

/// What a descriptor's `value_in` has.
#[derive(Default)]
struct Parts {
    files: Vec<Arc<[Prefix]>>,
    inline: Vec<Prefix>,
    /// Whether a list is not known.
    is_incomplete: bool,
}

fn read_item(item: &Field<'_>, report: &mut Report) -> Option<RawPrefix> {
    let (file, list) = (item.key_at("file"), item.key_at("list"));
    if file.is_none() && list.is_none() {
        return item.text(report).map(RawPrefix::Inline);
    }
    let map = read_mapping(item, "descriptors[].value_in[]", report)?;
    match (&file, &list) {
        (Some(_), Some(at)) => {
            report.error(at, "`file` and `list` are both given: write two items");
            None
        }
        (Some(_), None) => map.text("file", report).map(RawPrefix::File),
        _ => map.text("list", report).map(RawPrefix::List),
    }
}

fn read(path: &Path, last: &LastLists, at: &At, report: &mut Report) -> Option<NetworkFile> {
    let ListFile { prefixes, warnings, is_blank } = match list_file::read(path) {
        Ok(list) => list,
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| report.error(at, mistake));
            return None;
        }
    };
    warnings.iter().for_each(|warning| report.warning(at, warning));
    let kept = if is_blank { last.of_network_file(path) } else { None };
    if is_blank {
        report.warning(at, list_file::blank(path, kept.as_ref().map(|kept| kept.len())));
    }
    let is_kept = kept.is_some();
    let prefixes = kept.unwrap_or_else(|| prefixes.into_iter().map(|(_, prefix)| prefix).collect());
    Some(NetworkFile { file: path.to_owned(), prefixes, is_kept })
}

/// Notes networks that an earlier rule with the same key has, in the report of the file.
pub fn warn_of_twice(rules: &[DescriptorRule], places: &[At], report: &mut Report) {
    let mut seen: HashMap<&str, HashSet<Prefix>> = HashMap::new();
    for (rule, at) in rules.iter().zip(places) {
        let Some(networks) = &rule.networks else { continue };
        let twice =
            seen.get(&*rule.key).and_then(|seen| networks.prefixes().find(|prefix| seen.contains(prefix)));
        if let Some(twice) = twice {
            let what = format!("{twice} belongs to another descriptor, which comes first and counts");
            report.warning(at, what);
        }
        seen.entry(&rule.key).or_default().extend(networks.prefixes());
    }
}
