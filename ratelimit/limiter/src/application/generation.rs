//! The rules of one generation, in force: from the policy's rules to a [`RuleTree`], with the store's accounts.
//!
//! Window counts are the business of domain and entries alone, so a request finds them again whichever rule applies to
//! it. Other buckets belong to their rules, since after a limit has shrunk they have to be clamped by it.

use std::{
    any::Any,
    fmt,
    num::{NonZeroU32, NonZeroU64},
    sync::{Arc, atomic::AtomicBool},
};

use ratelimit_common::{
    limit::{Algorithm, Limit, LimitError, LimitSpec, Rate, StateStorage},
    time::Nanos,
};

use super::{
    active_limit::ActiveLimit,
    cached::Cached,
    counters::{Label, Registry},
    response::RuleIdentity,
    rule_tree::{DomainRules, Level, RequestRule, RuleNode, RuleStep, RuleTree},
};
use crate::{
    policy::{
        DescriptorRule, Domain, LIMITS_OF_REQUESTS, NearLimitRatio, Networks, OnStoreError, Quantity,
        RequestLimit, RequestRate, ServicePolicy, TimeUnit, metric_label,
    },
    store::{Account, Enrolment, Limits, MemoryStore, Store as _, Zero},
};

/// What is in force.
pub(super) struct Generation {
    pub(super) rules: RuleTree,
    pub(super) limits: Limits,
    /// Where its windows lie.
    pub(super) zero: Zero,
    /// Those of limits that requests bring along, by unit.
    windows: Vec<(Nanos, Account)>,
    near: NearLimitRatio,
    pub(super) quota_mode: bool,
    /// What is done while a store does not answer that several processes share, and how many share it.
    pub(super) on_store_error: OnStoreError,
    local_share: NonZeroU32,
    /// Whether there are buckets whose states have to be clamped when their limits shrink.
    pub(super) has_buckets: bool,
    pub(super) shadow_mode: bool,
    /// What the program has put beside the rules.
    pub(super) extension: Option<Arc<dyn Any + Send + Sync>>,
}

/// The name of all window counts; the store adds the window.
pub(super) const WINDOWS: &str = "requests";

/// A limit to be enrolled, with the name that its buckets go by.
struct EnrolledLimit {
    name: String,
    limit: Limit,
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Generation {
    /// Puts rules in force over a store.
    ///
    /// # Errors
    /// A limit that no bucket can hold, which none of a validated policy is.
    pub(super) fn new(
        policy: &ServicePolicy,
        store: &MemoryStore,
        zero: Zero,
        registry: &Registry,
    ) -> Result<Self, LimitError> {
        let windows = TimeUnit::ALL.into_iter().map(|unit| window(unit.length()));
        let entries = windows.chain(policy.rules.domains().iter().flat_map(entries_of));
        let entries: Vec<EnrolledLimit> = entries
            .map(|entry| entry.map(|entry| EnrolledLimit { limit: zero.align(entry.limit), ..entry }))
            .collect::<Result<_, _>>()?;
        let enrolments: Vec<Enrolment<'_>> =
            entries.iter().map(|EnrolledLimit { name, limit }| Enrolment { name, limit }).collect();
        let (accounts, limits) = store.enroll(&enrolments);
        let mut enrolled = entries.iter().map(|entry| entry.limit).zip(accounts);
        let windows =
            enrolled.by_ref().take(TimeUnit::ALL.len()).map(|(limit, account)| (limit.period(), account));
        let windows = windows.collect();
        let (near, local_share) = (policy.near_limit_ratio, policy.local_share);
        let mut compiler = Compiler { enrolled, registry, near, zero, local_share, order: 0 };
        let mut tree = RuleTree::default();
        for domain in policy.rules.domains() {
            tree.domains.insert(domain.name.as_str().into(), compiler.domain(domain));
        }
        tree.share_labels();
        Ok(Self {
            rules: tree,
            limits,
            zero,
            windows,
            near,
            quota_mode: policy.quota_mode,
            on_store_error: policy.on_store_error,
            local_share,
            has_buckets: entries.iter().any(|entry| entry.name != WINDOWS),
            shadow_mode: policy.shadow_mode,
            extension: policy.extension.clone(),
        })
    }

    /// A limit that a request brought along.
    pub(super) fn window(&self, requests: u32, unit: TimeUnit) -> Option<ActiveLimit> {
        self.bucket(&RequestRate::window(requests, unit.length()).ok()?)
    }

    /// This process's share of it.
    pub(super) fn local_window(&self, requests: u32, unit: TimeUnit) -> Option<ActiveLimit> {
        self.bucket(&RequestRate::window(requests, unit.length()).ok()?.share(self.local_share))
    }

    fn bucket(&self, rate: &RequestRate) -> Option<ActiveLimit> {
        let limit = self.zero.align(rate.spec().build(StateStorage::UserSpace).ok()?);
        let (_, account) = self.windows.iter().find(|(length, _)| *length == rate.spec().rate.per)?;
        Some(ActiveLimit::new(rate, limit, *account, self.near))
    }
}

/// The window of a request's own limits: any number of requests has the same account.
fn window(length: Nanos) -> Result<EnrolledLimit, LimitError> {
    let spec = LimitSpec::new(Algorithm::FixedWindow, Rate { amount: NonZeroU64::MIN, per: length });
    Ok(EnrolledLimit { name: WINDOWS.to_owned(), limit: spec.build(StateStorage::UserSpace)? })
}

/// The limits of a domain, in the order in which [`Compiler`] takes them.
fn entries_of(domain: &Domain) -> Vec<Result<EnrolledLimit, LimitError>> {
    fn walk<'d>(
        path: &mut Vec<&'d DescriptorRule>,
        rules: &'d [DescriptorRule],
        add: &mut impl FnMut(&[&DescriptorRule], &RequestRate),
    ) {
        for rule in rules {
            path.push(rule);
            if let Some(rate) = rate_of(rule) {
                add(path, rate);
            }
            walk(path, &rule.children, add);
            path.pop();
        }
    }
    let mut entries = Vec::new();
    walk(&mut Vec::new(), &domain.descriptors, &mut |path, rate| {
        let limit = rate.spec().build(StateStorage::UserSpace);
        entries.push(limit.map(|limit| EnrolledLimit { name: name_of(domain, path, rate), limit }));
    });
    entries
}

fn name_of(domain: &Domain, path: &[&DescriptorRule], rate: &RequestRate) -> String {
    // What a bucket misses is told by its own numbers, and so is what a limit owes.
    let is_told_by_its_own = match rate.spec().algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => true,
        Algorithm::FixedWindow | Algorithm::SlidingWindowLog | Algorithm::SlidingWindowCounter => {
            rate.spec().overrun
        }
    };
    if !is_told_by_its_own {
        return WINDOWS.to_owned();
    }
    // Quoted, so that no two rules have the same.
    let path: Vec<_> = path.iter().map(|rule| rule.identity()).collect();
    format!("{:?}{path:?}", domain.name)
}

fn rate_of(rule: &DescriptorRule) -> Option<&RequestRate> {
    match &rule.limit.as_ref()?.quantity {
        Quantity::Limited(rate) => Some(rate),
        Quantity::Unlimited => None,
    }
}

/// Makes the rules of domains.
struct Compiler<'r, E> {
    enrolled: E,
    registry: &'r Registry,
    near: NearLimitRatio,
    zero: Zero,
    local_share: NonZeroU32,
    order: u32,
}

impl<E: Iterator<Item = (Limit, Account)>> Compiler<'_, E> {
    fn domain(&mut self, domain: &Domain) -> DomainRules {
        let mut nodes = Vec::new();
        let top = self.level(domain, &mut Vec::new(), &domain.descriptors, &mut nodes);
        let overrides = Label { domain: domain.name.clone(), key: LIMITS_OF_REQUESTS.to_owned() };
        DomainRules {
            nodes,
            top,
            counters: self.registry.domain(&domain.name),
            overrides: self.registry.rule(overrides),
            on_store_error: domain.on_store_error,
        }
    }

    fn level<'d>(
        &mut self,
        domain: &Domain,
        path: &mut Vec<&'d DescriptorRule>,
        rules: &'d [DescriptorRule],
        nodes: &mut Vec<RuleNode>,
    ) -> Level {
        let mut level = Level::default();
        for rule in rules {
            path.push(rule);
            let own = rule.limit.as_ref().map(|limit| self.rule(domain, path, rule, limit));
            let below = self.level(domain, path, &rule.children, nodes);
            match &rule.networks {
                Some(networks) => level.insert_networks(&rule.key, networks, nodes.len()),
                None => level.insert(&rule.key, rule.value.as_deref(), nodes.len()),
            }
            nodes.push(RuleNode { rule: own, below });
            path.pop();
        }
        level.seal();
        level
    }

    fn rule(
        &mut self,
        domain: &Domain,
        path: &[&DescriptorRule],
        rule: &DescriptorRule,
        limit: &RequestLimit,
    ) -> RequestRule {
        let order = self.order;
        self.order = order.saturating_add(1);
        // One limit is taken for each rate, in the order of `entries_of`.
        let enrolled = rate_of(rule).and_then(|rate| Some((rate, self.enrolled.next()?)));
        let bucket =
            enrolled.map(|(rate, (limit, account))| ActiveLimit::new(rate, limit, account, self.near));
        let local = enrolled.map(|(rate, (limit, account))| self.local(rate, limit, account));
        let identity = RuleIdentity {
            domain: domain.name.clone(),
            key: metric_label(path.iter().copied()),
            name: limit.name.clone(),
            metadata: rule.metadata.clone(),
            ban: limit.ban.clone().map(Arc::new),
            order,
            cached: Cached::default(),
        };
        let label = Label { domain: domain.name.clone(), key: identity.key.clone() };
        let steps: Vec<RuleStep> = path.iter().map(|rule| step(rule)).collect();
        let detailed = rule.detailed_metric;
        let tells_values = bucket.is_some() && steps.iter().any(|step| step.tells(detailed));
        RequestRule {
            identity: Arc::new(identity),
            replaces: limit.replaces.clone(),
            limit: bucket,
            account: rate_of(rule).map_or_else(String::new, |rate| name_of(domain, path, rate)).into(),
            local,
            rate: rate_of(rule).copied(),
            shadow: rule.shadow_mode,
            quota: rule.quota_mode,
            is_no_budget: AtomicBool::new(false),
            steps,
            detailed,
            values: tells_values.then(|| self.registry.values(label.clone())),
            counters: self.registry.rule(label),
        }
    }

    /// This process's share of a limit. If there is no such limit, since it would take longer than a year to fill, all
    /// of it.
    fn local(&self, rate: &RequestRate, limit: Limit, account: Account) -> ActiveLimit {
        let share = rate.share(self.local_share);
        match share.spec().build(StateStorage::UserSpace) {
            Ok(own) => ActiveLimit::new(&share, self.zero.align(own), account, self.near),
            Err(_) => ActiveLimit::new(rate, limit, account, self.near),
        }
    }
}

fn step(rule: &DescriptorRule) -> RuleStep {
    let value = rule.value.as_deref().or(rule.networks.as_ref().map(Networks::name));
    RuleStep {
        shared: rule.share_threshold.then(|| (rule.key.as_str().into(), value.unwrap_or("*").into())),
        value_to_metric: rule.value_to_metric,
        label: rule.label().into(),
    }
}
