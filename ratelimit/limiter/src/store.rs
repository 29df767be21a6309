//! Where buckets are kept: the seam between the limiter and a store.
//!
//! A [`Store`] keeps states and gives them out; what they mean for a request is decided outside of it, by
//! `transaction`. One limit alone is charged where its bucket is. [`MemoryStore`] is the store of
//! one process.

mod limits;
mod log;
pub mod memory;
pub mod remote;
mod state;
mod tags;
mod zero;

use std::hash::Hash;

use ratelimit_common::{algorithm, limit::Limit, table::Tag, time::Now};

pub(crate) use self::memory::backoff::Backoff;
pub use self::{
    limits::Limits,
    log::Log,
    memory::MemoryStore,
    state::{State, WideRecord},
    zero::Zero,
};

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
    const fn bucket(&self, hash: KeyHash) -> BucketId {
        BucketId { tag: self.tag, identity: self.identity(hash) }
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
struct BucketId {
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
    const fn bucket(&self) -> BucketId {
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

/// Buckets whose states are read, and exchanged for others.
///
/// `limits` is what [`Store::enroll`] gave for the generation that the charge belongs to; its cost does not matter.
pub trait Buckets {
    /// Where a bucket lay when it was read, so that it need not be looked for again; by default that is not known.
    type Spot<'s>: Copy + Default
    where
        Self: 's;

    /// The state of a bucket, that of a fresh one if there is none, and where it lies.
    fn read(&self, limits: &Limits, charge: &Charge<'_>) -> (State, Self::Spot<'_>);

    /// Replaces the state of a bucket if it still is what [`Self::read`] gave, and says whether it was. The states are
    /// given away: a store can change a log in place that nobody else holds.
    fn exchange(
        &self,
        limits: &Limits,
        charge: &Charge<'_>,
        spot: Self::Spot<'_>,
        before: State,
        after: State,
    ) -> bool;
}

/// Keeps buckets.
///
/// `limits` is what [`Self::enroll`] gave for the generation that the charge belongs to.
pub trait Store: Buckets {
    /// The buckets while others wait.
    type Turn<'s>: Buckets
    where
        Self: 's;

    /// What stands for a key. Different keys may have the same hash, once in 2^64 pairs.
    fn hash<K: Hash + ?Sized>(&self, key: &K) -> KeyHash;

    /// Makes room for the rules of a generation. A rule that the store knows, by name, algorithm and window, keeps its
    /// account, and so its buckets.
    fn enroll(&self, rules: &[Enrolment<'_>]) -> (Vec<Account>, Limits);

    /// Decides and charges.
    fn charge<'l>(&self, limits: &Limits, charge: &Charge<'l>) -> Answer<'l>;

    /// Waits until it is the caller's turn. Until that is dropped, others finish what they have begun at a bucket, and
    /// begin nothing else: for a request that others have overtaken again and again.
    fn turn(&self) -> Self::Turn<'_>;

    /// Moves windows after the wall clock was set: `limits` and `to` are aligned to it as it is, `from` as it was.
    /// Before new limits come if it was set back, after the old ones are gone if forward.
    fn realign(&self, limits: &Limits, from: Zero, to: Zero, now: Now);

    /// Moves windows that the old limits have begun meanwhile, after they are gone.
    fn settle(&self, limits: &Limits, now: Now);

    /// Makes no bucket emptier than empty, after limits have shrunk.
    fn clamp(&self, limits: &Limits, now: Now);
}

/// So many times an exchange may fail before whoever tries asks for a turn, in which nobody is faster.
pub(crate) const MOST_LOST: u32 = 16;

/// Changes the state of a bucket, whoever else does meanwhile.
pub(crate) fn change<S: Store>(
    store: &S,
    limits: &Limits,
    charge: &Charge<'_>,
    change: impl Fn(&State) -> State,
) {
    let mut backoff = Backoff::default();
    for _ in 0..MOST_LOST {
        if change_unless_changed(store, limits, charge, &change) {
            return;
        }
        backoff.wait();
    }
    let turn = store.turn();
    while !change_unless_changed(&turn, limits, charge, &change) {}
}

fn change_unless_changed<B: Buckets>(
    buckets: &B,
    limits: &Limits,
    charge: &Charge<'_>,
    change: &impl Fn(&State) -> State,
) -> bool {
    let (before, spot) = buckets.read(limits, charge);
    let after = change(&before);
    before.is(&after) || buckets.exchange(limits, charge, spot, before, after)
}

/// What a store says about one limit; the numbers are worked out when asked for.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'l> {
    /// Whether the limit allows it.
    pub allowed: bool,
    facts: AnswerFacts<'l>,
}

#[derive(Clone, Copy, Debug)]
enum AnswerFacts<'l> {
    /// The state word that decided about `cost`.
    Word { limit: &'l Limit, before: u64, now: Now, cost: u32 },
    /// The decision itself.
    Known(algorithm::LimitDecision<'l>),
}

impl<'l> Answer<'l> {
    /// From whether the limit allows it and the state word that decided.
    #[inline]
    const fn word(limit: &'l Limit, now: Now, cost: u32, (allowed, before): (bool, u64)) -> Self {
        Self { allowed, facts: AnswerFacts::Word { limit, before, now, cost } }
    }

    /// Decides about a word and charges it.
    #[inline(always)]
    pub(crate) fn charge_word(limit: &'l Limit, word: &mut u64, now: Now, cost: u32) -> Self {
        let before = *word;
        let (decision, after) = algorithm::decide(limit, before, now, cost);
        *word = after;
        Self::word(limit, now, cost, (decision.allowed, before))
    }

    /// With the numbers of a bucket that was not charged.
    #[inline]
    const fn word_uncharged(limit: &'l Limit, now: Now, cost: u32, (allowed, before): (bool, u64)) -> Self {
        // A request that costs nothing leaves the state as it is. A limit that can be overrun asks for a unit, too.
        let cost = if allowed || limit.overruns() { 0 } else { cost };
        Self { allowed, facts: AnswerFacts::Word { limit, before, now, cost } }
    }

    const fn known(decision: algorithm::LimitDecision<'l>) -> Self {
        Self { allowed: decision.allowed, facts: AnswerFacts::Known(decision) }
    }

    /// The decision with its numbers.
    #[must_use]
    pub fn decision(&self) -> algorithm::LimitDecision<'l> {
        match self.facts {
            AnswerFacts::Word { limit, before, now, cost } => algorithm::decide(limit, before, now, cost).0,
            AnswerFacts::Known(decision) => decision,
        }
    }
}
