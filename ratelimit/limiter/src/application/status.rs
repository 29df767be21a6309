//! What is in force about requests and what it has done, for people and programs: so much of it as somebody asks for,
//! and how much was left out.

use std::sync::atomic::Ordering::Relaxed;

use super::{
    counters::{DomainCounts, Label, RuleCounts},
    generation::Generation,
    rule_tree::RequestRule,
    shared::SharedStoreStats,
};
use crate::{
    format::{format_limit, format_request_ban},
    policy::{LIMITS_OF_REQUESTS, RequestRate},
    store::remote::Breaker,
    text::beginning,
};

/// What is in force about requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServiceStatus {
    /// Whether a request is let through whatever the limits say.
    pub shadow_mode: bool,
    /// Whether every limit is in quota mode.
    pub quota_mode: bool,
    /// Requests by their domain, in the order of names: those with most requests if not all are here.
    pub domains: Vec<DomainStatus>,
    /// How many domains are not here.
    pub domains_left_out: usize,
    /// Requests of domains that no rule is about.
    pub unknown_domains: DomainCounts,
    /// The rules, in the order of the files: those that denied most if not all are here.
    pub rules: Vec<RequestRuleStatus>,
    /// How many rules are not here.
    pub rules_left_out: usize,
    /// Requests that made no sense.
    pub request_errors: u64,
    /// Where counts are kept.
    pub store: StoreStatus,
}

/// A domain and what came of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DomainStatus {
    /// Its name; only the beginning of a long one.
    pub domain: String,
    /// Its requests.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub counts: DomainCounts,
}

/// A rule on requests and what it has done, in hits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestRuleStatus {
    /// Its domain; only the beginning of a long one.
    pub domain: String,
    /// Keys and values on the way to it, as metrics show them; likewise.
    pub rule: String,
    /// The limit's name, if it has one; likewise.
    pub name: Option<String>,
    /// The limit.
    pub limit: String,
    /// What it does with who is over it.
    pub action: RequestAction,
    /// Hits that it allowed.
    pub allowed: u64,
    /// Hits that it denied.
    pub denied: u64,
    /// Hits over the limit that passed because it is in shadow mode.
    pub shadowed: u64,
    /// Those among the allowed that were above the soft limit.
    pub soft: u64,
    /// Hits of a limit with `overrun` that were not charged, since no more could be owed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cut: u64,
    /// Hits above the near limit ratio, up to the limit.
    pub near_limit: u64,
    /// Labels that values have in metrics.
    pub labels: usize,
    /// Hits of values that have none although the rule asks for them.
    pub unlabelled: u64,
    /// Whether it was asked with a cost of 0, as budgets are, though it can't be overrun and drops what is denied.
    #[cfg_attr(feature = "serde", serde(default))]
    pub is_no_budget: bool,
    /// When it bans a client, and for how long, as a rule file would have it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub ban: Option<String>,
    /// Bans that it has asked for, as far as those know who make them: the service itself does not.
    #[cfg_attr(feature = "serde", serde(default))]
    pub bans_asked: u64,
    /// Its whole label, for those who count bans.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub label: Label,
}

/// What a rule does with who is over its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum RequestAction {
    /// It denies.
    Deny,
    /// It counts.
    Shadow,
    /// It denies together with all others in quota mode.
    Quota,
    /// There is no limit.
    Allow,
}

impl RequestAction {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Shadow => "shadow",
            Self::Quota => "quota",
            Self::Allow => "allow",
        }
    }
}

/// The store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StoreStatus {
    /// Buckets in use.
    pub keys: u64,
    /// How many there is room for.
    pub max_keys: u64,
    /// Its memory in bytes.
    pub bytes: u64,
    /// Buckets in use that gave way to others because the store was full.
    pub live_evictions: u64,
    /// Where counts are saved on a clean stop.
    pub state_file: Option<String>,
    /// The store that is asked instead, if several daemons share one.
    #[cfg_attr(feature = "serde", serde(default))]
    pub shared: Option<SharedStoreStatus>,
}

/// A store that several daemons share.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SharedStoreStatus {
    /// What it is, and where.
    pub name: String,
    /// Whether it is asked.
    pub breaker: Breaker,
    /// Questions without a decision.
    pub errors: u64,
    /// Requests that passed without it.
    pub allowed: u64,
    /// Requests that were denied without it.
    pub denied: u64,
    /// Requests about which this daemon decided by itself.
    pub local: u64,
}

impl SharedStoreStatus {
    pub(super) fn of(stats: &SharedStoreStats) -> Self {
        let [(_, allowed), (_, denied), (_, local)] = stats.without_store;
        Self {
            name: stats.health.name.clone(),
            breaker: stats.health.breaker,
            errors: stats.errors.iter().map(|(_, count)| count).sum(),
            allowed,
            denied,
            local,
        }
    }
}

/// Some of many, and how many are not among them.
pub(super) struct Truncated<T> {
    pub(super) shown: Vec<T>,
    pub(super) left_out: usize,
}

impl<T> Truncated<T> {
    /// All if they are no more than `most`, else those that weigh most; in order.
    pub(super) fn of<W: Ord>(all: Vec<T>, most: usize, weight: impl Fn(&T) -> W) -> Self {
        let left_out = all.len().saturating_sub(most);
        if left_out == 0 {
            return Self { shown: all, left_out };
        }
        let mut numbered: Vec<(usize, T)> = all.into_iter().enumerate().collect();
        numbered.sort_by_cached_key(|(_, item)| std::cmp::Reverse(weight(item)));
        numbered.truncate(most);
        numbered.sort_by_key(|(number, _)| *number);
        Self { shown: numbered.into_iter().map(|(_, item)| item).collect(), left_out }
    }
}

/// The rules of a generation that weigh most: what they denied or would have, then what they judged.
pub(super) fn rules(generation: &Generation, most: usize) -> Truncated<RequestRuleStatus> {
    let mut rules: Vec<(&RequestRule, RuleCounts)> = generation
        .rules
        .domains
        .values()
        .flat_map(|domain| &domain.nodes)
        .filter_map(|node| node.rule.as_ref())
        .map(|rule| (rule, rule.counts()))
        .collect();
    rules.sort_by_key(|(rule, _)| rule.identity.order);
    let rules = Truncated::of(rules, most, |(_, counts)| (over(counts), counts.total_hits));
    let Truncated { shown, mut left_out } = rules;
    let mut shown: Vec<_> =
        shown.into_iter().map(|(rule, counts)| of_rule(generation, rule, &counts)).collect();
    let mut domains: Vec<_> = generation.rules.domains.iter().collect();
    domains.sort_by_key(|(name, _)| *name);
    for (domain, rules) in domains {
        let counts = rules.overrides.read();
        match counts.total_hits {
            0 => {}
            _ if shown.len() < most => shown.push(of_requests(domain, &counts)),
            _ => left_out += 1,
        }
    }
    Truncated { shown, left_out }
}

/// Hits of requests that were over the limit.
const fn over(counts: &RuleCounts) -> u64 {
    counts.total_hits.saturating_sub(counts.within_limit)
}

fn of_rule(generation: &Generation, rule: &RequestRule, counts: &RuleCounts) -> RequestRuleStatus {
    let action = match rule.rate {
        None => RequestAction::Allow,
        Some(_) if rule.shadow || generation.shadow_mode => RequestAction::Shadow,
        Some(_) if rule.quota || generation.quota_mode => RequestAction::Quota,
        Some(_) => RequestAction::Deny,
    };
    let values = rule.values.as_ref();
    RequestRuleStatus {
        name: rule.identity.name.as_deref().map(shown),
        limit: rule.rate.as_ref().map_or_else(|| "unlimited".to_owned(), limit),
        labels: values.map_or(0, |values| values.labels()),
        unlabelled: values.map_or(0, |values| values.left_out()),
        is_no_budget: rule.is_no_budget.load(Relaxed),
        ban: rule.identity.ban.as_deref().map(format_request_ban),
        ..status(&rule.identity.domain, &rule.identity.key, action, counts)
    }
}

/// Limits that requests of a domain brought along.
fn of_requests(domain: &str, counts: &RuleCounts) -> RequestRuleStatus {
    status(domain, LIMITS_OF_REQUESTS, RequestAction::Deny, counts)
}

fn status(domain: &str, rule: &str, action: RequestAction, counts: &RuleCounts) -> RequestRuleStatus {
    RequestRuleStatus {
        domain: shown(domain),
        rule: shown(rule),
        name: None,
        limit: "as the request says".to_owned(),
        action,
        allowed: counts.within_limit,
        denied: over(counts).saturating_sub(counts.shadow_mode),
        shadowed: counts.shadow_mode,
        soft: counts.soft_limit,
        cut: counts.cut,
        near_limit: counts.near_limit,
        labels: 0,
        unlabelled: 0,
        is_no_budget: false,
        ban: None,
        bans_asked: 0,
        label: Label { domain: domain.to_owned(), key: rule.to_owned() },
    }
}

fn limit(rate: &RequestRate) -> String {
    if rate.denies_all() {
        return "0 requests".to_owned();
    }
    let soft = rate.soft().map(|soft| {
        let lasts = humantime::format_duration(std::time::Duration::from_nanos(soft.lasts.0));
        format!(",soft_limit={},soft_for={}", soft.limit, lasts.to_string().replace(' ', ""))
    });
    format_limit(rate.spec()) + &soft.unwrap_or_default()
}

/// What is shown of a name, with a sign that there is more.
pub(super) fn shown(name: &str) -> String {
    let beginning = beginning(name);
    if beginning.len() == name.len() { name.to_owned() } else { format!("{beginning}...") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_those_stay_that_weigh_most_in_their_order() {
        let all = vec![5, 1, 9, 3, 7];
        let part = Truncated::of(all.clone(), 3, |item| *item);
        assert_eq!((part.shown, part.left_out), (vec![5, 9, 7], 2));
        let part = Truncated::of(all.clone(), 5, |item| *item);
        assert_eq!((part.shown, part.left_out), (all, 0));
    }
}
