//! States of keys that denied a request less than a second ago, so that a flood against its limits asks the store once
//! a second.
//!
//! They are states and not verdicts: a request is decided on them as on those of the store, by the limits in force now,
//! and if it would pass, the store is asked. What a denied request is charged all the same, fixed windows that count
//! denied requests, is sent on in batches; a window is charged in that way only while nothing passes it, so that the
//! delay decides nothing.
//!
//! What is kept is bounded: keys, the sizes of logs, and the texts of keys whose charges are to be sent.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use foldhash::fast::FixedState;
use ratelimit_common::{
    algorithm::sliding_window_log::Entries as _,
    limit::{Limit, StateKind},
    time::{Nanos, Now},
};

use super::{
    super::{
        decide::{DecisionContext, LimitChecks},
        evaluator::{parts, terms},
    },
    Act, Decided, ErasedStore, Keys, Question, Snapshot, States, Zero, align, decide,
};
use crate::store::{
    Account, KeyHash, State, WideRecord,
    remote::{BucketKey, Over, Part, Say},
};

/// Keys that are kept unless told otherwise.
pub const DEFAULT_EXHAUSTED_KEYS: usize = 16_384;

/// For how long a state is of use.
const KEPT: Nanos = Nanos::SECOND;
/// How often charges are sent.
const BATCH: Nanos = Nanos(Nanos::SECOND.0 / 5);
/// A longer log is not kept.
const LONGEST_LOG: usize = 128;
/// Bytes of a key whose charges are kept: those of longer ones are sent at once.
const LONGEST_KEY: usize = 1_024;
const SHARDS: usize = 16;

/// What is known of exhausted keys.
#[derive(Debug)]
pub(super) struct Exhausted {
    shards: Vec<Mutex<ExhaustedShard>>,
    most_in_shard: usize,
    /// When charges were last sent.
    sent_at: AtomicU64,
}

#[derive(Debug, Default)]
struct ExhaustedShard {
    keys: HashMap<u64, ExhaustedBucket, FixedState>,
    charges: HashMap<u64, Charges, FixedState>,
    /// New ones that found no room since old ones were removed.
    refused: usize,
}

/// A bucket as it was.
#[derive(Debug)]
struct ExhaustedBucket {
    state: State,
    above_since: Option<Now>,
    zero: Zero,
    /// When that was, by the store's clock and by this process's.
    now: Now,
    at: Nanos,
    /// It was so when the store was asked, somewhat earlier.
    until: Nanos,
}

/// What a bucket is charged that the store does not know yet.
#[derive(Debug)]
struct Charges {
    limit: Limit,
    part: (Account, KeyHash, Over),
    cost: u32,
    /// The end of its window.
    not_after: Nanos,
    domain: String,
    account: String,
    window: Nanos,
    entries: Vec<(String, String)>,
}

impl Exhausted {
    /// Keeps so many keys; of none, every request asks the store.
    pub(super) fn new(keys: usize) -> Self {
        let most_in_shard = keys.div_ceil(SHARDS);
        let shards = if keys == 0 { 0 } else { SHARDS };
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            most_in_shard,
            sent_at: AtomicU64::new(0),
        }
    }

    fn shard(&self, key: u64) -> Option<MutexGuard<'_, ExhaustedShard>> {
        // The map uses other bits.
        let shard = self.shards.get((key >> 40) as usize % SHARDS)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The states of a request that is denied by them, its windows aligned to them; `None` if the store is to be asked.
    pub(super) fn recall(
        &self,
        store: &ErasedStore,
        context: &DecisionContext<'_>,
        checks: &mut LimitChecks<'_>,
    ) -> Option<States> {
        if self.shards.is_empty() || context.generation.shadow_mode {
            return None;
        }
        let parts_then = parts(checks);
        if !parts_then.iter().all(|part| is_recalled(part)) {
            self.send_charges(&parts_then, store);
            return None;
        }
        let states = self.gather(&parts_then, context.clock.now());
        if states.is_none() {
            self.send_charges(&parts_then, store);
        }
        let states = states?;
        drop(parts_then);
        align(checks, states.zero);
        let parts = parts(checks);
        let terms = terms(checks, states.now, false);
        let mut decided = Decided::none(&terms);
        decide(&terms, &parts, &states.snapshot, &mut decided);
        let lets_pass = |(part, &bucket): (&Part<'_>, &usize)| {
            part.act == Act::Charge && states.snapshot.buckets[bucket].ask(part.limit, states.now, 1).allowed
        };
        let decides = parts.iter().zip(&states.snapshot.of_part).any(lets_pass);
        (!decided.admitted && !decides).then_some(states)
    }

    fn gather(&self, parts: &[Part<'_>], present: Nanos) -> Option<States> {
        let mut snapshot = Snapshot::of(parts);
        let (mut zero, mut now) = (None, Now(Nanos(0)));
        for bucket_state in &mut snapshot.buckets {
            let key = parts[bucket_state.reader()].key();
            let shard = self.shard(key)?;
            let known = shard.keys.get(&key)?;
            let age = present.0.checked_sub(known.at.0).filter(|_| present <= known.until)?;
            if *zero.get_or_insert(known.zero) != known.zero {
                return None;
            }
            now = now.max(Now(Nanos(known.now.0.0.saturating_add(age))));
            (bucket_state.state, bucket_state.above_since) = (known.state.clone(), known.above_since);
        }
        Some(States { snapshot, zero: zero?, now, asked_at: present, admitted: None })
    }

    /// Keeps the states of a request that the store denied; forgets those of one that changes them.
    pub(super) fn keep(&self, states: &States, parts: &[Part<'_>], decided: &Decided<'_>, present: Nanos) {
        let is_kept = !decided.admitted && parts.iter().all(is_recalled);
        for bucket_state in &decided.buckets {
            let key = parts[bucket_state.reader()].key();
            let Some(mut shard) = self.shard(key) else { return };
            if !is_kept || is_long(&bucket_state.state) {
                shard.keys.remove(&key);
                continue;
            }
            let known = ExhaustedBucket {
                state: bucket_state.state.clone(),
                above_since: bucket_state.above_since,
                zero: states.zero,
                now: states.now,
                at: present,
                until: Nanos(states.asked_at.0.saturating_add(KEPT.0)),
            };
            shard.insert(key, known, self.most_in_shard);
        }
    }

    /// Charges what a request is charged that was denied by what is known.
    pub(super) fn charge(
        &self,
        states: &States,
        parts: &[Part<'_>],
        decided: &Decided<'_>,
        keys: &Keys<'_>,
        store: &ErasedStore,
    ) {
        let buckets = keys.buckets();
        for (index, part) in parts.iter().enumerate().filter(|(_, part)| part.act == Act::Charge) {
            let (key, bucket_state) = (part.key(), decided.bucket(index));
            let Some(mut shard) = self.shard(key) else { continue };
            if let Some(known) = shard.keys.get_mut(&key) {
                known.state = bucket_state.state.clone();
            }
            if let Some(charges) = shard.charges.get_mut(&key) {
                charges.cost = charges.cost.saturating_add(part.cost);
                continue;
            }
            let bucket = &buckets[states.snapshot.of_part[index]];
            let lasts = bucket_state.ask(part.limit, states.now, 0).decision().reset_after();
            let end = Now(Nanos(states.now.0.0.saturating_add(lasts.0)));
            let charges = Charges::new(part, bucket, states.zero.wall_at(end));
            if shard.charges.len() < self.most_in_shard && length(bucket) <= LONGEST_KEY {
                shard.charges.insert(key, charges);
            } else {
                charges.send(store);
            }
        }
    }

    pub(super) fn forget(&self, key: u64) {
        if let Some(mut shard) = self.shard(key) {
            shard.keys.remove(&key);
            shard.charges.remove(&key);
        }
    }

    /// How many keys are known.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().keys.len()).sum()
    }

    /// Sends the charges of these buckets, before the store is asked about them.
    fn send_charges(&self, parts: &[Part<'_>], store: &ErasedStore) {
        for part in parts.iter().filter(|part| part.act == Act::Charge || part.gives_back()) {
            let charges = self.shard(part.key()).and_then(|mut shard| shard.charges.remove(&part.key()));
            if let Some(charges) = charges {
                charges.send(store);
            }
        }
    }

    /// Sends all charges, if it is time.
    pub(super) fn flush_if_due(&self, store: &ErasedStore, present: Nanos) {
        let sent_at = self.sent_at.load(Relaxed);
        let is_due = present.0.abs_diff(sent_at) >= BATCH.0;
        if is_due && self.sent_at.compare_exchange(sent_at, present.0, Relaxed, Relaxed).is_ok() {
            self.flush(store);
        }
    }

    pub(super) fn flush(&self, store: &ErasedStore) {
        for shard in &self.shards {
            let charges = std::mem::take(&mut shard.lock().unwrap_or_else(PoisonError::into_inner).charges);
            charges.into_values().for_each(|charges| charges.send(store));
        }
    }
}

/// Whether a part can be decided on a state that is not the newest: it takes nothing if it is denied, or what can wait.
fn is_recalled(part: &Part<'_>) -> bool {
    match part.act {
        Act::Ask | Act::ChargeIfAdmitted => true,
        Act::Charge => {
            part.limit.kind() == StateKind::Window
                && matches!(part.over, Over::Counted(_))
                && part.soft.is_none()
        }
        Act::Report | Act::Refund | Act::RefundIfAdmitted => false,
    }
}

fn is_long(state: &State) -> bool {
    let State::Wide(record) = state else { return false };
    matches!(&**record, WideRecord::Log(log) if log.len() > LONGEST_LOG)
}

fn length(bucket: &BucketKey<'_>) -> usize {
    let entries: usize = bucket.entries.iter().map(|(key, value)| key.len() + value.len()).sum();
    bucket.domain.len() + bucket.account.len() + entries
}

impl ExhaustedShard {
    fn insert(&mut self, key: u64, known: ExhaustedBucket, most: usize) {
        if self.keys.len() >= most && !self.keys.contains_key(&key) {
            // Those pay for looking at all of them.
            self.refused += 1;
            if self.refused < most.div_ceil(2) {
                return;
            }
            self.refused = 0;
            self.keys.retain(|_, kept| kept.until > known.at);
            if self.keys.len() >= most {
                return;
            }
        }
        self.keys.insert(key, known);
    }
}

impl Charges {
    fn new(part: &Part<'_>, bucket: &BucketKey<'_>, not_after: Nanos) -> Self {
        let entry = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Self {
            limit: *part.limit,
            part: (part.account, part.hash, part.over),
            cost: part.cost,
            not_after,
            domain: bucket.domain.to_owned(),
            account: bucket.account.to_owned(),
            window: bucket.window,
            entries: bucket.entries.iter().map(entry).collect(),
        }
    }

    fn send(&self, store: &ErasedStore) {
        let entries: Vec<(&str, &str)> = self.entries.iter().map(|(key, value)| (&**key, &**value)).collect();
        let (account, hash, over) = self.part;
        let part = Part {
            account,
            hash,
            limit: &self.limit,
            cost: self.cost,
            act: Act::Charge,
            say: Say::Observes,
            over,
            soft: None,
        };
        let bucket = BucketKey {
            domain: &self.domain,
            account: &self.account,
            kind: StateKind::Window,
            window: self.window,
            entries: &entries,
        };
        store.charge_later(Question {
            buckets: &[bucket],
            parts: &[part],
            of_part: &[0],
            passes_all: false,
            has_open_quota: false,
            not_after: Some(self.not_after),
        });
    }
}
