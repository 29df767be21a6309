//! Decisions while the store does not answer: requests go on, or they do not, or this process judges by what it knows
//! itself.
//!
//! What no state would let through is denied in any case, and what is reported or given back is not. No number is made
//! up.

use super::{
    super::{
        decide::{DecisionContext, LimitChecks, MatchedRules, answer, count_unlimited, statuses},
        evaluator::{parts, terms},
        request::Request,
        response::{Code, Response, Status},
        rule_tree::DomainRules,
    },
    SharedStore,
    stats::Instead,
};
use crate::{
    policy::OnStoreError,
    transaction::{Part, PartOutcome, is_over},
};

impl SharedStore {
    /// Decides by what the domain says about that.
    pub(super) fn decide_without(
        &self,
        context: &DecisionContext<'_>,
        (domain, request): (&DomainRules, &Request),
        rules: &MatchedRules<'_>,
        checks: &mut LimitChecks<'_>,
    ) -> Response {
        let policy = domain.on_store_error.unwrap_or(context.generation.on_store_error);
        let deny = match policy {
            OnStoreError::Allow => false,
            OnStoreError::Deny => true,
            OnStoreError::Local => {
                self.counts.did(Instead::Local);
                return local(context, (domain, request), rules, checks);
            }
        };
        let response = unjudged(context, (domain, request), rules, checks, deny);
        self.counts.did(if response.allowed() { Instead::Allowed } else { Instead::Denied });
        response
    }
}

/// Judges by the buckets of this process, which have this process's share of each limit. They are kept when the store
/// is back, so that one that comes and goes gives nobody another burst.
fn local(
    context: &DecisionContext<'_>,
    (domain, request): (&DomainRules, &Request),
    rules: &MatchedRules<'_>,
    checks: &mut LimitChecks<'_>,
) -> Response {
    for check in checks.iter_mut() {
        let of_request = || {
            let own = request.descriptors[check.descriptor].limit?;
            context.generation.local_window(own.requests_per_unit, own.unit?)
        };
        if let Some(limit) = check.rule.map_or_else(of_request, |rule| rule.local) {
            check.limit = limit;
        }
    }
    let evaluated = context.evaluator().judge(checks, || context.now());
    answer(context, domain, request, rules, &evaluated)
}

/// The answer without any state.
fn unjudged(
    context: &DecisionContext<'_>,
    (domain, request): (&DomainRules, &Request),
    rules: &MatchedRules<'_>,
    checks: &LimitChecks<'_>,
    deny: bool,
) -> Response {
    use std::sync::atomic::Ordering::Relaxed;

    let parts = parts(checks);
    let terms = terms(checks, context.now(), context.generation.shadow_mode);
    let over = |part: &Part<'_>| part.denies_always() || (deny && !part.gives_back());
    let outcomes: Vec<PartOutcome<'_>> = parts.iter().map(|part| PartOutcome::unknown(over(part))).collect();
    let is_over = is_over(&terms, &parts, &outcomes);
    let is_denied = is_over && !terms.passes_all;
    let counter = if is_denied { &domain.counters.denied } else { &domain.counters.allowed };
    counter.fetch_add(1, Relaxed);
    if is_over && !is_denied {
        domain.counters.shadowed.fetch_add(1, Relaxed);
    }
    count_unlimited(request, rules);
    let mut statuses = statuses(rules, &[], &[]);
    for (check, outcome) in checks.iter().zip(&outcomes) {
        let over = outcome.over && !check.shadow && !check.reports;
        statuses[check.descriptor] = Status {
            code: if over { Code::OverLimit } else { Code::Ok },
            shadowed: outcome.over && check.shadow,
            quota: check.quota,
            rule: check.rule.map(|rule| std::sync::Arc::clone(&rule.identity)),
            ..Status::NONE
        };
    }
    let code = if is_denied { Code::OverLimit } else { Code::Ok };
    Response { code, statuses, deciding: None, whole: None }
}
