//! One decision about a request under several limits, all or nothing, in three steps: *gather* the states of all buckets
//! at one time, *decide* on these alone ([`decide`]), *commit* the states that follow.
//!
//! Who denies is charged nothing, and nobody else is either, except limits that count denied requests: they are charged
//! whatever the others say. Limits that only observe are charged last. Units that a request gives back go the same two ways.
//!
//! To commit is to exchange each state for the new one if it still is what was gathered. If somebody was faster at one, it
//! is read again and all is decided again; each such round is another request's success. What was committed before that
//! and is not to be any more is taken back: meanwhile it may have denied others, but it has admitted none.
//!
//! All numbers of an answer, waits included, follow from the states and the time that were gathered. So a store that has to be
//! asked over a network needs one round trip to gather and one to commit, and uses [`decide`] as it is.

mod commit;
mod decide;
mod part;
mod simple;
mod soft;

use ratelimit_common::{limit::Limit, time::Now};
use smallvec::SmallVec;

pub use self::part::{Act, Over, Part, Say};
use self::{commit::Stored, simple::is_simple};
pub(crate) use self::{
    decide::{Decided, Outcome, decide, is_over},
    soft::{Crossings, Standing, time_left},
};
use crate::store::{Answer, Limits, State, Store};

/// A request under more limits than this allocates memory.
pub(crate) const MOST_INLINE: usize = 8;

/// What limits are asked with.
#[derive(Clone, Copy)]
pub(crate) struct Transaction<'s, S> {
    pub(crate) store: &'s S,
    pub(crate) limits: &'s Limits,
    /// When keys crossed their soft limits, if there are such limits.
    pub(crate) crossings: Option<&'s Crossings>,
    pub(crate) terms: Terms,
}

/// What else decides about a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The time of the decision.
    pub(crate) now: Now,
    /// Whether requests pass whatever limits say.
    pub(crate) passes_all: bool,
    /// Whether the request has a quota that is never over, so that quotas are never all over.
    pub(crate) has_open_quota: bool,
}

/// The states of all buckets of a request.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// Each bucket once.
    pub(crate) buckets: SmallVec<[Held; MOST_INLINE]>,
    /// For each part its bucket.
    pub(crate) of_part: SmallVec<[usize; MOST_INLINE]>,
}

/// A bucket as it was gathered, or as it is after a decision.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) state: State,
    /// Since when use has been above the soft limit.
    pub(crate) above_since: Option<Now>,
    /// A part whose limit reads the state.
    reader: usize,
}

impl<S: Store> Transaction<'_, S> {
    /// Judges a request. `present` reads the clock, for giving back.
    pub(crate) fn judge<'l>(&self, parts: &[Part<'l>], present: impl Fn() -> Now) -> Decided<'l> {
        let mut decided = Decided::none(&self.terms);
        match parts {
            [part] if part.is_plain() => {
                let answer = self.store.charge(self.limits, &part.charge(self.terms.now));
                decided.set_one(&self.terms, part, answer);
            }
            parts if !self.terms.passes_all && is_simple(parts) => {
                self.settle_simple(parts, &mut decided, present);
            }
            _ => self.settle(parts, &mut self.gather(parts), Stored::default(), &mut decided, present),
        }
        decided
    }

    #[inline]
    fn gather(&self, parts: &[Part<'_>]) -> Snapshot {
        let mut snapshot = Snapshot::of(parts);
        for held in &mut snapshot.buckets {
            held.state = self.store.read(self.limits, &parts[held.reader].charge(self.terms.now));
        }
        if let Some(crossings) = self.crossings {
            for (part, &bucket) in parts.iter().zip(&snapshot.of_part).filter(|(part, _)| part.soft.is_some())
            {
                snapshot.buckets[bucket].above_since = crossings.since(part.key());
            }
        }
        snapshot
    }
}

impl Snapshot {
    /// Which buckets there are.
    #[inline]
    pub(crate) fn of(parts: &[Part<'_>]) -> Self {
        let mut snapshot = Self { buckets: SmallVec::new(), of_part: SmallVec::new() };
        for (index, part) in parts.iter().enumerate() {
            let is_same = |held: &Held| parts[held.reader].is_about_same(part);
            let found = snapshot.buckets.iter().position(is_same);
            snapshot.of_part.push(found.unwrap_or(snapshot.buckets.len()));
            match found {
                // One that a limit has made too wide for a word is read by that.
                Some(found) if part.reads_more_than(&parts[snapshot.buckets[found].reader]) => {
                    snapshot.buckets[found].reader = index;
                }
                Some(_) => {}
                None => snapshot.buckets.push(Held::new(State::Word(0), index)),
            }
        }
        snapshot
    }
}

impl Held {
    /// Which of the parts reads the state.
    pub(crate) const fn reader(&self) -> usize {
        self.reader
    }

    const fn new(state: State, reader: usize) -> Self {
        Self { state, above_since: None, reader }
    }

    /// What a limit says of a cost.
    pub(crate) fn ask<'l>(&self, limit: &'l Limit, now: Now, cost: u32) -> Answer<'l> {
        self.state.ask(limit, now, cost)
    }

    /// What a limit would say of a cost if so much had been taken before.
    pub(crate) fn ask_after<'l>(&self, limit: &'l Limit, now: Now, before: u32, cost: u32) -> Answer<'l> {
        if before > 0 && limit.overruns() {
            // Which asks for one unit, whatever it costs.
            let mut then = self.state.clone();
            then.charge(limit, now, before);
            return then.ask(limit, now, cost);
        }
        self.ask(limit, now, before.saturating_add(cost))
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::{
        algorithm::sliding_window_log::Entries as _,
        limit::{Algorithm, LimitSpec, Place, Rate},
        time::Nanos,
    };

    use super::*;
    use crate::store::{Enrolment, MemoryStore, WideRecord};

    #[test]
    fn a_debt_that_is_paid_is_settled_by_who_only_asks() {
        let rate = Rate { amount: 10.try_into().unwrap(), per: Nanos::SECOND };
        let spec = LimitSpec { overrun: true, ..LimitSpec::new(Algorithm::SlidingWindowLog, rate) };
        let limit = spec.build(Place::UserSpace).unwrap();
        let store = MemoryStore::new(100).unwrap();
        let (accounts, limits) = store.enroll(&[Enrolment { name: "log", limit: &limit }]);
        let owed_after = |seconds: u64, act: Act, cost: u32| {
            let part = Part {
                account: accounts[0],
                hash: store.hash("key"),
                limit: &limit,
                cost,
                act,
                say: Say::Decides,
                over: Over::Denied,
                soft: None,
            };
            let now = Now(Nanos::from_secs(seconds));
            let terms = Terms { now, passes_all: false, has_open_quota: false };
            let transaction = Transaction { store: &store, limits: &limits, crossings: None, terms };
            let admitted = transaction.judge(&[part], || now).admitted;
            let State::Wide(WideRecord::Log(log)) = store.read(&limits, &part.charge(now)) else { panic!() };
            (admitted, log.len(), log.owed())
        };
        assert_eq!(owed_after(100, Act::Charge, 110), (true, 10, 100));
        assert_eq!(owed_after(105, Act::Ask, 0), (false, 10, 50));
        assert_eq!(owed_after(110, Act::Ask, 0), (false, 10, 0));
        assert_eq!(owed_after(111, Act::Ask, 0), (true, 10, 0));
    }
}
