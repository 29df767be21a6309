//! Some of the buckets, and the order in which they go.
//!
//! Two heaps tell who goes next. Neither is touched by a charge that makes a bucket less likely to go, so what they say
//! is looked up again before anything goes.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use foldhash::fast::FixedState;
use ratelimit_common::{
    algorithm::LimitDecision,
    time::{Nanos, Now},
};

use super::bucket::{Rank, WideBucket};
use crate::store::Charge;

/// Entries that a heap may have beside two for each bucket.
const SPARE: usize = 64;

/// Bytes that a bucket takes beside its entries: in the map, and once in each heap.
pub(super) const BYTES_A_BUCKET: usize =
    size_of::<(u64, HeapBucket)>() + size_of::<(Nanos, u64)>() + size_of::<(Rank, u64)>();

/// Some of the buckets.
#[derive(Debug, Default)]
pub(super) struct WideShard {
    buckets: HashMap<u64, HeapBucket, FixedState>,
    /// Each bucket by a time before which it is not idle.
    ends: BinaryHeap<Reverse<(Nanos, u64)>>,
    /// Each bucket by a rank that it does not fall below.
    ranks: BinaryHeap<Reverse<(Rank, u64)>>,
}

/// A bucket, and where the heaps have it. Whatever else they have about it is void.
#[derive(Debug)]
struct HeapBucket {
    bucket: WideBucket,
    end: Nanos,
    rank: Rank,
}

impl WideShard {
    pub(super) fn get(&self, identity: u64) -> Option<&WideBucket> {
        self.buckets.get(&identity).map(|held| &held.bucket)
    }

    pub(super) fn is_in_use(&self, identity: u64, now: Now) -> bool {
        self.get(identity).is_some_and(|bucket| bucket.idle_at > now.0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &WideBucket)> {
        self.buckets.iter().map(|(&identity, held)| (identity, &held.bucket))
    }

    /// A bucket for a question, which may leave what is void out of its state.
    pub(super) fn get_mut(&mut self, identity: u64) -> Option<&mut WideBucket> {
        self.buckets.get_mut(&identity).map(|held| &mut held.bucket)
    }

    /// Changes a bucket by a charge; `None` if there is none.
    pub(super) fn charge<'l>(&mut self, identity: u64, charge: &Charge<'l>) -> Option<LimitDecision<'l>> {
        let bucket = self.get_mut(identity)?;
        if !bucket.record.is_of(charge.limit) {
            *bucket = WideBucket::fresh(charge.limit);
        }
        let decision = bucket.decide(charge);
        bucket.record.merge(charge.limit);
        self.changed(identity);
        Some(decision)
    }

    /// Changes all buckets, which may make them go sooner or later.
    pub(super) fn change_all(&mut self, change: impl Fn(&mut WideBucket)) {
        self.buckets.values_mut().for_each(|held| change(&mut held.bucket));
        let identities: Vec<u64> = self.buckets.keys().copied().collect();
        identities.into_iter().for_each(|identity| self.changed(identity));
    }

    pub(super) fn insert(&mut self, identity: u64, bucket: WideBucket) {
        let (end, rank) = (bucket.idle_at, bucket.rank());
        self.ends.push(Reverse((end, identity)));
        self.ranks.push(Reverse((rank, identity)));
        self.buckets.insert(identity, HeapBucket { bucket, end, rank });
        self.shrink();
    }

    /// Tells the heaps of a bucket that goes sooner than they know.
    pub(super) fn changed(&mut self, identity: u64) {
        let Some(held) = self.buckets.get_mut(&identity) else { return };
        if held.bucket.idle_at < held.end {
            held.end = held.bucket.idle_at;
            self.ends.push(Reverse((held.end, identity)));
        }
        if held.bucket.rank() < held.rank {
            held.rank = held.bucket.rank();
            self.ranks.push(Reverse((held.rank, identity)));
        }
        self.shrink();
    }

    /// Removes the bucket that has been idle longest, if there is one that is. `spared` does not go.
    pub(super) fn remove_idle(&mut self, spared: u64, now: Now) -> Option<WideBucket> {
        while let Some(&Reverse((end, identity))) = self.ends.peek().filter(|top| top.0.0 <= now.0) {
            self.ends.pop();
            let Some(held) = self.buckets.get_mut(&identity).filter(|held| held.end == end) else { continue };
            if held.bucket.idle_at <= now.0 && identity != spared {
                return self.buckets.remove(&identity).map(|held| held.bucket);
            }
            // One that is spared is in use, or will be.
            held.end = held.bucket.idle_at.max(Nanos(now.0.0.saturating_add(1)));
            self.ends.push(Reverse((held.end, identity)));
        }
        None
    }

    /// Removes the bucket that is nearest to a fresh one. `spared` does not go.
    pub(super) fn remove_nearest_to_fresh(&mut self, spared: u64) -> Option<WideBucket> {
        let mut aside = None;
        let mut removed = None;
        while let Some(Reverse((rank, identity))) = self.ranks.pop() {
            let Some(held) = self.buckets.get_mut(&identity).filter(|held| held.rank == rank) else {
                continue;
            };
            if held.bucket.rank() > rank {
                held.rank = held.bucket.rank();
                self.ranks.push(Reverse((held.rank, identity)));
            } else if identity == spared {
                aside = Some(Reverse((rank, identity)));
            } else {
                removed = self.buckets.remove(&identity).map(|held| held.bucket);
                break;
            }
        }
        self.ranks.extend(aside);
        removed
    }

    /// Makes the heaps anew when most of what they have is void.
    fn shrink(&mut self) {
        let most = 2 * self.buckets.len() + SPARE;
        if self.ends.len() > most {
            self.ends = self.buckets.iter().map(|(&identity, held)| Reverse((held.end, identity))).collect();
        }
        if self.ranks.len() > most {
            self.ranks =
                self.buckets.iter().map(|(&identity, held)| Reverse((held.rank, identity))).collect();
        }
    }
}
