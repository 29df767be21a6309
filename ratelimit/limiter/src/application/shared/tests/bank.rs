//! A model of a store that several services share: the limiter's own decisions, on a clock of its own.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Mutex},
    task::Poll,
};

use ratelimit_common::{limit::Limit, time::Nanos};

use super::{super::*, SECOND, START};
use crate::{
    clock::{Clock as _, FakeClock},
    store::{State, WideRecord, remote::Found},
    transaction::Part,
};

/// A store that several services share, with a clock of its own.
#[derive(Clone)]
pub(super) struct Bank(Arc<Mutex<Vault>>);

pub(super) struct Vault {
    pub(super) clock: FakeClock,
    zero: Zero,
    pub(super) buckets: HashMap<String, (State, Option<Now>)>,
    pub(super) fails: Option<RemoteError>,
    /// Nobody is answered.
    pub(super) hangs: bool,
    /// What was asked, and what was charged without an answer.
    pub(super) asked: usize,
    pub(super) later: Vec<u32>,
}

impl Bank {
    pub(super) fn new() -> Self {
        let clock = FakeClock::new(START);
        let zero = Zero::at(START, Now(Nanos(Nanos::YEAR.0 + SECOND)), START);
        Self(Arc::new(Mutex::new(Vault {
            clock,
            zero,
            buckets: HashMap::new(),
            fails: None,
            hangs: false,
            asked: 0,
            later: Vec::new(),
        })))
    }

    pub(super) fn vault<T>(&self, look: impl FnOnce(&mut Vault) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    pub(super) fn asked(&self) -> usize {
        self.vault(|vault| vault.asked)
    }
}

fn name(key: &BucketKey<'_>) -> String {
    format!("{:?}", (key.domain, key.account, key.kind, key.window, key.entries))
}

impl Vault {
    fn settle(&mut self, question: Question<'_>) -> Reading {
        let now = self.zero.since(self.clock.now());
        let limits: Vec<Limit> = question.parts.iter().map(|part| self.zero.align(*part.limit)).collect();
        let parts: Vec<Part<'_>> =
            question.parts.iter().zip(&limits).map(|(part, limit)| Part { limit, ..*part }).collect();
        let mut snapshot = Snapshot::of(&parts);
        let names: Vec<String> = question.buckets.iter().map(name).collect();
        for (bucket_state, name) in snapshot.buckets.iter_mut().zip(&names) {
            let limit = parts[bucket_state.reader()].limit;
            let fresh = if limit.kind().is_word() {
                State::Word(ratelimit_common::algorithm::fresh(now))
            } else {
                State::wide(WideRecord::fresh(limit))
            };
            (bucket_state.state, bucket_state.above_since) =
                self.buckets.get(name).cloned().unwrap_or((fresh, None));
        }
        let terms = crate::transaction::Terms {
            now,
            passes_all: question.passes_all,
            has_open_quota: question.has_open_quota,
        };
        let mut decided = Decided::none(&terms);
        decide(&terms, &parts, &snapshot, &mut decided);
        let mut reading = Reading::at(self.zero, now, decided.admitted);
        for (bucket_state, (after, name)) in
            snapshot.buckets.into_iter().zip(decided.buckets.iter().zip(names))
        {
            reading.buckets.push(Found { state: bucket_state.state, above_since: bucket_state.above_since });
            self.buckets.insert(name, (after.state.clone(), after.above_since));
        }
        reading
    }
}

impl RemoteStore for Bank {
    async fn decide(&self, question: Question<'_>) -> Result<Reading, RemoteError> {
        poll_fn(|_| if self.vault(|vault| vault.hangs) { Poll::Pending } else { Poll::Ready(()) }).await;
        self.vault(|vault| {
            vault.asked += 1;
            vault.fails.clone().map_or_else(|| Ok(vault.settle(question)), Err)
        })
    }

    fn charge_later(&self, question: Question<'_>) {
        self.vault(|vault| {
            vault.later.push(question.parts[0].cost);
            vault.settle(question);
        });
    }

    async fn reset(&self, buckets: &[BucketKey<'_>]) -> Result<u64, RemoteError> {
        let forgotten = |vault: &mut Vault| {
            buckets.iter().filter(|bucket| vault.buckets.remove(&name(bucket)).is_some()).count()
        };
        Ok(self.vault(forgotten) as u64)
    }

    fn answers_within(&self) -> Duration {
        Duration::from_millis(50)
    }

    fn health(&self) -> RemoteHealth {
        RemoteHealth { name: "a bank".to_owned(), ..RemoteHealth::default() }
    }
}
