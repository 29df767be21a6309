//! A request that waits for its call: a question's facts as owned values.

use std::collections::BTreeMap;

use ratelimit_common::limit::{Limit, StateKind};
use ratelimit_limiter::store::remote::{Act, Over, Part, Question, Say, SoftLimit};
use smallvec::SmallVec;

use super::number::Micros;
use crate::keys::{KeyFormat, Secret};

/// Buckets and parts of a request without memory of their own.
const MOST_INLINE: usize = 2;

/// A request about buckets that all lie in one shard.
#[derive(Clone, Debug)]
pub(crate) struct ShardRequest {
    pub(crate) buckets: SmallVec<[ShardBucket; MOST_INLINE]>,
    pub(crate) parts: SmallVec<[ShardPart; MOST_INLINE]>,
    pub(crate) passes_all: bool,
    pub(crate) has_open_quota: bool,
}

/// A bucket of it.
#[derive(Clone, Debug)]
pub(crate) struct ShardBucket {
    pub(crate) shard: u16,
    pub(crate) key: Vec<u8>,
    /// The part whose limit reads its state.
    pub(crate) reader: usize,
}

/// One limit's part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardPart {
    pub(crate) bucket: usize,
    pub(crate) limit: Limit,
    pub(crate) cost: u32,
    pub(crate) act: Doing,
    pub(crate) say: Say,
    pub(crate) over: Over,
    pub(crate) soft: Option<SoftLimit>,
}

/// What of a request lies in one shard, and where that is in it.
#[derive(Clone, Debug)]
pub(crate) struct OfShard {
    pub(crate) request: ShardRequest,
    pub(crate) buckets: Vec<usize>,
    pub(crate) parts: Vec<usize>,
}

impl OfShard {
    fn none(request: &ShardRequest) -> Self {
        let ShardRequest { passes_all, has_open_quota, .. } = *request;
        let request =
            ShardRequest { buckets: SmallVec::new(), parts: SmallVec::new(), passes_all, has_open_quota };
        Self { request, buckets: Vec::new(), parts: Vec::new() }
    }
}

/// What a part does to its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// What the limiter wants.
    Act(Act),
    /// It asks: what it gives back comes back when all shards have admitted the request.
    Tentative,
    /// It takes back what it charged then.
    Undo(Micros),
}

impl ShardRequest {
    /// The question's facts.
    pub(crate) fn of(question: &Question<'_>, keys: &KeyFormat, secret: &Secret) -> Self {
        let bucket = |(bucket, reader)| {
            let key = keys.of(secret, bucket);
            ShardBucket { shard: key.shard, key: key.name, reader }
        };
        let parts = question.parts.iter().zip(question.of_part);
        Self {
            buckets: question.buckets.iter().zip(readers(question)).map(bucket).collect(),
            parts: parts.map(|(part, &bucket)| ShardPart::of(part, bucket)).collect(),
            passes_all: question.passes_all,
            has_open_quota: question.has_open_quota,
        }
    }

    /// Whether one call can decide about it.
    pub(crate) fn lies_in_one_shard(&self) -> bool {
        self.buckets.windows(2).all(|pair| pair[0].shard == pair[1].shard)
    }

    /// What of it lies in each shard.
    pub(crate) fn split(&self) -> BTreeMap<u16, OfShard> {
        let mut shards = BTreeMap::<u16, OfShard>::new();
        for (index, bucket) in self.buckets.iter().enumerate() {
            let of_shard = shards.entry(bucket.shard).or_insert_with(|| OfShard::none(self));
            of_shard.request.buckets.push(bucket.clone());
            of_shard.buckets.push(index);
        }
        for OfShard { request, buckets, parts } in shards.values_mut() {
            for (index, part) in self.parts.iter().enumerate() {
                let Some(bucket) = buckets.iter().position(|&bucket| bucket == part.bucket) else { continue };
                if self.buckets[part.bucket].reader == index {
                    request.buckets[bucket].reader = request.parts.len();
                }
                request.parts.push(ShardPart { bucket, ..*part });
                parts.push(index);
            }
        }
        shards
    }

    /// Forgets buckets that no part is about, after parts were taken out.
    pub(crate) fn without_unused_buckets(mut self) -> Self {
        let mut kept = SmallVec::new();
        for (index, bucket) in self.buckets.iter().enumerate() {
            let Some(reader) = self.parts.iter().position(|part| part.bucket == index) else { continue };
            for part in self.parts.iter_mut().filter(|part| part.bucket == index) {
                part.bucket = kept.len();
            }
            kept.push(ShardBucket { reader, ..bucket.clone() });
        }
        self.buckets = kept;
        self
    }

    /// The parts that are about a bucket.
    pub(crate) fn about(&self, bucket: usize) -> impl Iterator<Item = &ShardPart> {
        self.parts.iter().filter(move |part| part.bucket == bucket)
    }

    /// The limit that reads a bucket's state; `None` if no part is about it.
    pub(crate) fn reader(&self, bucket: usize) -> Option<&ShardPart> {
        self.parts.get(self.buckets.get(bucket)?.reader)
    }
}

/// For each bucket the part that reads it: the first about it, unless another's limit has wider states.
fn readers(question: &Question<'_>) -> Vec<usize> {
    let mut readers = vec![usize::MAX; question.buckets.len()];
    let is_wide = |part: usize| question.parts[part].limit.kind() == StateKind::WideSlidingCounter;
    for (part, &bucket) in question.of_part.iter().enumerate().take(question.parts.len()) {
        let Some(reader) = readers.get_mut(bucket) else { continue };
        if *reader == usize::MAX || (is_wide(part) && !is_wide(*reader)) {
            *reader = part;
        }
    }
    readers
}

impl ShardPart {
    fn of(part: &Part<'_>, bucket: usize) -> Self {
        let Part { limit, cost, act, say, over, soft, .. } = *part;
        Self { bucket, limit: *limit, cost, act: Doing::Act(act), say, over, soft }
    }

    /// Whether both are the same to any bucket.
    pub(crate) fn has_row_of(&self, other: &Self) -> bool {
        Self { bucket: other.bucket, ..*self } == *other
    }

    /// Whether units are given back.
    pub(crate) const fn gives_back(&self) -> bool {
        matches!(
            self.act,
            Doing::Act(Act::Refund | Act::RefundIfAdmitted) | Doing::Tentative | Doing::Undo(_)
        )
    }
}
