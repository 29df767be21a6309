//! From a question to its answer: which limits apply, what they say, and what is told about it.

use std::{sync::Arc, sync::atomic::Ordering::Relaxed};

use ratelimit_common::time::Now;
use smallvec::SmallVec;

use super::{
    active_limit::ActiveLimit,
    counters::{HitCounters, Registry},
    evaluator::{CheckOutcome, Evaluated, Evaluator, LimitCheck, MOST_INLINE},
    generation::Generation,
    request::{Descriptor, MOST_DESCRIPTORS, MOST_HITS, Request},
    response::{Code, Response, Status, Statuses, UNLIMITED},
    rule_tree::{DescriptorKey, DomainRules, RequestRule, RuleStep, ValueKey},
    wait::{LongestWait, Wait},
};
use crate::{
    clock::Clock,
    store::{MemoryStore, Store as _},
    transaction::Crossings,
};

/// Whether a request asks for something, or says what it has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Ask,
    Report,
}

/// What a decision takes.
pub(super) struct DecisionContext<'s> {
    pub(super) generation: &'s Generation,
    pub(super) store: &'s MemoryStore,
    pub(super) crossings: &'s Crossings,
    pub(super) registry: &'s Registry,
    pub(super) clock: &'s (dyn Clock + Send + Sync),
}

/// Decides about a request that has been checked.
pub(super) fn decide(context: &DecisionContext<'_>, request: &Request, kind: RequestKind) -> Response {
    let Some(domain) = context.generation.rules.domains.get(&*request.domain) else {
        return of_unknown_domain(context, request);
    };
    if request.is_too_much() {
        return too_much(context, domain, request);
    }
    let rules = find_rules(domain, request);
    let checks = context.checks(request, &rules, kind);
    let evaluated = context.evaluator().judge(&checks, || context.now());
    answer(context, domain, request, &rules, &evaluated)
}

/// The answer to a request that was judged, which is counted.
#[inline]
pub(super) fn answer(
    context: &DecisionContext<'_>,
    domain: &DomainRules,
    request: &Request,
    rules: &MatchedRules<'_>,
    evaluated: &Evaluated<'_, '_>,
) -> Response {
    let Evaluated { checks, ref outcomes, is_over, .. } = *evaluated;
    let is_denied = is_over && !context.generation.shadow_mode;
    let counter = if is_denied { &domain.counters.denied } else { &domain.counters.allowed };
    counter.fetch_add(1, Relaxed);
    if is_over && !is_denied {
        domain.counters.shadowed.fetch_add(1, Relaxed);
    }
    context.count(domain, request, checks, outcomes);
    count_unlimited(request, rules);
    let statuses = statuses(rules, checks, outcomes);
    if is_denied {
        return denied(evaluated, statuses);
    }
    Response { code: Code::Ok, deciding: least_left(checks, outcomes), statuses, whole: None }
}

/// The answer to a request of a domain without rules, which is counted.
pub(super) fn of_unknown_domain(context: &DecisionContext<'_>, request: &Request) -> Response {
    context.registry.unknown.allowed.fetch_add(1, Relaxed);
    let statuses = request.descriptors.iter().take(MOST_DESCRIPTORS).map(|_| Status::NONE).collect();
    Response { code: Code::Ok, statuses, deciding: None, whole: None }
}

/// The answer to a request that is more than is judged: it is denied, and nothing is charged.
pub(super) fn too_much(context: &DecisionContext<'_>, domain: &DomainRules, request: &Request) -> Response {
    context.registry.too_much.fetch_add(1, Relaxed);
    let passes = context.generation.shadow_mode;
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
pub(super) type MatchedRules<'g> = SmallVec<[Option<&'g RequestRule>; MOST_INLINE]>;

pub(super) fn find_rules<'g>(domain: &'g DomainRules, request: &Request) -> MatchedRules<'g> {
    let find = |descriptor: &Descriptor| match descriptor.limit {
        Some(_) => None,
        None => domain.find(&descriptor.entries),
    };
    request.descriptors.iter().map(find).collect()
}

/// The limits to ask.
pub(super) type LimitChecks<'g> = SmallVec<[LimitCheck<'g>; MOST_INLINE]>;

impl<'s> DecisionContext<'s> {
    pub(super) fn now(&self) -> Now {
        self.generation.zero.since(self.clock.now())
    }

    pub(super) fn evaluator(&self) -> Evaluator<'s> {
        Evaluator {
            store: self.store,
            limits: &self.generation.limits,
            crossings: self.crossings,
            now: self.now(),
            passes_all: self.generation.shadow_mode,
        }
    }

    /// The limits to ask, in the order of descriptors. One that another descriptor's rule replaces is not asked.
    pub(super) fn checks<'g>(
        &self,
        request: &Request,
        rules: &MatchedRules<'g>,
        kind: RequestKind,
    ) -> LimitChecks<'g> {
        let is_open = |rule: &&RequestRule| rule.limit.is_none() && self.is_quota(Some(rule));
        let has_open_quota = rules.iter().flatten().any(is_open);
        let replaces = |name: &String| rules.iter().flatten().any(|rule| rule.replaces.contains(name));
        let check = |(index, descriptor): (usize, &Descriptor)| {
            let (rule, limit) = match descriptor.limit {
                Some(own) => (None, self.generation.window(own.requests_per_unit, own.unit?)?),
                None => {
                    let rule = rules[index]?;
                    let is_replaced = rule.identity.name.as_ref().is_some_and(replaces);
                    (Some(rule), rule.limit.filter(|_| !is_replaced)?)
                }
            };
            let reports = kind == RequestKind::Report;
            Some(LimitCheck { has_open_quota, reports, ..self.check(request, index, rule, limit) })
        };
        request.descriptors.iter().enumerate().filter_map(check).collect()
    }

    fn check<'g>(
        &self,
        request: &Request,
        index: usize,
        rule: Option<&'g RequestRule>,
        limit: ActiveLimit,
    ) -> LimitCheck<'g> {
        let descriptor = &request.descriptors[index];
        let steps: &[RuleStep] = rule.map_or(&[], |rule| &rule.steps);
        let key = DescriptorKey { domain: &request.domain, entries: &descriptor.entries, steps };
        let hits = descriptor.hits(request.hits_addend);
        LimitCheck {
            descriptor: index,
            rule,
            limit,
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

    fn is_quota(&self, rule: Option<&RequestRule>) -> bool {
        self.generation.quota_mode || rule.is_some_and(|rule| rule.quota)
    }

    fn count(
        &self,
        domain: &DomainRules,
        request: &Request,
        checks: &[LimitCheck<'_>],
        outcomes: &[CheckOutcome],
    ) {
        for (check, outcome) in checks.iter().zip(outcomes).filter(|(check, _)| !check.refunds) {
            let add = |counters: &HitCounters| {
                counters.add(
                    &check.limit,
                    &outcome.verdict,
                    check.hits.into(),
                    outcome.charged,
                    check.shadow,
                );
            };
            let Some(rule) = check.rule else {
                add(&domain.overrides);
                continue;
            };
            if check.hits == 0 && !check.reports {
                rule.asked_for_nothing();
            }
            let Some(values) = &rule.values else {
                add(&rule.counters);
                continue;
            };
            let entries = &request.descriptors[check.descriptor].entries;
            let hash = self.store.hash(&ValueKey { rule, entries });
            match values.of(hash, || rule.label(entries)) {
                Some(counters) => add(&counters),
                None => {
                    values.leave_out(check.hits.into());
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
pub(super) fn count_unlimited(request: &Request, rules: &MatchedRules<'_>) {
    for (descriptor, rule) in request.descriptors.iter().zip(rules) {
        if let Some(rule) = rule.filter(|rule| rule.limit.is_none()) {
            rule.counters.add_unlimited(charged(descriptor.hits(request.hits_addend)).into());
        }
    }
}

pub(super) fn statuses(
    rules: &MatchedRules<'_>,
    checks: &[LimitCheck<'_>],
    outcomes: &[CheckOutcome],
) -> Statuses {
    let unasked = |rule: &Option<&RequestRule>| match rule {
        Some(rule) if rule.limit.is_none() => {
            Status { remaining: UNLIMITED, rule: Some(Arc::clone(&rule.identity)), ..Status::NONE }
        }
        _ => Status::NONE,
    };
    let mut statuses: Statuses = rules.iter().map(unasked).collect();
    for (check, CheckOutcome { verdict, .. }) in checks.iter().zip(outcomes) {
        statuses[check.descriptor] = Status {
            code: if verdict.over && !check.shadow { Code::OverLimit } else { Code::Ok },
            limit: Some(check.limit.current),
            remaining: verdict.remaining,
            reset_after: verdict.reset_after,
            next_after: verdict.next_after,
            retry_after: verdict.wait.map(|wait| wait.exact),
            retry_after_seconds: verdict.wait.map(|wait| wait.seconds),
            never: verdict.never,
            soft: verdict.soft,
            shadowed: verdict.over && check.shadow,
            quota: check.quota,
            rule: check.rule.map(|rule| Arc::clone(&rule.identity)),
        };
    }
    statuses
}

/// The answer to a request that is denied. The limit to be waited for stands for all, whether it denied or not.
fn denied(evaluated: &Evaluated<'_, '_>, statuses: Statuses) -> Response {
    let checks = evaluated.checks;
    let longest = evaluated.longest();
    let whole = longest.and_then(|LongestWait { check, wait }| {
        let verdict = evaluated.outcomes[check].verdict;
        let is_said = verdict.over && verdict.wait == wait;
        (!is_said).then(|| Box::new(whole(&statuses[checks[check].descriptor], &checks[check], wait)))
    });
    let deciding = longest.map(|longest| checks[longest.check].descriptor);
    Response { code: Code::OverLimit, statuses, deciding, whole }
}

/// A limit's status as that of a whole request that is denied for so long.
fn whole(status: &Status, check: &LimitCheck<'_>, wait: Option<Wait>) -> Status {
    let exact = wait.map(|wait| wait.exact);
    Status {
        code: Code::OverLimit,
        remaining: 0,
        reset_after: exact.filter(|_| !check.limit.is_window()).unwrap_or(status.reset_after),
        retry_after: exact,
        retry_after_seconds: wait.map(|wait| wait.seconds),
        never: wait.is_none(),
        soft: false,
        ..status.clone()
    }
}

/// The descriptor whose status stands for all of a request that passes.
fn least_left(checks: &[LimitCheck<'_>], outcomes: &[CheckOutcome]) -> Option<usize> {
    // What is over and passes is not what the client should slow down for, if there is anything else.
    let key = |(check, CheckOutcome { verdict, .. }): &(&LimitCheck<'_>, &CheckOutcome)| {
        (check.shadow || verdict.over, verdict.remaining, check.order())
    };
    checks.iter().zip(outcomes).min_by_key(key).map(|(check, _)| check.descriptor)
}
