//! Counters under labels that values of requests make. Each rule that asks for them has a number of its own, so that no
//! rule, and nobody who sends it new values, takes them from the others.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use super::counters::{HitCounters, Label, RuleCounts};
use crate::{store::KeyHash, warnings};

/// Labels that values make for one rule at most; what comes later counts under the rule's own label.
pub const MOST_VALUE_LABELS: usize = 1_000;
/// Labels that they make for all rules together, in equal shares, as long as each rule has at least the least.
const MOST_OF_ALL: usize = 10_000;
const LEAST_VALUE_LABELS: usize = 10;

/// Characters of such a label at most.
const LONGEST_VALUE_LABEL: usize = 200;

/// How many labels each of so many rules may have.
pub(super) fn share(rules: usize) -> usize {
    (MOST_OF_ALL / rules.max(1)).clamp(LEAST_VALUE_LABELS, MOST_VALUE_LABELS)
}

/// The counters of a rule that tells values apart.
#[derive(Debug)]
pub(super) struct ValueCounters {
    rule: Label,
    most: AtomicUsize,
    known: RwLock<HashMap<KeyHash, LabelCounters>>,
    left_out: AtomicU64,
    is_said: AtomicBool,
}

#[derive(Debug)]
struct LabelCounters {
    label: Label,
    counters: Arc<HitCounters>,
}

impl ValueCounters {
    /// Those of the rule with this label.
    pub(super) fn new(rule: Label) -> Self {
        Self {
            rule,
            most: AtomicUsize::new(LEAST_VALUE_LABELS),
            known: RwLock::default(),
            left_out: AtomicU64::new(0),
            is_said: AtomicBool::new(false),
        }
    }

    /// From now on there may be so many; those that there are stay.
    pub(super) fn allow(&self, most: usize) {
        self.most.store(most, Relaxed);
    }

    /// The counters of values that hash to this, whose label is `label`; `None` if there may be no more labels.
    pub(super) fn of(&self, hash: KeyHash, label: impl FnOnce() -> String) -> Option<Arc<HitCounters>> {
        let most = self.most.load(Relaxed);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        match known.get(&hash) {
            Some(known) => return Some(Arc::clone(&known.counters)),
            None if known.len() >= most => return None,
            None => drop(known),
        }
        let mut all = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= most && !all.contains_key(&hash) {
            return None;
        }
        let made = || LabelCounters {
            label: Label {
                domain: self.rule.domain.clone(),
                key: label().chars().take(LONGEST_VALUE_LABEL).collect(),
            },
            counters: Arc::default(),
        };
        Some(Arc::clone(&all.entry(hash).or_insert_with(made).counters))
    }

    /// Counts hits that have no label of their own. The first are said.
    pub(super) fn leave_out(&self, hits: u64) {
        self.left_out.fetch_add(hits, Relaxed);
        if !self.is_said.load(Relaxed) && !self.is_said.swap(true, Relaxed) {
            warnings::labels_are_full(&self.rule.domain, &self.rule.key, self.labels());
        }
    }

    /// Hits that had no label of their own.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.load(Relaxed)
    }

    /// How many labels there are.
    pub(super) fn labels(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The rule's label.
    pub(super) const fn rule(&self) -> &Label {
        &self.rule
    }

    /// Calls `each` with all labels and what was counted under them.
    pub(super) fn each(&self, mut each: impl FnMut(&Label, RuleCounts)) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().for_each(|LabelCounters { label, counters }| each(label, counters.read()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_equal_and_have_a_least_and_a_most() {
        for (rules, expected) in [(0, 1_000), (1, 1_000), (10, 1_000), (11, 909), (1_000, 10), (100_000, 10)]
        {
            assert_eq!(share(rules), expected, "{rules}");
        }
    }
}
