//! Where buckets are kept: the seam between the limiter and a store.
//!
//! A [`Store`] answers for one limit at a time and at once; the limiter makes one decision of several. [`MemoryStore`] is
//! the store of one process. A store that shares buckets with other processes but decides here implements the same
//! trait; one that must be asked over the network judges a whole request in one call and takes the limiter's place.

mod limits;
pub mod memory;
mod tags;
mod zero;

use std::hash::Hash;

use ratelimit_common::{algorithm, limit::Limit, table::Tag, time::Now};

pub use self::{limits::Limits, memory::MemoryStore, zero::Zero};

/// What a store keeps for a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// In the keys of its buckets.
    tag: Tag,
    /// Tells its buckets from those of another rule with the same tag.
    seed: u64,
}

impl Account {
    /// The bucket of a key that hashed to `hash`.
    #[inline]
    const fn bucket(&self, hash: KeyHash) -> Bucket {
        Bucket { tag: self.tag, identity: self.identity(hash) }
    }

    /// What the rule and a key are together, as one number.
    #[inline]
    pub(crate) const fn identity(&self, hash: KeyHash) -> u64 {
        hash.0 ^ self.seed
    }
}

/// What a store made of a key, the same for all rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

/// Whose bucket: one key's, under one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    tag: Tag,
    identity: u64,
}

/// One limit's part in a request.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'l> {
    /// The rule's.
    pub account: Account,
    /// The key.
    pub hash: KeyHash,
    /// The limit.
    pub limit: &'l Limit,
    /// The present, since the store's zero.
    pub now: Now,
    /// What the request takes.
    pub cost: u32,
}

impl Charge<'_> {
    #[inline]
    const fn bucket(&self) -> Bucket {
        self.account.bucket(self.hash)
    }
}

/// A rule as a store needs to know it.
#[derive(Clone, Copy, Debug)]
pub struct Enrolment<'r> {
    /// Tells the rule from others, also over a reload.
    pub name: &'r str,
    /// Its limit.
    pub limit: &'r Limit,
}

/// Keeps buckets.
///
/// `limits` is what [`Self::enroll`] gave for the generation that the charge belongs to.
pub trait Store {
    /// What stands for a key. Different keys may have the same hash, once in 2^64 pairs.
    fn hash<K: Hash + ?Sized>(&self, key: &K) -> KeyHash;

    /// Makes room for the rules of a generation. A rule that the store knows, by name, algorithm and window, keeps its
    /// account, and so its buckets.
    fn enroll(&self, rules: &[Enrolment<'_>]) -> (Vec<Account>, Limits);

    /// Decides and charges.
    fn charge<'l>(&self, limits: &Limits, charge: &Charge<'l>) -> Answer<'l>;

    /// Decides as [`Self::charge`] would, without charging.
    fn ask<'l>(&self, limits: &Limits, charge: &Charge<'l>) -> Answer<'l>;

    /// Gives back what an admitted charge took, after another limit denied the request. `later` is the present.
    fn undo(&self, limits: &Limits, charge: &Charge<'_>, later: Now);

    /// Gives back `charge.cost` units, as far as the bucket, or its current window, has taken as many.
    fn refund(&self, limits: &Limits, charge: &Charge<'_>);

    /// Moves windows after the wall clock was set: `limits` and `to` are aligned to it as it is, `from` as it was. Before new
    /// limits come if it was set back, after the old ones are gone if forward.
    fn realign(&self, limits: &Limits, from: Zero, to: Zero, now: Now);

    /// Moves windows that the old limits have begun meanwhile, after they are gone.
    fn settle(&self, limits: &Limits, now: Now);

    /// Makes no bucket emptier than empty, after limits have shrunk.
    fn clamp(&self, limits: &Limits, now: Now);
}

/// What a store says about one limit; the numbers are worked out when asked for.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'l> {
    /// Whether the limit allows it.
    pub allowed: bool,
    facts: Facts<'l>,
}

#[derive(Clone, Copy, Debug)]
enum Facts<'l> {
    /// The state word that decided about `cost`.
    Word { limit: &'l Limit, before: u64, now: Now, cost: u32 },
    /// The decision itself.
    Known(algorithm::Decision<'l>),
}

impl<'l> Answer<'l> {
    /// From the state word that decided.
    #[inline]
    const fn word(charge: &Charge<'l>, allowed: bool, before: u64) -> Self {
        let facts = Facts::Word { limit: charge.limit, before, now: charge.now, cost: charge.cost };
        Self { allowed, facts }
    }

    /// With the numbers of a bucket that was not charged.
    #[inline]
    const fn word_uncharged(charge: &Charge<'l>, allowed: bool, before: u64) -> Self {
        // Of a request that costs nothing, the state after is the state before. A limit that can be overrun asks for a unit, too.
        let cost = if allowed || charge.limit.overruns() { 0 } else { charge.cost };
        Self { allowed, facts: Facts::Word { limit: charge.limit, before, now: charge.now, cost } }
    }

    const fn known(decision: algorithm::Decision<'l>) -> Self {
        Self { allowed: decision.allowed, facts: Facts::Known(decision) }
    }

    /// The decision with its numbers.
    #[must_use]
    pub fn decision(&self) -> algorithm::Decision<'l> {
        match self.facts {
            Facts::Word { limit, before, now, cost } => algorithm::decide(limit, before, now, cost).0,
            Facts::Known(decision) => decision,
        }
    }
}
