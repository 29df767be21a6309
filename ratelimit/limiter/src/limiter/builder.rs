//! Making limiters: from nothing, or as the next generation of another.

use std::{collections::HashSet, sync::Arc};

use ratelimit_common::limit::{Limit, LimitError, StateStorage};

use super::{
    Limiter,
    rule::{BoundRule, Rule},
};
use crate::{
    clock::{Clock, MonotonicClock},
    store::{
        Enrolment, MemoryStore, Store, Zero,
        memory::{DEFAULT_MAX_KEYS, NoMemory},
    },
};

/// A limiter can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimiterError {
    /// A limit that no bucket can hold.
    #[error("rule {rule}: {error}")]
    Limit {
        /// The rule's name.
        rule: String,
        /// What is wrong.
        error: LimitError,
    },
    /// Two rules have the same name, so they would share their buckets.
    #[error("two rules are named {0}")]
    SameName(String),
    /// The store has no memory.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
}

/// What a [`Limiter`] is made with.
#[derive(Clone, Debug)]
pub struct LimiterBuilder<C = MonotonicClock> {
    rules: Vec<Rule>,
    max_keys: u64,
    clock: C,
}

impl Default for LimiterBuilder {
    fn default() -> Self {
        Self { rules: Vec::new(), max_keys: DEFAULT_MAX_KEYS, clock: MonotonicClock::new() }
    }
}

impl<C: Clock> LimiterBuilder<C> {
    /// Adds a rule. A limiter without rules allows everything.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// How many keys there must be room for, counted once for each rule; a million if not given. When there are far
    /// more, those with the most units left are forgotten, so they get their burst again.
    #[must_use]
    pub const fn max_keys(mut self, max_keys: u64) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Another clock than the monotonic one.
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> LimiterBuilder<D> {
        LimiterBuilder { rules: self.rules, max_keys: self.max_keys, clock }
    }

    /// A limiter whose buckets are in memory.
    ///
    /// # Errors
    /// A limit that no bucket can hold, two rules of one name, or no memory.
    pub fn build(self) -> Result<Limiter<C>, LimiterError> {
        let store = MemoryStore::new(self.max_keys)?;
        Limiter::over(Arc::new(store), self.clock, self.rules)
    }
}

impl<C: Clock, S: Store> Limiter<C, S> {
    /// A limiter over a store that no other limiter uses.
    ///
    /// # Errors
    /// A limit that no bucket can hold, or two rules of one name.
    pub fn over(
        store: Arc<S>,
        clock: C,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Result<Self, LimiterError> {
        let zero = Zero::before(&clock);
        Self::at(store, clock, zero, rules)
    }

    /// The limiter for other rules that goes on with the same buckets and clock. Buckets of rules that keep name,
    /// algorithm and window keep their state; none is left emptier than empty by its new limit. If the system's time
    /// was set, windows are aligned to it again: a step forward may give a key one limit more, a step back gives it
    /// nothing.
    ///
    /// When no more requests go to the old limiter, [`Self::clamp`] does that again for those that it charged
    /// meanwhile.
    ///
    /// ```
    /// # use std::num::NonZeroU64;
    /// # use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # const TWO: NonZeroU64 = NonZeroU64::new(2).unwrap();
    /// # const THREE: NonZeroU64 = NonZeroU64::new(3).unwrap();
    /// let an_hour = Nanos::from_secs(3_600);
    /// let per_hour = |amount| LimitSpec::new(Algorithm::FixedWindow, Rate { amount, per: an_hour });
    /// let limiter = Limiter::builder().rule(Rule::new("mails", per_hour(TWO))).build()?;
    /// assert!(limiter.check("frank", 2).allowed());
    ///
    /// // Two are taken already, so that one more makes three.
    /// let limiter = limiter.with_rules([Rule::new("mails", per_hour(THREE))])?;
    /// assert!(limiter.check("frank", 1).allowed());
    /// assert!(!limiter.check("frank", 1).allowed());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A limit that no bucket can hold, or two rules of one name.
    pub fn with_rules(&self, rules: impl IntoIterator<Item = Rule>) -> Result<Self, LimiterError>
    where
        C: Clone,
    {
        self.with_rules_and_clock(rules, self.clock.clone())
    }

    /// The same with another clock.
    ///
    /// # Errors
    /// A limit that no bucket can hold, or two rules of one name.
    pub fn with_rules_and_clock(
        &self,
        rules: impl IntoIterator<Item = Rule>,
        clock: C,
    ) -> Result<Self, LimiterError> {
        let present = self.zero.since(self.clock.now());
        // By the new clock's zero, with windows where they are.
        let kept = Zero::at(clock.now(), present, self.zero.wall_at(present));
        let zero = kept.aligned(&clock);
        let limiter = Self::at(Arc::clone(&self.store), clock, zero, rules)?;
        limiter.store.realign(&limiter.limits, kept, zero, present);
        // A bucket that is emptier than empty because the clock was set back stays so, unless its limit is another one.
        if !limiter.rules().eq(self.rules()) {
            limiter.store.clamp(&limiter.limits, present);
        }
        Ok(limiter)
    }

    /// Leaves no bucket emptier than empty: after a limit has shrunk, what was taken beyond it is forgotten.
    pub fn clamp(&self) {
        let now = self.zero.since(self.clock.now());
        self.store.settle(&self.limits, now);
        self.store.clamp(&self.limits, now);
    }

    fn at(
        store: Arc<S>,
        clock: C,
        zero: Zero,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Result<Self, LimiterError> {
        let rules = built(rules, zero)?;
        let enrolments: Vec<Enrolment<'_>> =
            rules.iter().map(|(rule, limit)| Enrolment { name: rule.name(), limit }).collect();
        let (accounts, limits) = store.enroll(&enrolments);
        let bind =
            |((rule, limit), account)| BoundRule { rule, limit, forgiving: limit.forgiving(), account };
        let rules = rules.into_iter().zip(accounts).map(bind).collect();
        Ok(Self { store, clock, zero, rules, limits })
    }
}

fn built(rules: impl IntoIterator<Item = Rule>, zero: Zero) -> Result<Vec<(Rule, Limit)>, LimiterError> {
    let mut names = HashSet::new();
    let mut built = Vec::new();
    for rule in rules {
        if !names.insert(rule.name().to_owned()) {
            return Err(LimiterError::SameName(rule.name().to_owned()));
        }
        let limit = rule.spec().build(StateStorage::UserSpace);
        let limit = limit.map_err(|error| LimiterError::Limit { rule: rule.name().to_owned(), error })?;
        built.push((rule, zero.align(limit)));
    }
    Ok(built)
}
