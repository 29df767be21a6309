//! Files of rules on requests, in the form of Envoy's rate limit service with some keys of our own: a domain and its
//! descriptors. From the tree to the policy; all mistakes of all files at once.

mod ban;
mod descriptor;
mod keys;
mod labels;
mod limit;
mod networks;
mod replaces;

use std::path::{Path, PathBuf};

use self::{
    ban::BanPlace, descriptor::Descriptors, keys::read_mapping, labels::Labelled, networks::NetworkFiles,
    replaces::Replacement,
};
pub use self::{
    ban::{BanContext, ProxyPeers},
    keys::home_of,
};
use super::{
    document,
    error::{At, Report},
    fields::{Field, LocatedText},
    last::LastLists,
    tree::YamlNode,
};
use crate::{
    policy::application::{Domain, NetworkFile, RequestBan, RuleSet, RuleSetError},
    validate::{NamedLists, ON_STORE_ERRORS, consistency, word},
};

/// Files that a set of rules may have.
pub const MOST_FILES: usize = 1_000;

/// Bytes of a domain's name, of a key and of a value at most.
const LONGEST_TEXT: usize = 4_096;

/// Reads a set of files; what is wrong with each goes to `report`.
pub fn read_all(
    files: &[PathBuf],
    merge_domains: bool,
    (last, named): (&LastLists, Option<&NamedLists>),
    bans: Option<&BanContext<'_>>,
    report: &mut Report,
) -> (RuleSet, Vec<NetworkFile>) {
    let mut set = FileSet::new(merge_domains, last, named);
    let mut reports: Vec<Report> = files.iter().map(|file| Report::new(file)).collect();
    for (index, (file, own)) in files.iter().zip(&mut reports).enumerate() {
        if let Some(tree) = document::read(file, own) {
            set.add(&tree, index, file, own);
        }
    }
    if let Some(context) = bans {
        ban::check(&set.bans, context, &mut reports);
    }
    set.warn(&mut reports);
    reports.into_iter().for_each(|own| report.absorb(own));
    (set.rules, set.networks.into_files())
}

/// Whether a file is one of rules: it has a `domain` or `descriptors` at its top, and nothing of a configuration.
#[must_use]
pub fn is_one(tree: &YamlNode) -> bool {
    let root = Field::root(tree);
    let has = |key: &str| root.key_at(key).is_some();
    (has("domain") || has("descriptors")) && !has("network") && !has("application")
}

/// The rules of files that go together.
#[derive(Debug, Default)]
pub struct FileSet<'n> {
    rules: RuleSet,
    merge_domains: bool,
    replacements: Vec<Replacement>,
    labels: Vec<Labelled>,
    bans: Vec<BanPlace>,
    networks: NetworkFiles<'n>,
}

impl<'n> FileSet<'n> {
    /// No files yet. Those of networks that have become empty keep what they had `last`.
    pub fn new(merge_domains: bool, last: &LastLists, named: Option<&'n NamedLists>) -> Self {
        Self { merge_domains, networks: NetworkFiles::new(last, named), ..Self::default() }
    }

    /// Adds the rules of the file of that number, and says how many limits it has.
    pub fn add(&mut self, tree: &YamlNode, file: usize, path: &Path, report: &mut Report) -> Option<usize> {
        let directory = path.parent().unwrap_or(Path::new(""));
        let (domain, declared) = read(&Field::root(tree), &mut self.networks, directory, report)?;
        let limits = domain.limits();
        let name = domain.name.clone();
        let replacement = |(by, other)| Replacement { file, domain: name.clone(), by, name: other };
        self.replacements.extend(declared.replaced.into_iter().map(replacement));
        let labelled = |(label, at)| Labelled { file, domain: name.clone(), label, at };
        self.labels.extend(declared.labels.into_iter().map(labelled));
        let ban = |(ban, at)| BanPlace { file, domain: name.clone(), at, ban };
        self.bans.extend(declared.bans.into_iter().map(ban));
        if let Err(error) = self.rules.add(domain, self.merge_domains) {
            let at = match &error {
                RuleSetError::DuplicateDomain(_) | RuleSetError::OnStoreErrorDiffers => {
                    Some(&declared.domain)
                }
                RuleSetError::DuplicateDescriptor { index, .. } => declared.descriptors.get(*index),
            };
            report.error(at.unwrap_or(&At::default()), error);
        }
        Some(limits)
    }

    /// Notes what may not be meant in them all, in the reports of the files, if nothing is wrong with these.
    pub fn warn(&self, reports: &mut [Report]) {
        if reports.iter().all(Report::is_clean) {
            replaces::warn(&self.replacements, &self.rules, reports);
            labels::warn(&self.labels, reports);
        }
    }
}

/// Where what may collide with other files stands.
struct Declared {
    domain: At,
    /// One for each descriptor at the top.
    descriptors: Vec<At>,
    /// What limits replace.
    replaced: Vec<(Option<String>, LocatedText)>,
    /// What metrics call its rules.
    labels: Vec<(String, At)>,
    /// Its bans.
    bans: Vec<(RequestBan, At)>,
}

fn read(
    root: &Field<'_>,
    networks: &mut NetworkFiles<'_>,
    directory: &Path,
    report: &mut Report,
) -> Option<(Domain, Declared)> {
    if root.is_null() {
        report.error(root.at(), "the file is empty; a file of rules has a `domain` and its `descriptors`");
        return None;
    }
    let top = read_mapping(root, "", report)?;
    let (name, at) = match top.get("domain").filter(|field| !field.is_null()) {
        Some(field) => field.text(report).map(|text| (text.text, text.at))?,
        None => (String::new(), top.get("domain").map_or(top.at().clone(), |field| field.at().clone())),
    };
    if name.is_empty() {
        report.error(&at, "empty domain; name the one that requests ask for, such as `domain: edge`");
    }
    check_length(&name, &at, report);
    let descriptors = top.get("descriptors").filter(|field| !field.is_null());
    let mut reader = Descriptors::new(&name, networks, directory, report);
    let (descriptors, declared) = descriptors.map(|field| reader.read(&field, &[])).unwrap_or_default();
    let Descriptors { replaced, labels, bans, .. } = reader;
    let declared = Declared { domain: at, descriptors: declared, replaced, labels, bans };
    let on_store_error = word(top.text("on_store_error", report).as_ref(), &ON_STORE_ERRORS, report);
    consistency(top.text("consistency", report).as_ref(), report);
    (!name.is_empty()).then_some((Domain { on_store_error, ..Domain::new(name, descriptors) }, declared))
}

fn check_length(text: &str, at: &At, report: &mut Report) {
    if text.len() > LONGEST_TEXT {
        report.error(at, format!("{} bytes long; at most {LONGEST_TEXT}", text.len()));
    }
}
