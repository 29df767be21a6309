//! What a request got: a decision for each limit, and the one that is shown.

use std::cmp::Reverse;

use ratelimit_common::{algorithm, time::Nanos};
use smallvec::{SmallVec, smallvec};

use super::{
    MOST_INLINE,
    rule::{BoundRule, Rule},
};
use crate::{store::Answer, transaction};

/// One limit's decision. Its numbers are worked out when asked for.
///
/// ```
/// use std::time::Duration;
///
/// use ratelimit_limiter::{Decision, Rule};
///
/// fn describe(decision: &Decision<'_>) -> String {
///     let rule = decision.rule().map_or("no limit", Rule::name);
///     let (left, limit) = (decision.remaining(), decision.limit());
///     match decision.retry_after().map(Duration::from) {
///         _ if decision.allowed() => format!("{rule}: {left} of {limit} left"),
///         Some(wait) => format!("{rule}: again in {wait:?}"),
///         None => format!("{rule}: never, it costs more than {limit}"),
///     }
/// }
/// # assert_eq!(describe(&Decision::UNLIMITED), format!("no limit: {0} of {0} left", u64::MAX));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Decision<'l> {
    /// `None` if no limit applies.
    by: Option<(Answer<'l>, &'l BoundRule)>,
}

impl<'l> Decision<'l> {
    /// That of a request that no limit applies to.
    pub const UNLIMITED: Self = Self { by: None };

    #[inline]
    pub(super) const fn new(answer: Answer<'l>, bound: &'l BoundRule) -> Self {
        Self { by: Some((answer, bound)) }
    }

    #[inline]
    pub(super) fn of(outcome: &transaction::PartOutcome<'l>, bound: &'l BoundRule) -> Self {
        outcome.answer.map_or(Self::UNLIMITED, |answer| Self::new(answer, bound))
    }

    /// Whether the request may go on, as far as this limit has a say.
    #[must_use]
    #[inline]
    pub const fn allowed(&self) -> bool {
        match self.by {
            Some((answer, bound)) => answer.allowed || bound.rule.observes(),
            None => true,
        }
    }

    /// Whether the request exceeds this limit, which a rule that only observes lets pass.
    #[must_use]
    #[inline]
    pub const fn exceeded(&self) -> bool {
        match self.by {
            Some((answer, _)) => !answer.allowed,
            None => false,
        }
    }

    /// The rule; `None` if no limit applies.
    #[must_use]
    pub fn rule(&self) -> Option<&'l Rule> {
        self.by.map(|(_, bound)| &bound.rule)
    }

    /// The most units at once: the burst of a bucket, the amount of a window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.by.map_or(u64::MAX, |(_, bound)| bound.limit.capacity())
    }

    /// Whole units left: a request of this cost would pass now, one of more would not.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.numbers().map_or(u64::MAX, |numbers| numbers.remaining())
    }

    /// Units that are owed: used above the capacity of a limit that can be overrun. Requests are denied until they are
    /// paid.
    ///
    /// Such a limit is a budget for costs that are known only afterwards. Before it starts, a request asks with a cost
    /// of 0, and what it has used is charged when it is done:
    ///
    /// ```
    /// use std::num::NonZeroU64;
    ///
    /// use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const TOKENS: NonZeroU64 = NonZeroU64::new(1_000).unwrap();
    /// let a_minute = Rate { amount: TOKENS, per: Nanos::from_secs(60) };
    /// let bucket = LimitSpec::new(Algorithm::TokenBucket, a_minute);
    /// let budget = LimitSpec { overrun: true, ..bucket };
    /// let limiter = Limiter::builder().rule(Rule::new("tokens", budget)).build()?;
    ///
    /// assert!(limiter.check("tenant-3", 0).allowed());
    /// let used = limiter.check("tenant-3", 1_500);
    /// assert_eq!((used.remaining(), used.owed()), (0, 500));
    /// // Half a minute later it may go on.
    /// assert!(!limiter.check("tenant-3", 0).allowed());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn owed(&self) -> u64 {
        self.numbers().map_or(0, |numbers| numbers.owed())
    }

    /// Units of the cost that were not taken, since no more than ten capacities can be owed.
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.numbers().map_or(0, |numbers| numbers.cut())
    }

    /// How long the same request exceeds the limit, if nobody else takes the units: not a nanosecond longer. `None` if
    /// it does not, or always will.
    #[must_use]
    pub fn retry_after(&self) -> Option<Nanos> {
        self.numbers()?.retry_after()
    }

    /// How long until the bucket is full again; of a window, until it ends.
    #[must_use]
    pub fn reset_after(&self) -> Nanos {
        self.numbers().map_or(Nanos(0), |numbers| numbers.reset_after())
    }

    /// How long until the next unit comes back; of a window, until it ends. 0 if none is missing.
    #[must_use]
    pub fn next_after(&self) -> Nanos {
        self.numbers().map_or(Nanos(0), |numbers| numbers.next_after())
    }

    /// How long the request is to be held before it goes on, if the limit delays requests.
    ///
    /// ```
    /// use std::num::NonZeroU64;
    ///
    /// use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, OnLimit, Rate, Rule, clock::FakeClock};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const FOUR: NonZeroU64 = NonZeroU64::new(4).unwrap();
    /// let rate = Rate { amount: FOUR, per: Nanos::SECOND };
    /// let bucket = LimitSpec::new(Algorithm::LeakyBucket, rate);
    /// let limit = LimitSpec { on_limit: OnLimit::Delay, ..bucket };
    /// let rules = Limiter::builder().rule(Rule::new("smooth", limit));
    /// let limiter = rules.clock(FakeClock::default()).build()?;
    ///
    /// // Three that come at once leave a quarter of a second apart.
    /// let leave: Vec<_> = (0..3).filter_map(|_| limiter.check("key", 1).leaves_after()).collect();
    /// assert_eq!(leave, [Nanos(0), Nanos(250_000_000), Nanos(500_000_000)]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn leaves_after(&self) -> Option<Nanos> {
        self.numbers()?.leaves_after()
    }

    /// Whether the cost is above what the limit can ever let through at once, so that no waiting helps.
    #[must_use]
    pub fn never(&self) -> bool {
        self.numbers().is_some_and(|numbers| numbers.never())
    }

    fn numbers(&self) -> Option<algorithm::LimitDecision<'l>> {
        self.by.map(|(answer, _)| answer.decision())
    }

    fn observes(&self) -> bool {
        self.by.is_some_and(|(_, bound)| bound.rule.observes())
    }
}

/// What a request under several limits got.
#[derive(Clone, Debug)]
pub struct Outcome<'l> {
    pub(super) decisions: SmallVec<[Decision<'l>; MOST_INLINE]>,
    /// About a denied request made again at once: the longest wait for a limit that this one has taken from.
    pub(super) again: Option<Decision<'l>>,
}

impl<'l> Outcome<'l> {
    pub(super) fn of_one(decision: Decision<'l>) -> Self {
        Self { decisions: smallvec![decision], again: None }
    }

    /// Whether the request may go on: no limit denies it.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.decisions.iter().all(Decision::allowed)
    }

    /// The decision of each limit, in the order in which they were asked.
    ///
    /// When another limit denied the request, a limit that was not charged says what it has left.
    #[must_use]
    pub fn decisions(&self) -> &[Decision<'l>] {
        &self.decisions
    }

    /// The decision that stands for all. If the request is denied, it is the one with the longest wait, and one that
    /// never lets it pass waits longest; else it is the one with the fewest units left. The first of equal ones is
    /// taken. Limits that observe count only if there are no others.
    ///
    /// The same request passes after that wait if nobody else takes anything, and not before. So it may be that of a
    /// limit that has let this one through: one that counts denied requests may have no room for the next.
    #[must_use]
    pub fn decision(&self) -> Decision<'l> {
        let of = |chosen: fn(&Decision<'l>) -> bool| self.decisions.iter().copied().filter(chosen);
        longest(of(|decision| !decision.allowed()).chain(self.again))
            .or_else(|| of(|decision| !decision.observes()).min_by_key(Decision::remaining))
            .or_else(|| self.decisions.iter().copied().min_by_key(Decision::remaining))
            .unwrap_or(Decision::UNLIMITED)
    }
}

/// The denied decision with the longest wait; the first of equal ones.
pub(super) fn longest<'l>(denied: impl Iterator<Item = Decision<'l>>) -> Option<Decision<'l>> {
    denied.min_by_key(|decision| Reverse((decision.never(), decision.retry_after())))
}
