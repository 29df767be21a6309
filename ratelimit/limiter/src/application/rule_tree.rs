//! The rules of one generation, to be looked up by domain and entries.
//!
//! At each level an entry is looked up as exact key and value, then among the patterns in file order, then as an
//! address of the key's networks, of which the longest counts, then as the key alone. What is found is final, even if
//! nothing further down fits; and a limit applies only to descriptors that end where it stands.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use foldhash::fast::FixedState;

use super::{
    active_limit::ActiveLimit,
    counters::{DomainCounters, HitCounters, RuleCounts},
    networks::NetworkTable,
    pattern::Pattern,
    response::RuleIdentity,
    values::{self, ValueCounters},
};
use crate::{
    policy::{Networks, OnStoreError, RequestRate},
    warnings,
};

type StringMap<V> = HashMap<Box<str>, V, FixedState>;

/// All rules.
#[derive(Debug, Default)]
pub(super) struct RuleTree {
    pub(super) domains: StringMap<DomainRules>,
}

/// The rules of a domain.
#[derive(Debug)]
pub(super) struct DomainRules {
    pub(super) nodes: Vec<RuleNode>,
    pub(super) top: Level,
    pub(super) counters: Arc<DomainCounters>,
    /// Those of limits that requests bring along.
    pub(super) overrides: Arc<HitCounters>,
    /// What is done while a store does not answer, if not what is done everywhere.
    pub(super) on_store_error: Option<OnStoreError>,
}

/// What a descriptor's next entry may be. Numbers are of nodes.
#[derive(Debug, Default)]
pub(super) struct Level {
    keys: StringMap<Values>,
    patterns: Vec<(Pattern, Option<Pattern>, usize)>,
}

#[derive(Debug, Default)]
struct Values {
    exact: StringMap<usize>,
    networks: NetworkTable,
    any: Option<usize>,
}

/// What an entry was found as.
#[derive(Debug)]
pub(super) struct RuleNode {
    pub(super) rule: Option<RequestRule>,
    pub(super) below: Level,
}

/// A rule that ends in a limit, or in the word that there is none.
#[derive(Debug)]
pub(super) struct RequestRule {
    pub(super) identity: Arc<RuleIdentity>,
    pub(super) replaces: Vec<String>,
    /// `None` if it is unlimited.
    pub(super) limit: Option<ActiveLimit>,
    /// What its buckets go by in a store that several processes share.
    pub(super) account: Box<str>,
    /// This process's share of the limit, for the time in which such a store does not answer.
    pub(super) local: Option<ActiveLimit>,
    /// The limit as written, for people.
    pub(super) rate: Option<RequestRate>,
    pub(super) shadow: bool,
    pub(super) quota: bool,
    /// Whether it has been asked with a cost of 0 and can't be overrun.
    pub(super) is_no_budget: AtomicBool,
    /// For each entry on the way, how it tells requests apart.
    pub(super) steps: Vec<RuleStep>,
    pub(super) detailed: bool,
    pub(super) counters: Arc<HitCounters>,
    /// Those under labels that values make, if there are such.
    pub(super) values: Option<Arc<ValueCounters>>,
}

/// An entry on the way to a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleStep {
    /// Key and value that stand for all that the pattern matches, if these share a bucket.
    pub(super) shared: Option<(Box<str>, Box<str>)>,
    /// Whether metrics tell values apart.
    pub(super) value_to_metric: bool,
    /// Key and value as in the file.
    pub(super) label: Box<str>,
}

impl RuleStep {
    /// Whether requests count under labels that their values make, in a rule that may be detailed.
    pub(super) const fn tells(&self, detailed: bool) -> bool {
        self.shared.is_none() && (detailed || self.value_to_metric)
    }
}

impl RequestRule {
    /// Notes that it was asked with a cost of 0, and says it once if costs that are reported afterwards would be
    /// dropped.
    #[cold]
    pub(super) fn asked_for_nothing(&self) {
        let Some(limit) = &self.limit else { return };
        let is_dropped = !limit.overruns() && !limit.limit.counts_denied() && !limit.is_closed();
        if is_dropped && !self.is_no_budget.load(Relaxed) && !self.is_no_budget.swap(true, Relaxed) {
            warnings::is_no_budget(&self.identity.domain, &self.identity.key);
        }
    }
}

impl RuleTree {
    /// Gives each rule that tells values apart its share of all labels.
    pub(super) fn share_labels(&self) {
        let nodes = self.domains.values().flat_map(|domain| &domain.nodes);
        let values: Vec<_> = nodes.filter_map(|node| node.rule.as_ref()?.values.as_ref()).collect();
        let share = values::share(values.len());
        values.iter().for_each(|values| values.allow(share));
    }
}

impl Level {
    /// Adds an entry.
    pub(super) fn insert(&mut self, key: &str, value: Option<&str>, node: usize) {
        let values = self.keys.entry(key.into()).or_default();
        match value {
            Some(value) => drop(values.exact.insert(value.into(), node)),
            None => values.any = Some(node),
        }
        if key.contains('*') || value.is_some_and(|value| value.contains('*')) {
            self.patterns.push((Pattern::new(key), value.map(Pattern::new), node));
        }
    }

    /// Adds an entry whose value is in a network.
    pub(super) fn insert_networks(&mut self, key: &str, networks: &Networks, node: usize) {
        self.keys.entry(key.into()).or_default().networks.add(networks.prefixes(), node);
    }

    /// Makes it ready for look-ups, when it has all entries.
    pub(super) fn seal(&mut self) {
        self.keys.values_mut().for_each(|values| values.networks.seal());
    }

    fn find(&self, key: &str, value: &str) -> Option<usize> {
        let values = self.keys.get(key);
        let exact = || values?.exact.get(value).copied();
        let by_pattern = || {
            let fits = |(keys, values, _): &&(Pattern, Option<Pattern>, usize)| {
                keys.matches(key) && values.as_ref().is_none_or(|values| values.matches(value))
            };
            self.patterns.iter().find(fits).map(|(.., node)| *node)
        };
        exact().or_else(by_pattern).or_else(|| values?.networks.find(value)).or_else(|| values?.any)
    }
}

impl DomainRules {
    /// The rule of a descriptor with these entries.
    pub(super) fn find(&self, entries: &[(String, String)]) -> Option<&RequestRule> {
        let (mut level, mut node) = (&self.top, None);
        for (key, value) in entries {
            let found = self.nodes.get(level.find(key, value)?)?;
            (level, node) = (&found.below, Some(found));
        }
        node?.rule.as_ref()
    }
}

/// Whose bucket: hashed, domain and entries can't be mistaken for others.
#[derive(Debug)]
pub(super) struct DescriptorKey<'r> {
    pub(super) domain: &'r str,
    pub(super) entries: &'r [(String, String)],
    /// Those of the rule, if it has any that share.
    pub(super) steps: &'r [RuleStep],
}

impl Hash for DescriptorKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.domain.hash(state);
        for (index, (key, value)) in self.entries.iter().enumerate() {
            match self.steps.get(index).and_then(|step| step.shared.as_ref()) {
                Some(shared) => shared.hash(state),
                None => (&**key, &**value).hash(state),
            }
        }
    }
}

impl RequestRule {
    /// What was counted under its label and those of its values.
    pub(super) fn counts(&self) -> RuleCounts {
        let mut counts = self.counters.read();
        if let Some(values) = &self.values {
            values.each(|_, of_value| counts.add(of_value));
        }
        counts
    }

    fn tells(&self, step: &RuleStep) -> bool {
        step.tells(self.detailed)
    }

    /// The label of a descriptor with these entries.
    pub(super) fn label(&self, entries: &[(String, String)]) -> String {
        let mut label = String::new();
        for (step, (key, value)) in self.steps.iter().zip(entries) {
            label += if label.is_empty() { "" } else { "." };
            match self.tells(step) {
                true if value.is_empty() => label += key,
                true => label.extend([key, "_", value]),
                false => label += &step.label,
            }
        }
        label
    }
}

/// What tells the label of a descriptor from others.
#[derive(Debug)]
pub(super) struct ValueKey<'r> {
    pub(super) rule: &'r RequestRule,
    pub(super) entries: &'r [(String, String)],
}

impl Hash for ValueKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.rule.identity.domain, &self.rule.identity.key).hash(state);
        for (step, entry) in self.rule.steps.iter().zip(self.entries) {
            if self.rule.tells(step) {
                entry.hash(state);
            }
        }
    }
}
