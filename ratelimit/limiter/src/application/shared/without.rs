//! Decisions while the store does not answer: requests go on, or they do not, or this process judges by what it knows itself.
//!
//! What no state would let through is denied in any case, and what is reported or given back is not. No number is made up.

use super::{
    super::{
        book::DomainRules,
        decide::{Asks, Bench, Rules, answer, count_unlimited, statuses},
        judge::{parts, terms},
        request::Request,
        response::{Code, Response, Status},
    },
    SharedStore,
    stats::Instead,
};
use crate::{
    policy::OnStoreError,
    transaction::{Outcome, Part, is_over},
};

impl SharedStore {
    /// Decides by what the domain says about that.
    pub(super) fn decide_without(
        &self,
        bench: &Bench<'_>,
        (domain, request): (&DomainRules, &Request),
        rules: &Rules<'_>,
        asks: &mut Asks<'_>,
    ) -> Response {
        let policy = domain.on_store_error.unwrap_or(bench.generation.on_store_error);
        let deny = match policy {
            OnStoreError::Allow => false,
            OnStoreError::Deny => true,
            OnStoreError::Local => {
                self.counts.did(Instead::Local);
                return local(bench, (domain, request), rules, asks);
            }
        };
        let response = unjudged(bench, (domain, request), rules, asks, deny);
        self.counts.did(if response.allowed() { Instead::Allowed } else { Instead::Denied });
        response
    }
}

/// Judges by the buckets of this process, which have this process's share of each limit. They are kept when the store is back,
/// so that one that comes and goes gives nobody another burst.
fn local(
    bench: &Bench<'_>,
    (domain, request): (&DomainRules, &Request),
    rules: &Rules<'_>,
    asks: &mut Asks<'_>,
) -> Response {
    for ask in asks.iter_mut() {
        let of_request = || {
            let own = request.descriptors[ask.descriptor].limit?;
            bench.generation.local_window(own.requests_per_unit, own.unit?)
        };
        if let Some(bucket) = ask.rule.map_or_else(of_request, |rule| rule.local) {
            ask.bucket = bucket;
        }
    }
    let judged = bench.court().judge(asks, || bench.now());
    answer(bench, domain, request, rules, &judged)
}

/// The answer without any state.
fn unjudged(
    bench: &Bench<'_>,
    (domain, request): (&DomainRules, &Request),
    rules: &Rules<'_>,
    asks: &Asks<'_>,
    deny: bool,
) -> Response {
    use std::sync::atomic::Ordering::Relaxed;

    let parts = parts(asks);
    let terms = terms(asks, bench.now(), bench.generation.shadow_mode);
    let over = |part: &Part<'_>| part.denies_always() || (deny && !part.gives_back());
    let outcomes: Vec<Outcome<'_>> = parts.iter().map(|part| Outcome::unknown(over(part))).collect();
    let is_over = is_over(&terms, &parts, &outcomes);
    let is_denied = is_over && !terms.passes_all;
    let counter = if is_denied { &domain.counters.denied } else { &domain.counters.allowed };
    counter.fetch_add(1, Relaxed);
    if is_over && !is_denied {
        domain.counters.shadowed.fetch_add(1, Relaxed);
    }
    count_unlimited(request, rules);
    let mut statuses = statuses(rules, &[], &[]);
    for (ask, outcome) in asks.iter().zip(&outcomes) {
        let over = outcome.over && !ask.shadow && !ask.reports;
        statuses[ask.descriptor] = Status {
            code: if over { Code::OverLimit } else { Code::Ok },
            shadowed: outcome.over && ask.shadow,
            quota: ask.quota,
            rule: ask.rule.map(|rule| std::sync::Arc::clone(&rule.identity)),
            ..Status::NONE
        };
    }
    let code = if is_denied { Code::OverLimit } else { Code::Ok };
    Response { code, statuses, deciding: None, whole: None }
}
