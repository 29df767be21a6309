//! From a question to its answer: which limits apply, what they say, and what is told about it.

use std::{sync::Arc, sync::atomic::Ordering::Relaxed};

use ratelimit_common::time::Now;
use smallvec::SmallVec;

use super::{
    book::{BucketKey, DomainRules, Rule, Step, ValueKey},
    bucket::Bucket,
    counters::{Registry, RuleCounters},
    generation::Generation,
    judge::{Ask, Court, Judged, MOST_INLINE, Outcome},
    request::{Descriptor, MOST_DESCRIPTORS, MOST_HITS, Request},
    response::{Code, Response, Status, Statuses, UNLIMITED},
    wait::{Longest, Wait},
};
use crate::{
    clock::Clock,
    store::{MemoryStore, Store as _},
    transaction::Crossings,
};

/// Whether a request asks for something, or says what it has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Ask,
    Report,
}

/// What a decision takes.
pub(super) struct Bench<'s> {
    pub(super) generation: &'s Generation,
    pub(super) store: &'s MemoryStore,
    pub(super) crossings: &'s Crossings,
    pub(super) registry: &'s Registry,
    pub(super) clock: &'s (dyn Clock + Send + Sync),
}

/// Decides about a request that has been checked.
pub(super) fn decide(bench: &Bench<'_>, request: &Request, manner: Manner) -> Response {
    let Some(domain) = bench.generation.book.domains.get(&*request.domain) else {
        return of_unknown_domain(bench, request);
    };
    if request.is_too_much() {
        return too_much(bench, domain, request);
    }
    let rules = find_rules(domain, request);
    let asks = bench.asks(request, &rules, manner);
    let judged = bench.court().judge(&asks, || bench.now());
    answer(bench, domain, request, &rules, &judged)
}

/// The answer to a request that was judged, which is counted.
#[inline]
pub(super) fn answer(
    bench: &Bench<'_>,
    domain: &DomainRules,
    request: &Request,
    rules: &Rules<'_>,
    judged: &Judged<'_, '_>,
) -> Response {
    let Judged { asks, ref outcomes, is_over, .. } = *judged;
    let is_denied = is_over && !bench.generation.shadow_mode;
    let counter = if is_denied { &domain.counters.denied } else { &domain.counters.allowed };
    counter.fetch_add(1, Relaxed);
    if is_over && !is_denied {
        domain.counters.shadowed.fetch_add(1, Relaxed);
    }
    bench.count(domain, request, asks, outcomes);
    count_unlimited(request, rules);
    let statuses = statuses(rules, asks, outcomes);
    if is_denied {
        return denied(judged, statuses);
    }
    Response { code: Code::Ok, deciding: least_left(asks, outcomes), statuses, whole: None }
}

/// The answer to a request of a domain without rules, which is counted.
pub(super) fn of_unknown_domain(bench: &Bench<'_>, request: &Request) -> Response {
    bench.registry.unknown.allowed.fetch_add(1, Relaxed);
    let statuses = request.descriptors.iter().take(MOST_DESCRIPTORS).map(|_| Status::NONE).collect();
    Response { code: Code::Ok, statuses, deciding: None, whole: None }
}

/// The answer to a request that is more than is judged: it is denied, and nothing is charged.
pub(super) fn too_much(bench: &Bench<'_>, domain: &DomainRules, request: &Request) -> Response {
    bench.registry.too_much.fetch_add(1, Relaxed);
    let passes = bench.generation.shadow_mode;
    let counter = if passes { &domain.counters.shadowed } else { &domain.counters.denied };
    counter.fetch_add(1, Relaxed);
    if passes {
        domain.counters.allowed.fetch_add(1, Relaxed);
    }
    let statuses = request.descriptors.iter().take(MOST_DESCRIPTORS).map(|_| Status::NEVER).collect();
    let code = if passes { Code::Ok } else { Code::OverLimit };
    Response { code, statuses, deciding: None, whole: None }
}

/// For each descriptor its rule; `None` if it has none, or brings a limit of its own.
pub(super) type Rules<'g> = SmallVec<[Option<&'g Rule>; MOST_INLINE]>;

pub(super) fn find_rules<'g>(domain: &'g DomainRules, request: &Request) -> Rules<'g> {
    let find = |descriptor: &Descriptor| match descriptor.limit {
        Some(_) => None,
        None => domain.find(&descriptor.entries),
    };
    request.descriptors.iter().map(find).collect()
}

/// The limits to ask.
pub(super) type Asks<'g> = SmallVec<[Ask<'g>; MOST_INLINE]>;

impl<'s> Bench<'s> {
    pub(super) fn now(&self) -> Now {
        self.generation.zero.since(self.clock.now())
    }

    pub(super) fn court(&self) -> Court<'s> {
        Court {
            store: self.store,
            limits: &self.generation.limits,
            crossings: self.crossings,
            now: self.now(),
            passes_all: self.generation.shadow_mode,
        }
    }

    /// The limits to ask, in the order of descriptors. One that another descriptor's rule replaces is not asked.
    pub(super) fn asks<'g>(&self, request: &Request, rules: &Rules<'g>, manner: Manner) -> Asks<'g> {
        let is_open = |rule: &&Rule| rule.bucket.is_none() && self.is_quota(Some(rule));
        let has_open_quota = rules.iter().flatten().any(is_open);
        let replaces = |name: &String| rules.iter().flatten().any(|rule| rule.replaces.contains(name));
        let ask = |(index, descriptor): (usize, &Descriptor)| {
            let (rule, bucket) = match descriptor.limit {
                Some(own) => (None, self.generation.window(own.requests_per_unit, own.unit?)?),
                None => {
                    let rule = rules[index]?;
                    let is_replaced = rule.identity.name.as_ref().is_some_and(replaces);
                    (Some(rule), rule.bucket.filter(|_| !is_replaced)?)
                }
            };
            let reports = manner == Manner::Report;
            Some(Ask { has_open_quota, reports, ..self.ask(request, index, rule, bucket) })
        };
        request.descriptors.iter().enumerate().filter_map(ask).collect()
    }

    fn ask<'g>(&self, request: &Request, index: usize, rule: Option<&'g Rule>, bucket: Bucket) -> Ask<'g> {
        let descriptor = &request.descriptors[index];
        let steps: &[Step] = rule.map_or(&[], |rule| &rule.steps);
        let key = BucketKey { domain: &request.domain, entries: &descriptor.entries, steps };
        let hits = descriptor.hits(request.hits_addend);
        Ask {
            descriptor: index,
            rule,
            bucket,
            hash: self.store.hash(&key),
            hits: charged(hits),
            uncounted: hits.saturating_sub(charged(hits).into()),
            is_excessive: hits > MOST_HITS && !descriptor.is_negative_hits,
            refunds: descriptor.is_negative_hits,
            reports: false,
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
            let Some(rule) = ask.rule else {
                add(&domain.overrides);
                continue;
            };
            if ask.hits == 0 && !ask.reports {
                rule.asked_for_nothing();
            }
            let Some(values) = &rule.values else {
                add(&rule.counters);
                continue;
            };
            let entries = &request.descriptors[ask.descriptor].entries;
            let hash = self.store.hash(&ValueKey { rule, entries });
            match values.of(hash, || rule.label(entries)) {
                Some(counters) => add(&counters),
                None => {
                    values.leave_out(ask.hits.into());
                    add(&rule.counters);
                }
            }
        }
    }
}

/// What is charged and counted of so many hits.
fn charged(hits: u64) -> u32 {
    u32::try_from(hits).unwrap_or(u32::MAX)
}

/// Counts the descriptors whose rule has no limit.
pub(super) fn count_unlimited(request: &Request, rules: &Rules<'_>) {
    for (descriptor, rule) in request.descriptors.iter().zip(rules) {
        if let Some(rule) = rule.filter(|rule| rule.bucket.is_none()) {
            rule.counters.add_unlimited(charged(descriptor.hits(request.hits_addend)).into());
        }
    }
}

pub(super) fn statuses(rules: &Rules<'_>, asks: &[Ask<'_>], outcomes: &[Outcome]) -> Statuses {
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

/// The answer to a request that is denied. The limit to be waited for stands for all, whether it denied or not.
fn denied(judged: &Judged<'_, '_>, statuses: Statuses) -> Response {
    let asks = judged.asks;
    let longest = judged.longest();
    let whole = longest.and_then(|Longest { ask, wait }| {
        let verdict = judged.outcomes[ask].verdict;
        let is_said = verdict.over && verdict.wait == wait;
        (!is_said).then(|| Box::new(whole(&statuses[asks[ask].descriptor], &asks[ask], wait)))
    });
    let deciding = longest.map(|longest| asks[longest.ask].descriptor);
    Response { code: Code::OverLimit, statuses, deciding, whole }
}

/// A limit's status as that of a whole request that is denied for so long.
fn whole(status: &Status, ask: &Ask<'_>, wait: Option<Wait>) -> Status {
    let exact = wait.map(|wait| wait.exact);
    Status {
        code: Code::OverLimit,
        remaining: 0,
        reset_after: exact.filter(|_| !ask.bucket.is_window()).unwrap_or(status.reset_after),
        retry_after: exact,
        retry_after_seconds: wait.map(|wait| wait.seconds),
        never: wait.is_none(),
        soft: false,
        ..status.clone()
    }
}

/// The descriptor whose status stands for all of a request that passes.
fn least_left(asks: &[Ask<'_>], outcomes: &[Outcome]) -> Option<usize> {
    // What is over and passes is not what the client should slow down for, if there is anything else.
    let key = |(ask, Outcome { verdict, .. }): &(&Ask<'_>, &Outcome)| {
        (ask.shadow || verdict.over, verdict.remaining, ask.order())
    };
    asks.iter().zip(outcomes).min_by_key(key).map(|(ask, _)| ask.descriptor)
}
