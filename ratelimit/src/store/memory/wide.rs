//! Buckets whose state is not a word: logs and wide sliding counters. Maps under locks, so that each charge is exact.
//!
//! Memory is bounded twice, by the number of buckets and by the log entries of all of them. An idle bucket goes when new
//! ones come; if there is no room, the bucket that is idle soonest goes, and is counted.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use foldhash::fast::FixedState;
use ratelimit_common::{
    algorithm::{
        Decision,
        sliding_window_counter::WideState,
        sliding_window_log::{self, Entries},
    },
    limit::{Kind, LOG_MOST, Limit},
    time::{Nanos, Now},
};

use crate::store::Charge;

const SHARDS: usize = 64;

/// Log entries that there is room for, for each bucket that there is room for.
const ENTRIES_A_BUCKET: usize = 32;

/// Buckets that a new one may find idle and remove. Two, so that idle ones go faster than new ones come.
const REMOVALS: usize = 2;

/// All buckets whose state is not a word.
#[derive(Debug)]
pub struct Wide {
    shards: Vec<Mutex<Shard>>,
    room: Room,
    live_evictions: AtomicU64,
}

/// What a shard may hold.
#[derive(Clone, Copy, Debug)]
struct Room {
    buckets: usize,
    entries: usize,
}

impl Wide {
    /// Room for `most` buckets.
    pub fn new(most: usize) -> Self {
        let buckets = most.div_ceil(SHARDS).max(1);
        let entries = buckets.saturating_mul(ENTRIES_A_BUCKET).max(2 * LOG_MOST as usize);
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, room: Room { buckets, entries }, live_evictions: AtomicU64::new(0) }
    }

    /// All buckets in use.
    pub fn save(&self, now: Now) -> Vec<SavedWide> {
        let mut saved = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (&identity, bucket) in shard.buckets.iter().filter(|(_, bucket)| bucket.idle_at > now.0) {
                let state = match &bucket.state {
                    State::Log(log) => SavedState::Log(log.0.iter().copied().collect()),
                    State::Counter(counter) => SavedState::Counter(counter.parts()),
                };
                saved.push(SavedWide { identity, idle_at: bucket.idle_at, state });
            }
        }
        saved
    }

    /// Puts saved buckets back, as far as there is room.
    pub fn restore(&self, buckets: impl IntoIterator<Item = SavedWide>) {
        for SavedWide { identity, idle_at, state } in buckets {
            let state = match state {
                SavedState::Log(times) => State::Log(Log(times.into())),
                SavedState::Counter(parts) => State::Counter(WideState::of_parts(parts)),
            };
            let bucket = Bucket { idle_at, state };
            let mut shard = self.shard(identity);
            let has_room = shard.buckets.len() < self.room.buckets
                && shard.entries + bucket.entries() <= self.room.entries;
            if has_room && !shard.buckets.contains_key(&identity) {
                shard.insert(identity, bucket);
            }
        }
    }

    /// How many buckets in use have given way to others.
    pub fn live_evictions(&self) -> u64 {
        self.live_evictions.load(Ordering::Relaxed)
    }

    /// Decides and charges.
    pub fn charge<'l>(&self, charge: Charge<'l>) -> Decision<'l> {
        let identity = charge.bucket().identity;
        let mut shard = self.shard(identity);
        if let Some(decision) = shard.charge(identity, &charge) {
            self.tally(shard.make_room(self.room, 0, identity, charge.now));
            return decision;
        }
        let mut bucket = Bucket::fresh(charge.limit);
        let decision = bucket.decide(&charge);
        if bucket.idle_at > charge.now.0 {
            shard.remove_idle(charge.now);
            self.tally(shard.make_room(self.room, 1, identity, charge.now));
            shard.insert(identity, bucket);
            self.tally(shard.make_room(self.room, 0, identity, charge.now));
        }
        decision
    }

    /// Decides without charging.
    pub fn ask<'l>(&self, charge: Charge<'l>) -> Decision<'l> {
        let identity = charge.bucket().identity;
        let mut shard = self.shard(identity);
        match shard.buckets.get_mut(&identity).filter(|bucket| bucket.is_of(charge.limit)) {
            Some(bucket) => bucket.ask(&charge),
            None => Bucket::fresh(charge.limit).ask(&charge),
        }
    }

    /// Gives back what an admitted charge took.
    pub fn undo(&self, charge: Charge<'_>) {
        self.give_back(charge, |log, charge| sliding_window_log::undo(log, charge.now, charge.cost));
    }

    /// Gives back the newest units.
    pub fn refund(&self, charge: Charge<'_>) {
        self.give_back(charge, |log, charge| sliding_window_log::refund(log, charge.cost));
    }

    fn give_back(&self, charge: Charge<'_>, from_log: fn(&mut Log, &Charge<'_>)) {
        let identity = charge.bucket().identity;
        let mut shard = self.shard(identity);
        let Shard { buckets, entries, .. } = &mut *shard;
        if let Some(bucket) = buckets.get_mut(&identity).filter(|bucket| bucket.is_of(charge.limit)) {
            *entries -= bucket.entries();
            match &mut bucket.state {
                State::Log(log) => from_log(log, &charge),
                State::Counter(counter) => counter.undo(charge.limit, charge.now, charge.cost),
            }
            *entries += bucket.entries();
        }
    }

    fn shard(&self, identity: u64) -> MutexGuard<'_, Shard> {
        // The map uses other bits.
        let index = (identity >> 40) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tally(&self, live: u64) {
        if live > 0 {
            self.live_evictions.fetch_add(live, Ordering::Relaxed);
        }
    }
}

/// A bucket to be kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedWide {
    /// Whose it is.
    pub identity: u64,
    /// When it will be as good as new.
    pub idle_at: Nanos,
    /// What it holds.
    pub state: SavedState,
}

/// What a bucket to be kept elsewhere holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedState {
    /// The times of a log, oldest first.
    Log(Vec<Nanos>),
    /// The numbers of a counter.
    Counter([u64; 3]),
}

/// Some of the buckets.
#[derive(Debug, Default)]
struct Shard {
    buckets: HashMap<u64, Bucket, FixedState>,
    /// Each bucket once, by a time before which it is not idle.
    ends: BinaryHeap<Reverse<(Nanos, u64)>>,
    /// The log entries of all buckets.
    entries: usize,
}

impl Shard {
    /// `None` if there is no such bucket.
    fn charge<'l>(&mut self, identity: u64, charge: &Charge<'l>) -> Option<Decision<'l>> {
        let bucket = self.buckets.get_mut(&identity)?;
        self.entries -= bucket.entries();
        if !bucket.is_of(charge.limit) {
            *bucket = Bucket::fresh(charge.limit);
        }
        let decision = bucket.decide(charge);
        self.entries += bucket.entries();
        Some(decision)
    }

    fn insert(&mut self, identity: u64, bucket: Bucket) {
        self.entries += bucket.entries();
        self.ends.push(Reverse((bucket.idle_at, identity)));
        self.buckets.insert(identity, bucket);
    }

    fn remove_idle(&mut self, now: Now) {
        for _ in 0..REMOVALS {
            match self.ends.peek() {
                Some(&Reverse((end, identity))) if end <= now.0 => self.settle(end, identity, now),
                _ => return,
            };
        }
    }

    /// Makes room for `more` buckets, and for the entries that there are; tells how many buckets in use had to go for it.
    /// The bucket of `spared` does not go.
    fn make_room(&mut self, room: Room, more: usize, spared: u64, now: Now) -> u64 {
        let (mut live, mut aside) = (0, None);
        while self.buckets.len() + more > room.buckets || self.entries > room.entries {
            match self.ends.peek() {
                Some(&Reverse((_, identity))) if identity == spared => aside = self.ends.pop(),
                Some(&Reverse((end, identity))) => live += u64::from(self.settle(end, identity, now)),
                None => break,
            }
        }
        self.ends.extend(aside);
        live
    }

    /// Removes the bucket at the top of the heap, or puts it where it belongs now; says whether one in use was removed.
    fn settle(&mut self, recorded: Nanos, identity: u64, now: Now) -> bool {
        self.ends.pop();
        let Some(bucket) = self.buckets.get(&identity) else { return false };
        let (idle_at, entries) = (bucket.idle_at, bucket.entries());
        if idle_at > recorded {
            self.ends.push(Reverse((idle_at, identity)));
            return false;
        }
        self.buckets.remove(&identity);
        self.entries -= entries;
        idle_at > now.0
    }
}

#[derive(Clone, Debug)]
struct Bucket {
    /// When it will be as good as new, if it is not charged again.
    idle_at: Nanos,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Log(Log),
    Counter(WideState),
}

impl Bucket {
    fn fresh(limit: &Limit) -> Self {
        let state = match limit.kind() {
            Kind::Log => State::Log(Log::default()),
            _ => State::Counter(WideState::default()),
        };
        Self { idle_at: Nanos(0), state }
    }

    /// Whether the state is one of such a limit.
    fn is_of(&self, limit: &Limit) -> bool {
        matches!(self.state, State::Log(_)) == (limit.kind() == Kind::Log)
    }

    fn decide<'l>(&mut self, charge: &Charge<'l>) -> Decision<'l> {
        let Charge { limit, now, cost, .. } = *charge;
        let (decision, rest) = match &mut self.state {
            State::Log(log) => (sliding_window_log::decide(limit, log, now, cost), Nanos(0)),
            State::Counter(counter) => {
                let decision = counter.decide(limit, now, cost);
                // What the window has counted weighs on the next one.
                let rest = if counter.is_idle(limit, now) { Nanos(0) } else { limit.period() };
                (decision, rest)
            }
        };
        let until_idle = match decision.reset_after() {
            _ if self.is_idle(limit, now) => Nanos(0),
            reset => Nanos(reset.0.saturating_add(rest.0)),
        };
        self.idle_at = Nanos(now.0.0.saturating_add(until_idle.0));
        decision
    }

    /// Decides, and stays as it is.
    fn ask<'l>(&mut self, charge: &Charge<'l>) -> Decision<'l> {
        // A request that costs nothing changes nothing, so its numbers are those before.
        let decision = self.decide(&Charge { cost: 0, ..*charge });
        if decision.allowed && decision.remaining() >= charge.cost.into() {
            return decision;
        }
        match self.state {
            // A log can be long, and one that denied requests leave alone stays as it is.
            State::Log(_) if !charge.limit.counts_denied() => self.decide(charge),
            _ => self.clone().decide(charge),
        }
    }

    fn is_idle(&self, limit: &Limit, now: Now) -> bool {
        match &self.state {
            State::Log(log) => sliding_window_log::is_idle(limit, log, now),
            State::Counter(counter) => counter.is_idle(limit, now),
        }
    }

    fn entries(&self) -> usize {
        match &self.state {
            State::Log(log) => log.0.len(),
            State::Counter(_) => 0,
        }
    }
}

/// The times of a log, oldest first.
#[derive(Clone, Debug, Default)]
struct Log(VecDeque<Nanos>);

impl Entries for Log {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Nanos {
        self.0.get(index).copied().unwrap_or_default()
    }

    fn pop_oldest(&mut self) {
        self.0.pop_front();
    }

    fn push(&mut self, time: Nanos) {
        self.0.push_back(time);
    }

    fn remove(&mut self, index: usize) {
        self.0.remove(index);
    }
}
