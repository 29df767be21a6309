//! Buckets whose state is not a word: logs and wide sliding counters. Maps under locks, so that each charge is exact.
//!
//! Memory is bounded twice, by the number of buckets and by the log entries of all of them, over all maps together.
//! Idle buckets go when new ones come, the longest idle first. If there is no room and none is idle, the one nearest to
//! fresh of the new one's map goes, by the share that was used when it was charged last, and is counted.

mod bucket;
mod shard;

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use ratelimit_common::{
    algorithm::{LimitDecision, realign::ClockStep},
    limit::{LOG_MOST, StateKind},
    time::{Nanos, Now},
};

use self::{bucket::WideBucket, shard::WideShard};
use crate::store::{Charge, WideRecord};

/// With far fewer buckets in each, what is nearest to fresh in one would say little about all.
const BUCKETS_A_SHARD: usize = 64;

const MOST_SHARDS: usize = 64;

/// Log entries that there is room for, for each bucket that there is room for.
const ENTRIES_A_BUCKET: usize = 32;

/// Log entries that there is room for in any case: 10 MB.
const LEAST_ENTRIES: usize = 128 * LOG_MOST as usize;

/// Buckets that a new one may find idle and remove. Two, so that idle ones go faster than new ones come.
const REMOVALS: usize = 2;

/// All buckets whose state is not a word.
#[derive(Debug)]
pub struct Wide {
    shards: Vec<Mutex<WideShard>>,
    most: Size,
    /// What all shards hold. Each adds and subtracts while it is locked.
    buckets: AtomicUsize,
    entries: AtomicUsize,
    live_evictions: AtomicU64,
    /// From when on no counter is in use, in nanoseconds.
    counters_idle_at: AtomicU64,
}

/// How much there is, or may be.
#[derive(Clone, Copy, Debug)]
struct Size {
    buckets: usize,
    entries: usize,
}

impl Wide {
    /// Room for `most` buckets, and for a few in any case.
    pub fn new(most: usize) -> Self {
        let entries = most.saturating_mul(ENTRIES_A_BUCKET).max(LEAST_ENTRIES);
        let shards = (most / BUCKETS_A_SHARD).clamp(1, MOST_SHARDS);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            most: Size { buckets: most.max(BUCKETS_A_SHARD), entries },
            buckets: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
            live_evictions: AtomicU64::new(0),
            counters_idle_at: AtomicU64::new(0),
        }
    }

    /// All buckets in use.
    pub fn save(&self, now: Now) -> Vec<SavedWide> {
        let mut saved = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let in_use = shard.iter().filter(|(_, bucket)| bucket.idle_at > now.0);
            saved.extend(in_use.map(|(identity, bucket)| bucket.saved(identity)));
        }
        saved
    }

    /// Puts saved buckets back, as far as there is room.
    pub fn restore(&self, buckets: impl IntoIterator<Item = SavedWide>) {
        for saved in buckets {
            let identity = saved.identity;
            let bucket = WideBucket::restored(saved);
            let mut shard = self.shard(identity);
            let has_room = self.buckets.load(Relaxed) < self.most.buckets
                && self.entries.load(Relaxed) + bucket.entries() <= self.most.entries;
            if has_room && shard.get(identity).is_none() {
                self.insert(&mut shard, identity, bucket);
            }
        }
    }

    /// Moves counters' windows after the wall clock was set; `phase` says where those of a length lie now.
    pub fn realign(&self, step: ClockStep, phase: impl Fn(Nanos) -> Nanos, now: Now) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.change_all(|bucket| bucket.realign(step, &phase, now));
            shard.iter().for_each(|(_, bucket)| self.note_counter(bucket));
        }
    }

    /// How many buckets are in use.
    pub fn in_use(&self, now: Now) -> u64 {
        let count = |shard: &Mutex<WideShard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.iter().filter(|(_, bucket)| bucket.idle_at > now.0).count() as u64
        };
        self.shards.iter().map(count).sum()
    }

    /// About how many bytes all buckets take.
    pub fn bytes(&self) -> u64 {
        let (buckets, entries) = (self.buckets.load(Relaxed), self.entries.load(Relaxed));
        (buckets * shard::BYTES_A_BUCKET + entries * size_of::<Nanos>()) as u64
    }

    /// How many buckets in use have given way to others.
    pub fn live_evictions(&self) -> u64 {
        self.live_evictions.load(Relaxed)
    }

    /// Whether a counter in use has the count of a limit that could have it in a word.
    pub fn has_counter(&self, charge: &Charge<'_>) -> bool {
        // Without a lock where all such limits have their counts in words.
        self.counters_idle_at.load(Relaxed) > charge.now.0.0
            && self.shard(charge.bucket().identity).is_in_use(charge.bucket().identity, charge.now)
    }

    /// Decides and charges. `word` takes what was counted in a word.
    pub fn charge<'l>(&self, charge: Charge<'l>, word: impl FnOnce() -> u64) -> LimitDecision<'l> {
        let identity = charge.bucket().identity;
        let mut shard = self.shard(identity);
        self.go_on_with(&mut shard, &charge, word);
        let before = shard.get(identity).map_or(0, WideBucket::entries);
        if let Some(decision) = shard.charge(identity, &charge) {
            if let Some(bucket) = shard.get(identity) {
                self.note_entries(before, bucket.entries());
                self.note_counter(bucket);
            }
            self.make_room(&mut shard, identity, charge.now);
            return decision;
        }
        let mut bucket = WideBucket::fresh(charge.limit);
        let decision = bucket.decide(&charge);
        if bucket.idle_at > charge.now.0 {
            self.remove_idle(&mut shard, REMOVALS, identity, charge.now);
            self.insert(&mut shard, identity, bucket);
            self.make_room(&mut shard, identity, charge.now);
        }
        decision
    }

    /// What a bucket holds. `word` takes what was counted in a word.
    pub fn read(&self, charge: &Charge<'_>, word: impl FnOnce() -> u64) -> WideRecord {
        let identity = charge.bucket().identity;
        let mut shard = self.shard(identity);
        self.go_on_with(&mut shard, charge, word);
        match shard.get(identity).filter(|bucket| bucket.record.is_of(charge.limit)) {
            Some(bucket) => bucket.record.clone(),
            None => WideRecord::fresh(charge.limit),
        }
    }

    /// Replaces what a bucket holds if it still is `before`, and says whether it was.
    pub fn exchange(&self, charge: &Charge<'_>, before: WideRecord, after: WideRecord) -> bool {
        let identity = charge.bucket().identity;
        let mut shard = self.shard(identity);
        let found = shard.get_mut(identity);
        let is_same = match found.as_ref().filter(|bucket| bucket.record.is_of(charge.limit)) {
            Some(bucket) => bucket.record.is(&before),
            // What was idle may have given way, which changes nothing.
            None => before.is_idle(charge.limit, charge.now),
        };
        if !is_same {
            return false;
        }
        drop(before);
        let mut bucket = WideBucket::of_record(charge, after);
        if let Some(found) = found {
            self.note_entries(found.entries(), bucket.entries());
            self.note_counter(&bucket);
            *found = bucket;
            // Nobody holds any more what it held, but who has read it meanwhile.
            found.record.merge(charge.limit);
            shard.changed(identity);
        } else if bucket.idle_at > charge.now.0 {
            bucket.record.merge(charge.limit);
            self.remove_idle(&mut shard, REMOVALS, identity, charge.now);
            self.insert(&mut shard, identity, bucket);
        }
        self.make_room(&mut shard, identity, charge.now);
        true
    }

    /// Makes a counter of what a word has counted, for a limit that has grown beyond words.
    fn go_on_with(&self, shard: &mut WideShard, charge: &Charge<'_>, word: impl FnOnce() -> u64) {
        let (identity, now) = (charge.bucket().identity, charge.now);
        if charge.limit.kind() != StateKind::WideSlidingCounter || shard.is_in_use(identity, now) {
            return;
        }
        let bucket = WideBucket::of_word(charge, word());
        if bucket.idle_at > now.0 {
            if let Some(idle) = shard.get(identity) {
                self.forget(idle);
            }
            self.insert(shard, identity, bucket);
            self.make_room(shard, identity, now);
        }
    }

    fn shard(&self, identity: u64) -> MutexGuard<'_, WideShard> {
        // The map uses other bits.
        let index = (identity >> 40) as usize % self.shards.len();
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, shard: &mut WideShard, identity: u64, bucket: WideBucket) {
        self.buckets.fetch_add(1, Relaxed);
        self.note_entries(0, bucket.entries());
        self.note_counter(&bucket);
        shard.insert(identity, bucket);
    }

    fn note_entries(&self, before: usize, after: usize) {
        if after != before {
            self.entries.fetch_add(after.wrapping_sub(before), Relaxed);
        }
    }

    fn note_counter(&self, bucket: &WideBucket) {
        let is_later = bucket.idle_at.0 > self.counters_idle_at.load(Relaxed);
        if is_later && matches!(bucket.record, WideRecord::Counter(_)) {
            self.counters_idle_at.fetch_max(bucket.idle_at.0, Relaxed);
        }
    }

    fn is_too_full(&self) -> bool {
        self.buckets.load(Relaxed) > self.most.buckets || self.entries.load(Relaxed) > self.most.entries
    }

    /// Removes buckets until there are no more than there may be. The one of `spared` does not go, so there can be one
    /// too many for each shard.
    fn make_room(&self, shard: &mut WideShard, spared: u64, now: Now) {
        if !self.is_too_full() {
            return;
        }
        while self.is_too_full() && self.remove_idle(shard, 1, spared, now) > 0 {}
        // Another shard's buckets that nobody misses go before those in use here. One that is locked is left alone: its
        // owner may wait for this one.
        for other in &self.shards {
            while self.is_too_full()
                && let Ok(mut other) = other.try_lock()
                && self.remove_idle(&mut other, 1, spared, now) > 0
            {}
        }
        while self.is_too_full()
            && let Some(gone) = shard.remove_nearest_to_fresh(spared)
        {
            self.forget(&gone);
            self.live_evictions.fetch_add(1, Relaxed);
        }
    }

    /// Removes up to `most` idle buckets of a shard, and says how many.
    fn remove_idle(&self, shard: &mut WideShard, most: usize, spared: u64, now: Now) -> usize {
        let gone = std::iter::from_fn(|| shard.remove_idle(spared, now)).take(most);
        gone.inspect(|gone| self.forget(gone)).count()
    }

    fn forget(&self, gone: &WideBucket) {
        self.buckets.fetch_sub(1, Relaxed);
        self.note_entries(gone.entries(), 0);
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
    /// A log.
    Log {
        /// Its times, oldest first.
        times: Vec<Nanos>,
        /// Units that are owed beside them.
        owed: u64,
    },
    /// The numbers of a counter.
    Counter([u64; 4]),
}
