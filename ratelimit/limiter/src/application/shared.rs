//! Decisions by the states of a store that several processes share: asked for all of a request's buckets at once, or as
//! they were less than a second ago where that is enough to deny. What the states mean is decided here, as of those in
//! memory.
//!
//! Nobody holds a lock while the store is asked.

mod blocking;
mod exhausted;
mod keys;
mod stats;
#[cfg(test)]
mod tests;
mod without;

use std::time::{Duration, Instant};

use ratelimit_common::time::{Nanos, Now};

use super::{
    decide::{
        DecisionContext, LimitChecks, MatchedRules, RequestKind, answer, find_rules, of_unknown_domain,
        statuses, too_much,
    },
    evaluator::{Evaluated, parts, terms},
    request::Request,
    response::{Response, Statuses},
    rule_tree::DomainRules,
};
use crate::{
    store::{
        Zero,
        remote::{Act, BucketKey, ErasedStore, Question, Reading, RemoteError, RemoteHealth, RemoteStore},
    },
    transaction::{Decided, Over, Snapshot, decide},
};

pub use self::{
    exhausted::DEFAULT_EXHAUSTED_KEYS,
    stats::{LATENCY_BOUNDS, SharedStoreStats},
};
use self::{exhausted::Exhausted, keys::Keys, stats::Counts};

/// How much longer than a store may take to answer who blocks waits for it.
const GRACE: Duration = Duration::from_millis(100);

/// A store that several processes share, and what is known of it.
#[derive(Debug)]
pub(super) struct SharedStore {
    store: ErasedStore,
    exhausted: Exhausted,
    counts: Counts,
}

/// The states that a request is decided on.
struct States {
    snapshot: Snapshot,
    zero: Zero,
    now: Now,
    /// By this process's clock, before the store was asked.
    asked_at: Nanos,
    /// What the store made of them; `None` if it was not asked.
    admitted: Option<bool>,
}

impl SharedStore {
    pub(super) fn new(store: impl RemoteStore, exhausted_keys: usize) -> Self {
        let store = ErasedStore::new(store);
        Self { store, exhausted: Exhausted::new(exhausted_keys), counts: Counts::default() }
    }

    /// Decides about a request that has been checked.
    pub(super) async fn decide(
        &self,
        context: &DecisionContext<'_>,
        request: &Request,
        kind: RequestKind,
    ) -> Response {
        let Some(domain) = context.generation.rules.domains.get(&*request.domain) else {
            return of_unknown_domain(context, request);
        };
        if request.is_too_much() {
            return too_much(context, domain, request);
        }
        let rules = find_rules(domain, request);
        let mut checks = context.checks(request, &rules, kind);
        if parts(&checks).iter().all(|part| part.over == Over::Closed) {
            let evaluated = context.evaluator().judge(&checks, || context.now());
            return answer(context, domain, request, &rules, &evaluated);
        }
        self.exhausted.flush_if_due(&self.store, context.clock.now());
        let states = match self.exhausted.recall(&self.store, context, &mut checks) {
            Some(states) => Ok(states),
            None => self.ask(context, request, &checks).await,
        };
        match states {
            Ok(states) => self.decide_on(&states, context, (domain, request), &rules, &mut checks),
            Err(error) => {
                self.counts.failed(&error);
                self.decide_without(context, (domain, request), &rules, &mut checks)
            }
        }
    }

    pub(super) fn remember(&mut self, exhausted_keys: usize) {
        self.exhausted = Exhausted::new(exhausted_keys);
    }

    /// The same for who can't wait otherwise. The store has answered, or failed, in time; if its runtime is one that
    /// this thread would have to drive, it never does.
    pub(super) fn decide_blocking(
        &self,
        context: &DecisionContext<'_>,
        request: &Request,
        kind: RequestKind,
    ) -> Response {
        let within = self.store.answers_within().saturating_add(GRACE);
        let deciding = std::pin::pin!(self.decide(context, request, kind));
        if let Some(response) = blocking::wait(deciding, within) {
            return response;
        }
        let Some(domain) = context.generation.rules.domains.get(&*request.domain) else {
            return of_unknown_domain(context, request);
        };
        let rules = find_rules(domain, request);
        self.counts.failed(&RemoteError::TimedOut);
        self.decide_without(context, (domain, request), &rules, &mut context.checks(request, &rules, kind))
    }

    /// Asks the store.
    async fn ask(
        &self,
        context: &DecisionContext<'_>,
        request: &Request,
        checks: &LimitChecks<'_>,
    ) -> Result<States, RemoteError> {
        let (begun, asked_at) = (Instant::now(), context.clock.now());
        let parts = parts(checks);
        let mut snapshot = Snapshot::of(&parts);
        let keys = Keys::new(request, checks, &snapshot);
        let buckets = keys.buckets();
        let terms = terms(checks, Now(Nanos(0)), context.generation.shadow_mode);
        let question = Question {
            buckets: &buckets,
            parts: &parts,
            of_part: &snapshot.of_part,
            passes_all: terms.passes_all,
            has_open_quota: terms.has_open_quota,
            not_after: None,
        };
        let reading = self.store.decide(question).await;
        self.counts.took(begun.elapsed());
        let Reading { zero, now, buckets: found, admitted } = reading?;
        if found.len() != snapshot.buckets.len() {
            return Err(RemoteError::Foreign("another number of states than was asked for".to_owned()));
        }
        for (bucket_state, found) in snapshot.buckets.iter_mut().zip(found) {
            let limit = zero.align(*parts[bucket_state.reader()].limit);
            let state = found.state.under(&limit, now);
            let foreign = || RemoteError::Foreign("the state of another algorithm".to_owned());
            (bucket_state.state, bucket_state.above_since) = (state.ok_or_else(foreign)?, found.above_since);
        }
        Ok(States { snapshot, zero, now, asked_at, admitted: Some(admitted) })
    }

    fn decide_on(
        &self,
        states: &States,
        context: &DecisionContext<'_>,
        (domain, request): (&DomainRules, &Request),
        rules: &MatchedRules<'_>,
        checks: &mut LimitChecks<'_>,
    ) -> Response {
        align(checks, states.zero);
        let parts = parts(checks);
        let terms = terms(checks, states.now, context.generation.shadow_mode);
        let mut decided = Decided::none(&terms);
        decide(&terms, &parts, &states.snapshot, &mut decided);
        let is_denied = states.admitted.is_some_and(|admitted| !admitted && decided.admitted);
        if states.admitted.is_some_and(|admitted| admitted != decided.admitted) {
            self.counts.disagreed();
        }
        let now = context.clock.now();
        match states.admitted {
            Some(_) => self.exhausted.keep(states, &parts, &decided, now),
            None => {
                self.counts.recalled();
                let keys = Keys::new(request, checks, &states.snapshot);
                self.exhausted.charge(states, &parts, &decided, &keys, &self.store);
            }
        }
        let mut evaluated = Evaluated::new(checks, &terms, parts, decided);
        // What was not charged there must not pass here.
        evaluated.is_over |= is_denied;
        answer(context, domain, request, rules, &evaluated)
    }

    /// Sends what has been charged to exhausted keys and is not sent yet.
    pub(super) fn flush(&self) {
        self.exhausted.flush(&self.store);
    }

    /// How the store is.
    pub(super) fn health(&self) -> RemoteHealth {
        self.store.health()
    }

    /// What came of the questions to it.
    pub(super) fn stats(&self) -> SharedStoreStats {
        self.counts.read(self.health())
    }

    /// How buckets are, as the store says; nothing is counted.
    pub(super) async fn inspect(
        &self,
        context: &DecisionContext<'_>,
        request: &Request,
        rules: &MatchedRules<'_>,
        checks: &mut LimitChecks<'_>,
    ) -> Result<Statuses, RemoteError> {
        self.flush();
        let states = self.ask(context, request, checks).await?;
        align(checks, states.zero);
        let (parts, terms) = (parts(checks), terms(checks, states.now, context.generation.shadow_mode));
        let mut decided = Decided::none(&terms);
        decide(&terms, &parts, &states.snapshot, &mut decided);
        let evaluated = Evaluated::new(checks, &terms, parts, decided);
        Ok(statuses(rules, checks, &evaluated.outcomes))
    }

    /// Has the store forget buckets.
    pub(super) async fn reset(&self, request: &Request, checks: &LimitChecks<'_>) -> Result<(), RemoteError> {
        let parts = parts(checks);
        let snapshot = Snapshot::of(&parts);
        let keys = Keys::new(request, checks, &snapshot);
        self.flush();
        self.store.reset(&keys.buckets()).await?;
        parts.iter().for_each(|part| self.exhausted.forget(part.key()));
        Ok(())
    }
}

/// Aligns the windows of limits to a store's clock.
fn align(checks: &mut LimitChecks<'_>, zero: Zero) {
    for check in checks {
        check.limit.limit = zero.align(check.limit.limit);
    }
}
