//! What has been counted: by domain and by rule, with a bounded number of labels.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::{
    active_limit::{ActiveLimit, LimitVerdict},
    values::ValueCounters,
};

/// Counts of hits under one label. A request of several hits is split at the thresholds that it crosses.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct HitCounters {
    total_hits: AtomicU64,
    over_limit: AtomicU64,
    near_limit: AtomicU64,
    within_limit: AtomicU64,
    shadow_mode: AtomicU64,
    soft_limit: AtomicU64,
    cut: AtomicU64,
}

/// What has been counted for a rule so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// All hits.
    pub total_hits: u64,
    /// Hits above the limit.
    pub over_limit: u64,
    /// Hits above the near limit ratio, up to the limit.
    pub near_limit: u64,
    /// Hits of requests within the limit, near or not.
    pub within_limit: u64,
    /// Hits of requests that were over a limit in shadow mode, and passed.
    pub shadow_mode: u64,
    /// Hits of requests that passed above the soft limit.
    pub soft_limit: u64,
    /// Hits of limits with `overrun` that were not charged, since no more could be owed.
    pub cut: u64,
}

/// Counts of requests of one domain.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct DomainCounters {
    pub(super) allowed: AtomicU64,
    pub(super) denied: AtomicU64,
    pub(super) shadowed: AtomicU64,
}

/// What has been counted for a domain so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DomainCounts {
    /// Requests that may go on.
    pub allowed: u64,
    /// Requests that may not.
    pub denied: u64,
    /// Those among the allowed that only the shadow mode of the whole service let through.
    pub shadowed: u64,
}

/// A label: a domain, and the keys and values on the way to a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// The domain.
    pub domain: String,
    /// The way, such as `key1_value1.key2`.
    pub key: String,
}

/// All counters.
#[derive(Debug, Default)]
pub(super) struct Registry {
    domains: Mutex<HashMap<String, Arc<DomainCounters>>>,
    rules: Mutex<HashMap<Label, Arc<HitCounters>>>,
    values: Mutex<HashMap<Label, Arc<ValueCounters>>>,
    /// The counters of domains that no rule is about.
    pub(super) unknown: DomainCounters,
    /// Requests that were more than is judged.
    pub(super) too_much: AtomicU64,
}

impl HitCounters {
    /// Counts a request.
    pub(super) fn add(
        &self,
        limit: &ActiveLimit,
        verdict: &LimitVerdict,
        hits: u64,
        was_charged: bool,
        shadow: bool,
    ) {
        self.total_hits.fetch_add(hits, Relaxed);
        add(&self.cut, verdict.cut);
        let (before, after) = match was_charged {
            true => (verdict.used.saturating_sub(hits), verdict.used),
            false => (verdict.used, verdict.used.saturating_add(hits)),
        };
        let (near, limit) = (limit.near, limit.current.capacity);
        if verdict.over {
            let over = if before >= limit || after <= limit { hits } else { after - limit };
            self.over_limit.fetch_add(over, Relaxed);
            add(&self.near_limit, if over < hits { limit.saturating_sub(near.max(before)) } else { 0 });
            add(&self.shadow_mode, if shadow { hits } else { 0 });
        } else {
            let after = after.min(limit);
            add(&self.near_limit, after.saturating_sub(near.max(before)));
            self.within_limit.fetch_add(hits, Relaxed);
            add(&self.soft_limit, if verdict.soft { hits } else { 0 });
        }
    }

    /// Counts hits on a rule without a limit.
    pub(super) fn add_unlimited(&self, hits: u64) {
        self.total_hits.fetch_add(hits, Relaxed);
        self.within_limit.fetch_add(hits, Relaxed);
    }

    /// What was counted so far.
    #[must_use]
    pub fn read(&self) -> RuleCounts {
        RuleCounts {
            total_hits: self.total_hits.load(Relaxed),
            over_limit: self.over_limit.load(Relaxed),
            near_limit: self.near_limit.load(Relaxed),
            within_limit: self.within_limit.load(Relaxed),
            shadow_mode: self.shadow_mode.load(Relaxed),
            soft_limit: self.soft_limit.load(Relaxed),
            cut: self.cut.load(Relaxed),
        }
    }
}

/// Most counters stay as they are, and a write that changes nothing would still take the line from other processors.
fn add(counter: &AtomicU64, hits: u64) {
    if hits > 0 {
        counter.fetch_add(hits, Relaxed);
    }
}

impl RuleCounts {
    pub(super) fn add(&mut self, other: Self) {
        self.total_hits += other.total_hits;
        self.over_limit += other.over_limit;
        self.near_limit += other.near_limit;
        self.within_limit += other.within_limit;
        self.shadow_mode += other.shadow_mode;
        self.soft_limit += other.soft_limit;
        self.cut += other.cut;
    }
}

impl DomainCounters {
    /// What was counted so far.
    #[must_use]
    pub fn read(&self) -> DomainCounts {
        DomainCounts {
            allowed: self.allowed.load(Relaxed),
            denied: self.denied.load(Relaxed),
            shadowed: self.shadowed.load(Relaxed),
        }
    }
}

impl Registry {
    pub(super) fn domain(&self, name: &str) -> Arc<DomainCounters> {
        let mut domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(domains.entry(name.to_owned()).or_default())
    }

    pub(super) fn rule(&self, label: Label) -> Arc<HitCounters> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(rules.entry(label).or_default())
    }

    /// The counters of a rule that tells values apart.
    pub(super) fn values(&self, rule: Label) -> Arc<ValueCounters> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || Arc::new(ValueCounters::new(rule.clone()));
        Arc::clone(values.entry(rule.clone()).or_insert_with(made))
    }

    /// Forgets what no rule counts any more. Those of a generation that still is in use are kept by it.
    pub(super) fn retain_used(&self) {
        fn retain<K, V>(counters: &Mutex<HashMap<K, Arc<V>>>) {
            let mut counters = counters.lock().unwrap_or_else(PoisonError::into_inner);
            counters.retain(|_, counters| Arc::strong_count(counters) > 1);
        }
        retain(&self.domains);
        retain(&self.rules);
        retain(&self.values);
    }

    /// All labels with what was counted under them, in order, each once.
    pub(super) fn rules(&self) -> BTreeMap<Label, RuleCounts> {
        let mut counts: BTreeMap<Label, RuleCounts> = BTreeMap::new();
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        for (label, counters) in &*rules {
            counts.entry(label.clone()).or_default().add(counters.read());
        }
        for values in self.values.lock().unwrap_or_else(PoisonError::into_inner).values() {
            values.each(|label, counted| {
                // What a request says must not count as another rule.
                let label = if rules.contains_key(label) { values.rule() } else { label };
                counts.entry(label.clone()).or_default().add(counted);
            });
        }
        counts
    }

    /// Hits of rules that tell values apart that had no label of their own, in the order of the rules' labels.
    pub(super) fn left_out(&self) -> BTreeMap<Label, u64> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.iter().map(|(label, values)| (label.clone(), values.left_out())).collect()
    }

    /// All domains with what was counted, in order.
    pub(super) fn domains(&self) -> BTreeMap<String, DomainCounts> {
        let domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        domains.iter().map(|(name, domain)| (name.clone(), domain.read())).collect()
    }
}
