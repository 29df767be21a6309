//! The sliding window counter and the log on the very same arrivals, and how often they disagree.

use std::{
    num::NonZeroU64,
    ops::{AddAssign, Index},
};

use ratelimit_common::{
    algorithm::{
        self,
        sliding_window_log::{self, Entries as _},
    },
    limit::{Algorithm, Limit, LimitError, LimitSpec, Rate, StateStorage},
    time::{Nanos, Now},
};

use super::bucket::Log;

/// Which requests the two have counted when they decide about the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Each those that it admitted itself: two limiters side by side. A disagreement changes what follows in both.
    Own,
    /// Both those that the counter admitted: each answer of the counter beside the exact one about the same past.
    Counters,
    /// Both all requests, denied ones too (`count_denied`).
    All,
}

impl Counting {
    /// All of them.
    pub const EACH: [Self; 3] = [Self::Own, Self::Counters, Self::All];
}

/// How many requests the two decided about differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// The counter allowed what the log denied.
    pub allowed: u64,
    /// The counter denied what the log allowed.
    pub denied: u64,
}

/// What came of the requests of one source or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: u64,
    /// What each allowed by [`Counting::Own`].
    pub counter_allowed: u64,
    pub log_allowed: u64,
    wrong: [Wrong; 3],
}

impl Index<Counting> for Tally {
    type Output = Wrong;

    fn index(&self, counting: Counting) -> &Wrong {
        &self.wrong[counting as usize]
    }
}

impl Wrong {
    fn count(&mut self, counter: bool, log: bool) {
        self.allowed += u64::from(counter && !log);
        self.denied += u64::from(!counter && log);
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.counter_allowed += other.counter_allowed;
        self.log_allowed += other.log_allowed;
        for (wrong, more) in self.wrong.iter_mut().zip(other.wrong) {
            wrong.allowed += more.allowed;
            wrong.denied += more.denied;
        }
    }
}

/// The same limit by both algorithms.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub counter: Limit,
    pub log: Limit,
}

impl Pair {
    /// `amount` requests in any `per`.
    pub fn new(amount: NonZeroU64, per: Nanos, count_denied: bool) -> Result<Self, LimitError> {
        let limit = |algorithm| {
            let rate = Rate { amount, per };
            LimitSpec { count_denied, ..LimitSpec::new(algorithm, rate) }.build(StateStorage::UserSpace)
        };
        Ok(Self {
            counter: limit(Algorithm::SlidingWindowCounter)?,
            log: limit(Algorithm::SlidingWindowLog)?,
        })
    }
}

/// The limits that a comparison needs.
#[derive(Clone, Copy, Debug)]
pub struct Rivals {
    admitted: Pair,
    all: Pair,
}

impl Rivals {
    /// `amount` requests in any `per`.
    pub fn new(amount: NonZeroU64, per: Nanos) -> Result<Self, LimitError> {
        Ok(Self { admitted: Pair::new(amount, per, false)?, all: Pair::new(amount, per, true)? })
    }

    /// Lets all arrivals of one source be judged.
    pub fn judge(&self, arrivals: impl Iterator<Item = Nanos>) -> Tally {
        let mut source = Source::default();
        let mut tally = Tally::default();
        for now in arrivals {
            source.judge(self, Now(now), &mut tally);
        }
        tally
    }
}

/// What is kept for one source.
#[derive(Default)]
struct Source {
    counter: u64,
    log: Log,
    /// What the counter admitted: as many of the newest as the log needs to decide.
    admitted: Log,
    all_counter: u64,
    all_log: Log,
}

impl Source {
    fn judge(&mut self, rivals: &Rivals, now: Now, tally: &mut Tally) {
        let Rivals { admitted, all } = rivals;
        let counter = charge(&admitted.counter, &mut self.counter, now);
        let log = sliding_window_log::decide(&admitted.log, &mut self.log, now, 1).allowed;
        let exact = self.exact(&admitted.log, now, counter);
        let all_counter = charge(&all.counter, &mut self.all_counter, now);
        let all_log = sliding_window_log::decide(&all.log, &mut self.all_log, now, 1).allowed;

        tally.requests += 1;
        tally.counter_allowed += u64::from(counter);
        tally.log_allowed += u64::from(log);
        tally.wrong[Counting::Own as usize].count(counter, log);
        tally.wrong[Counting::Counters as usize].count(counter, exact);
        tally.wrong[Counting::All as usize].count(all_counter, all_log);
    }

    /// What the log says about what the counter admitted, which may be more than the limit.
    fn exact(&mut self, limit: &Limit, now: Now, counter_allows: bool) -> bool {
        // A cost of 0 is denied where 1 would be, and leaves no entry.
        let exact = sliding_window_log::decide(limit, &mut self.admitted, now, 0).allowed;
        if counter_allows {
            if self.admitted.len() as u64 >= limit.capacity() {
                self.admitted.pop_oldest();
            }
            self.admitted.push(now.0, limit.capacity());
        }
        exact
    }
}

fn charge(limit: &Limit, state: &mut u64, now: Now) -> bool {
    let (decision, after) = algorithm::decide(limit, *state, now, 1);
    *state = after;
    decision.allowed
}
