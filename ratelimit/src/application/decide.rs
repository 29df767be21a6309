//! From a question to its answer: which limits apply, what they say, and what is told about it.

use std::{cmp::Reverse, sync::Arc, sync::atomic::Ordering::Relaxed};

use ratelimit_common::time::Now;
use smallvec::SmallVec;

use super::{
    book::{BucketKey, DomainRules, Rule, Step, ValueKey},
    bucket::Bucket,
    counters::{Registry, RuleCounters},
    generation::Generation,
    judge::{Ask, Court, MOST_INLINE, Outcome, is_denied, is_over_quota},
    request::{Descriptor, Request},
    response::{Code, Response, Status, Statuses, UNLIMITED},
    soft::Crossings,
};
use crate::{
    clock::Clock,
    store::{MemoryStore, Store as _, Zero},
};

/// What a decision takes.
pub(super) struct Bench<'s> {
    pub(super) generation: &'s Generation,
    pub(super) store: &'s MemoryStore,
    pub(super) crossings: &'s Crossings,
    pub(super) registry: &'s Registry,
    pub(super) zero: Zero,
    pub(super) clock: &'s (dyn Clock + Send + Sync),
}

/// Decides about a request that has been checked.
pub(super) fn decide(bench: &Bench<'_>, request: &Request) -> Response {
    let Some(domain) = bench.generation.book.domains.get(&*request.domain) else {
        bench.registry.unknown.allowed.fetch_add(1, Relaxed);
        let statuses = request.descriptors.iter().map(|_| Status::NONE).collect();
        return Response { code: Code::Ok, statuses, deciding: None };
    };
    let rules = find_rules(domain, request);
    let asks = bench.asks(request, &rules);
    let outcomes = bench.court().judge(&asks, || bench.now());
    let is_over = is_denied(&asks, &outcomes);
    let is_denied = is_over && !bench.generation.shadow_mode;
    let counter = if is_denied { &domain.counters.denied } else { &domain.counters.allowed };
    counter.fetch_add(1, Relaxed);
    if is_over && !is_denied {
        domain.counters.shadowed.fetch_add(1, Relaxed);
    }
    bench.count(domain, request, &asks, &outcomes);
    count_unlimited(request, &rules);
    Response {
        code: if is_denied { Code::OverLimit } else { Code::Ok },
        deciding: deciding(&asks, &outcomes, is_denied),
        statuses: statuses(&rules, &asks, &outcomes),
    }
}

/// For each descriptor its rule; `None` if it has none, or brings a limit of its own.
type Rules<'g> = SmallVec<[Option<&'g Rule>; MOST_INLINE]>;

fn find_rules<'g>(domain: &'g DomainRules, request: &Request) -> Rules<'g> {
    let find = |descriptor: &Descriptor| match descriptor.limit {
        Some(_) => None,
        None => domain.find(&descriptor.entries),
    };
    request.descriptors.iter().map(find).collect()
}

impl<'s> Bench<'s> {
    fn now(&self) -> Now {
        self.zero.since(self.clock.now())
    }

    fn court(&self) -> Court<'s> {
        Court {
            store: self.store,
            limits: &self.generation.limits,
            crossings: self.crossings,
            now: self.now(),
            passes_all: self.generation.shadow_mode,
        }
    }

    /// The limits to ask, in the order of descriptors. One that another descriptor's rule replaces is not asked.
    fn asks<'g>(&self, request: &Request, rules: &Rules<'g>) -> SmallVec<[Ask<'g>; MOST_INLINE]> {
        let is_open = |rule: &&Rule| rule.bucket.is_none() && self.is_quota(Some(rule));
        let has_open_quota = rules.iter().flatten().any(is_open);
        let replaces = |name: &String| rules.iter().flatten().any(|rule| rule.replaces.contains(name));
        let ask = |(index, descriptor): (usize, &Descriptor)| {
            let (rule, bucket) = match descriptor.limit {
                Some(own) => (None, self.generation.window(own.requests_per_unit, own.unit?, self.zero)?),
                None => {
                    let rule = rules[index]?;
                    let is_replaced = rule.identity.name.as_ref().is_some_and(replaces);
                    (Some(rule), rule.bucket.filter(|_| !is_replaced)?)
                }
            };
            Some(Ask { has_open_quota, ..self.ask(request, index, rule, bucket) })
        };
        request.descriptors.iter().enumerate().filter_map(ask).collect()
    }

    fn ask<'g>(&self, request: &Request, index: usize, rule: Option<&'g Rule>, bucket: Bucket) -> Ask<'g> {
        let descriptor = &request.descriptors[index];
        let steps: &[Step] = rule.map_or(&[], |rule| &rule.steps);
        let key = BucketKey { domain: &request.domain, entries: &descriptor.entries, steps };
        Ask {
            descriptor: index,
            rule,
            bucket,
            hash: self.store.hash(&key),
            hits: u32::try_from(descriptor.hits(request.hits_addend)).unwrap_or(u32::MAX),
            refunds: descriptor.is_negative_hits,
            shadow: rule.is_some_and(|rule| rule.shadow),
            quota: self.is_quota(rule),
            has_open_quota: false,
        }
    }

    fn is_quota(&self, rule: Option<&Rule>) -> bool {
        self.generation.quota_mode || rule.is_some_and(|rule| rule.quota)
    }

    fn count(&self, domain: &DomainRules, request: &Request, asks: &[Ask<'_>], outcomes: &[Outcome]) {
        for (ask, outcome) in asks.iter().zip(outcomes).filter(|(ask, _)| !ask.refunds) {
            let add = |counters: &RuleCounters| {
                counters.add(&ask.bucket, &outcome.verdict, ask.hits.into(), outcome.charged, ask.shadow);
            };
            match ask.rule {
                None => add(&domain.overrides),
                Some(rule) if rule.tells_values() => {
                    let entries = &request.descriptors[ask.descriptor].entries;
                    let hash = self.store.hash(&ValueKey { rule, entries });
                    add(&self.registry.values(rule, hash, || rule.label(entries)));
                }
                Some(rule) => add(&rule.counters),
            }
        }
    }
}

/// Counts the descriptors whose rule has no limit.
fn count_unlimited(request: &Request, rules: &Rules<'_>) {
    for (descriptor, rule) in request.descriptors.iter().zip(rules) {
        if let Some(rule) = rule.filter(|rule| rule.bucket.is_none()) {
            rule.counters.add_unlimited(descriptor.hits(request.hits_addend));
        }
    }
}

fn statuses(rules: &Rules<'_>, asks: &[Ask<'_>], outcomes: &[Outcome]) -> Statuses {
    let unasked = |rule: &Option<&Rule>| match rule {
        Some(rule) if rule.bucket.is_none() => {
            Status { remaining: UNLIMITED, rule: Some(Arc::clone(&rule.identity)), ..Status::NONE }
        }
        _ => Status::NONE,
    };
    let mut statuses: Statuses = rules.iter().map(unasked).collect();
    for (ask, Outcome { verdict, .. }) in asks.iter().zip(outcomes) {
        statuses[ask.descriptor] = Status {
            code: if verdict.over && !ask.shadow { Code::OverLimit } else { Code::Ok },
            limit: Some(ask.bucket.current),
            remaining: verdict.remaining,
            reset_after: verdict.reset_after,
            next_after: verdict.next_after,
            retry_after: verdict.wait.map(|wait| wait.exact),
            retry_after_seconds: verdict.wait.map(|wait| wait.seconds),
            never: verdict.never,
            soft: verdict.soft,
            shadowed: verdict.over && ask.shadow,
            quota: ask.quota,
            rule: ask.rule.map(|rule| Arc::clone(&rule.identity)),
        };
    }
    statuses
}

type Pairs<'a> = SmallVec<[(&'a Ask<'a>, &'a Outcome); MOST_INLINE]>;

/// The descriptor whose status stands for all: if denied, until its wait is over the request stays denied.
fn deciding(asks: &[Ask<'_>], outcomes: &[Outcome], is_denied: bool) -> Option<usize> {
    let order = |ask: &Ask<'_>| (ask.rule.map_or(u32::MAX, |rule| rule.identity.order), ask.descriptor);
    let pairs = asks.iter().zip(outcomes);
    let chosen = if is_denied {
        let wait = |outcome: &Outcome| (outcome.verdict.never, outcome.verdict.wait.map(|wait| wait.exact));
        let (quotas, others): (Pairs<'_>, Pairs<'_>) = pairs
            .filter(|(ask, outcome)| outcome.verdict.over && !ask.shadow)
            .partition(|(ask, _)| ask.quota);
        // One quota that lets it pass is enough; of the others, all have to.
        let soonest = quotas.into_iter().min_by_key(|(ask, outcome)| (wait(outcome), order(ask)));
        let quota = soonest.filter(|_| is_over_quota(asks, outcomes));
        others.into_iter().chain(quota).min_by_key(|(ask, outcome)| (Reverse(wait(outcome)), order(ask)))
    } else {
        // What is over and passes is not what the client should slow down for, if there is anything else.
        pairs.min_by_key(|(ask, outcome)| {
            (ask.shadow || outcome.verdict.over, outcome.verdict.remaining, order(ask))
        })
    };
    chosen.map(|(ask, _)| ask.descriptor)
}
