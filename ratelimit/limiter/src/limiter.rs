//! The limiter: keys and costs under rules of the program. How it is used is told at the top of the crate.

mod builder;
mod decision;
mod request;
mod rule;

use std::{hash::Hash, sync::Arc};

pub use ratelimit_common::{
    limit::{Algorithm, LimitError, LimitSpec, OnLimit, Rate, Refill},
    time::Nanos,
};
use smallvec::SmallVec;

use self::rule::BoundRule;
pub use self::{
    builder::{LimiterBuilder, LimiterError},
    decision::{Decision, Outcome},
    request::Ask,
    rule::Rule,
};
use crate::{
    clock::{Clock, MonotonicClock},
    store::{Limits, MemoryStore, Store, Zero},
    transaction::MOST_INLINE,
};

/// Decides which requests may go on. Any number of threads share one, by reference or in an `Arc`.
///
/// ```
/// use std::{num::NonZeroU64, thread};
///
/// use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// const FIFTY: NonZeroU64 = NonZeroU64::new(50).unwrap();
/// let a_day = Nanos::from_secs(86_400);
/// let limit = LimitSpec::new(Algorithm::TokenBucket, Rate { amount: FIFTY, per: a_day });
/// let limiter = Limiter::builder().rule(Rule::new("jobs", limit)).build()?;
///
/// let started: usize = thread::scope(|scope| {
///     let worker = || (0..30).filter(|_| limiter.check("tenant-3", 1).allowed()).count();
///     let workers = [scope.spawn(worker), scope.spawn(worker)];
///     workers.into_iter().filter_map(|worker| worker.join().ok()).sum()
/// });
/// assert_eq!(started, 50);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Limiter<C = MonotonicClock, S = MemoryStore> {
    store: Arc<S>,
    clock: C,
    zero: Zero,
    rules: Vec<BoundRule>,
    limits: Limits,
}

impl Limiter {
    /// What a limiter is made with.
    #[must_use]
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }
}

impl<C: Clock, S: Store> Limiter<C, S> {
    /// Decides about a request under all rules, with the bucket that `key` has under each, and charges it `cost` units
    /// if all of them allow it.
    ///
    /// The decision is that of the rule that matters most, see [`Outcome::decision`]. A cost of 0 takes nothing, and is
    /// denied where 1 would be.
    #[inline]
    pub fn check<K: Hash + ?Sized>(&self, key: &K, cost: u32) -> Decision<'_> {
        self.check_at(key, cost, self.clock.now())
    }

    /// The same at a time that the caller read from a clock like the limiter's: reading it takes longer than deciding.
    #[inline]
    pub fn check_at<K: Hash + ?Sized>(&self, key: &K, cost: u32, now: Nanos) -> Decision<'_> {
        match &*self.rules {
            [bound] => self.check_one(Ask { bound, hash: self.store.hash(key), cost }, now),
            _ => self.check_all(key, cost, now).decision(),
        }
    }

    /// One rule, by its index in the order in which rules were given, to be asked about a request; `None` if there are
    /// fewer. [`Self::index_of`] finds the index by the rule's name.
    ///
    /// ```
    /// # use std::num::NonZeroU64;
    /// # use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limit = LimitSpec::new(Algorithm::TokenBucket, Rate { amount: NonZeroU64::MIN, per: Nanos::SECOND });
    /// let limiter =
    ///     Limiter::builder().rule(Rule::new("per-client", limit)).rule(Rule::new("logins", limit)).build()?;
    ///
    /// let logins = limiter.index_of("logins").ok_or("no such rule")?;
    /// let login = limiter.ask(logins, "198.51.100.7", 1).ok_or("no such rule")?;
    /// assert!(limiter.check_each(&[login]).allowed());
    /// assert!(!limiter.check_each(&[login]).allowed());
    /// // Nothing was asked of the other rule.
    /// let request = limiter.ask(0, "198.51.100.7", 1).ok_or("no such rule")?;
    /// assert!(limiter.check_each(&[request]).allowed());
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn ask<K: Hash + ?Sized>(&self, rule: usize, key: &K, cost: u32) -> Option<Ask<'_>> {
        let bound = self.rules.get(rule)?;
        Some(Ask { bound, hash: self.store.hash(key), cost })
    }

    /// Decides about a request under several limits, each with a key and a cost of its own, all or nothing. If a bucket
    /// is asked twice, it is charged twice.
    #[inline]
    pub fn check_each<'l>(&'l self, asks: &[Ask<'l>]) -> Outcome<'l> {
        self.check_each_at(asks, self.clock.now())
    }

    /// The same at a time that the caller read from a clock like the limiter's.
    pub fn check_each_at<'l>(&'l self, asks: &[Ask<'l>], now: Nanos) -> Outcome<'l> {
        if let [ask] = asks
            && !ask.observes()
        {
            return Outcome::of_one(self.check_one(*ask, now));
        }
        let present = || self.zero.since(self.clock.now());
        request::judge(&*self.store, &self.limits, asks, self.zero.since(now), present)
    }

    /// Gives back `cost` units to the bucket that `key` has under each rule, as far as it, or its current window, has
    /// taken as many: after a request that came to nothing.
    pub fn refund<K: Hash + ?Sized>(&self, key: &K, cost: u32) {
        let hash = self.store.hash(key);
        let asks: SmallVec<[Ask<'_>; MOST_INLINE]> =
            self.rules.iter().map(|bound| Ask { bound, hash, cost }).collect();
        self.refund_each(&asks);
    }

    /// The same for what [`Self::check_each`] has charged.
    pub fn refund_each(&self, asks: &[Ask<'_>]) {
        let present = || self.zero.since(self.clock.now());
        request::refund(&*self.store, &self.limits, asks, present);
    }

    /// The index of a rule.
    pub fn index_of(&self, rule: &str) -> Option<usize> {
        self.rules.iter().position(|bound| bound.rule.name() == rule)
    }

    /// The rules, in the order in which they were given.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules.iter().map(|bound| &bound.rule)
    }

    /// What keeps the buckets.
    pub const fn store(&self) -> &Arc<S> {
        &self.store
    }

    #[inline(always)]
    fn check_one<'l>(&'l self, ask: Ask<'l>, now: Nanos) -> Decision<'l> {
        let answer = self.store.charge(&self.limits, &ask.charge(self.zero.since(now)));
        Decision::new(answer, ask.bound)
    }

    fn check_all<K: Hash + ?Sized>(&self, key: &K, cost: u32, now: Nanos) -> Outcome<'_> {
        let hash = self.store.hash(key);
        let asks: SmallVec<[Ask<'_>; MOST_INLINE]> =
            self.rules.iter().map(|bound| Ask { bound, hash, cost }).collect();
        self.check_each_at(&asks, now)
    }
}
