//! Decisions by the states of a store that several processes share: asked for all of a request's buckets at once, or as
//! they were less than a second ago where that is enough to deny. What the states mean is decided here, as of those in memory.
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
    book::DomainRules,
    decide::{Asks, Bench, Manner, Rules, answer, find_rules, of_unknown_domain, statuses, too_much},
    judge::{Judged, parts, terms},
    request::Request,
    response::{Response, Statuses},
};
use crate::{
    store::{
        Zero,
        remote::{Act, BucketKey, Question, Reading, RemoteError, RemoteHealth, RemoteStore, Shared},
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
    store: Shared,
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
        let store = Shared::new(store);
        Self { store, exhausted: Exhausted::new(exhausted_keys), counts: Counts::default() }
    }

    /// Decides about a request that has been checked.
    pub(super) async fn decide(&self, bench: &Bench<'_>, request: &Request, manner: Manner) -> Response {
        let Some(domain) = bench.generation.book.domains.get(&*request.domain) else {
            return of_unknown_domain(bench, request);
        };
        if request.is_too_much() {
            return too_much(bench, domain, request);
        }
        let rules = find_rules(domain, request);
        let mut asks = bench.asks(request, &rules, manner);
        if parts(&asks).iter().all(|part| part.over == Over::Closed) {
            let judged = bench.court().judge(&asks, || bench.now());
            return answer(bench, domain, request, &rules, &judged);
        }
        self.exhausted.flush_if_due(&self.store, bench.clock.now());
        let states = match self.exhausted.recall(&self.store, bench, &mut asks) {
            Some(states) => Ok(states),
            None => self.ask(bench, request, &asks).await,
        };
        match states {
            Ok(states) => self.decide_on(&states, bench, (domain, request), &rules, &mut asks),
            Err(error) => {
                self.counts.failed(&error);
                self.decide_without(bench, (domain, request), &rules, &mut asks)
            }
        }
    }

    pub(super) fn remember(&mut self, exhausted_keys: usize) {
        self.exhausted = Exhausted::new(exhausted_keys);
    }

    /// The same for who can't wait otherwise. The store has answered, or failed, in time; if its runtime is one that this thread
    /// would have to drive, it never does.
    pub(super) fn decide_blocking(&self, bench: &Bench<'_>, request: &Request, manner: Manner) -> Response {
        let within = self.store.answers_within().saturating_add(GRACE);
        let deciding = std::pin::pin!(self.decide(bench, request, manner));
        if let Some(response) = blocking::wait(deciding, within) {
            return response;
        }
        let Some(domain) = bench.generation.book.domains.get(&*request.domain) else {
            return of_unknown_domain(bench, request);
        };
        let rules = find_rules(domain, request);
        self.counts.failed(&RemoteError::TimedOut);
        self.decide_without(bench, (domain, request), &rules, &mut bench.asks(request, &rules, manner))
    }

    /// Asks the store.
    async fn ask(
        &self,
        bench: &Bench<'_>,
        request: &Request,
        asks: &Asks<'_>,
    ) -> Result<States, RemoteError> {
        let (begun, asked_at) = (Instant::now(), bench.clock.now());
        let parts = parts(asks);
        let mut snapshot = Snapshot::of(&parts);
        let keys = Keys::new(request, asks, &snapshot);
        let buckets = keys.buckets();
        let terms = terms(asks, Now(Nanos(0)), bench.generation.shadow_mode);
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
        for (held, found) in snapshot.buckets.iter_mut().zip(found) {
            let limit = zero.align(*parts[held.reader()].limit);
            let state = found.state.under(&limit, now);
            let foreign = || RemoteError::Foreign("the state of another algorithm".to_owned());
            (held.state, held.above_since) = (state.ok_or_else(foreign)?, found.above_since);
        }
        Ok(States { snapshot, zero, now, asked_at, admitted: Some(admitted) })
    }

    fn decide_on(
        &self,
        states: &States,
        bench: &Bench<'_>,
        (domain, request): (&DomainRules, &Request),
        rules: &Rules<'_>,
        asks: &mut Asks<'_>,
    ) -> Response {
        align(asks, states.zero);
        let parts = parts(asks);
        let terms = terms(asks, states.now, bench.generation.shadow_mode);
        let mut decided = Decided::none(&terms);
        decide(&terms, &parts, &states.snapshot, &mut decided);
        let is_denied = states.admitted.is_some_and(|admitted| !admitted && decided.admitted);
        if states.admitted.is_some_and(|admitted| admitted != decided.admitted) {
            self.counts.disagreed();
        }
        let now = bench.clock.now();
        match states.admitted {
            Some(_) => self.exhausted.keep(states, &parts, &decided, now),
            None => {
                self.counts.recalled();
                let keys = Keys::new(request, asks, &states.snapshot);
                self.exhausted.charge(states, &parts, &decided, &keys, &self.store);
            }
        }
        let mut judged = Judged::new(asks, &terms, parts, decided);
        // What was not charged there must not pass here.
        judged.is_over |= is_denied;
        answer(bench, domain, request, rules, &judged)
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
        bench: &Bench<'_>,
        request: &Request,
        rules: &Rules<'_>,
        asks: &mut Asks<'_>,
    ) -> Result<Statuses, RemoteError> {
        self.flush();
        let states = self.ask(bench, request, asks).await?;
        align(asks, states.zero);
        let (parts, terms) = (parts(asks), terms(asks, states.now, bench.generation.shadow_mode));
        let mut decided = Decided::none(&terms);
        decide(&terms, &parts, &states.snapshot, &mut decided);
        let judged = Judged::new(asks, &terms, parts, decided);
        Ok(statuses(rules, asks, &judged.outcomes))
    }

    /// Has the store forget buckets.
    pub(super) async fn reset(&self, request: &Request, asks: &Asks<'_>) -> Result<(), RemoteError> {
        let parts = parts(asks);
        let snapshot = Snapshot::of(&parts);
        let keys = Keys::new(request, asks, &snapshot);
        self.flush();
        self.store.reset(&keys.buckets()).await?;
        parts.iter().for_each(|part| self.exhausted.forget(part.key()));
        Ok(())
    }
}

/// Aligns the windows of limits to a store's clock.
fn align(asks: &mut Asks<'_>, zero: Zero) {
    for ask in asks {
        ask.bucket.limit = zero.align(ask.bucket.limit);
    }
}
