//! One decision about a request under several limits, all or nothing, in three steps: *gather* the states of all
//! buckets at one time, *decide* on these alone ([`decide`]), *commit* the states that follow.
//!
//! Who denies is charged nothing, and nobody else is either, except limits that count denied requests: they are charged
//! whatever the others say. Limits that only observe are charged last. Units that a request gives back go the same two
//! ways.
//!
//! To commit is to exchange each state for the new one if it still is what was gathered. If somebody was faster at one,
//! it is read again and all is decided again; each such round is another request's success, and after some of them
//! others wait. What was committed before that and is not to be any more is taken back: meanwhile it may have denied
//! others, but it has admitted none.
//!
//! All numbers of an answer, waits included, follow from the states and the time that were gathered. So a store that
//! has to be asked over a network needs one round trip to gather and one to commit, and uses [`decide`] as it is.

mod commit;
mod decide;
mod decided;
#[cfg(test)]
mod overtaken;
mod part;
mod soft;

use ratelimit_common::{limit::Limit, time::Now};
use smallvec::SmallVec;

use self::commit::Spots;
pub use self::part::{Act, Over, Part, Say};
pub(crate) use self::{
    decide::{decide, is_over},
    decided::{Decided, PartOutcome},
    soft::{Crossings, SoftLimitState, time_left},
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
    pub(crate) buckets: SmallVec<[BucketSnapshot; MOST_INLINE]>,
    /// For each part its bucket.
    pub(crate) of_part: SmallVec<[usize; MOST_INLINE]>,
}

/// A bucket as it was gathered, or as it is after a decision.
#[derive(Clone, Debug)]
pub(crate) struct BucketSnapshot {
    pub(crate) state: State,
    /// Since when use has been above the soft limit.
    pub(crate) above_since: Option<Now>,
    /// A part whose limit reads the state.
    reader: u32,
    /// The first [turn](Part::turn) of its parts.
    turn: u32,
}

impl<S: Store> Transaction<'_, S> {
    /// Judges a request. `present` reads the clock, for giving back. `decided`, in which nothing is decided yet, is
    /// filled in place, since it is large.
    pub(crate) fn judge<'l>(&self, parts: &[Part<'l>], decided: &mut Decided<'l>, present: impl Fn() -> Now) {
        match parts {
            [part] if part.is_plain() => {
                let answer = self.store.charge(self.limits, &part.charge(self.terms.now));
                decided.set_one(&self.terms, part, answer);
            }
            _ => {
                // Filled in place: they are large.
                let (mut snapshot, mut spots) = (Snapshot::empty(), Spots::<S>::new());
                snapshot.find_buckets(parts);
                self.gather(parts, &mut snapshot, &mut spots);
                self.settle(parts, &mut snapshot, &mut spots, decided, present);
            }
        }
    }

    /// Reads all buckets, and says where they lie.
    #[inline(always)]
    fn gather<'s>(&'s self, parts: &[Part<'_>], snapshot: &mut Snapshot, spots: &mut Spots<'s, S>) {
        for bucket_state in &mut *snapshot.buckets {
            let (state, spot) =
                self.store.read(self.limits, &bucket_state.part(parts).charge(self.terms.now));
            bucket_state.state = state;
            spots.push(spot);
        }
        let Some(crossings) = self.crossings else { return };
        for (part, &bucket) in parts.iter().zip(&snapshot.of_part).filter(|(part, _)| part.soft.is_some()) {
            snapshot.buckets[bucket].above_since = crossings.since(part.key());
        }
    }
}

impl Snapshot {
    /// Which buckets there are, with no state yet.
    pub(crate) fn of(parts: &[Part<'_>]) -> Self {
        let mut snapshot = Self::empty();
        snapshot.find_buckets(parts);
        snapshot
    }

    #[inline(always)]
    fn empty() -> Self {
        Self { buckets: SmallVec::new(), of_part: SmallVec::new() }
    }

    #[inline(always)]
    fn find_buckets(&mut self, parts: &[Part<'_>]) {
        for (index, part) in parts.iter().enumerate() {
            let is_same = |bucket_state: &BucketSnapshot| bucket_state.part(parts).is_about_same(part);
            let found = self.buckets.iter().position(is_same);
            self.of_part.push(found.unwrap_or(self.buckets.len()));
            match found {
                // One that a limit has made too wide for a word is read by that.
                Some(found) => self.buckets[found].is_shared_by(parts, index),
                None => self.buckets.push(BucketSnapshot::new(State::Word(0), part, index)),
            }
        }
    }
}

impl BucketSnapshot {
    /// Which of the parts reads the state.
    #[inline(always)]
    pub(crate) const fn reader(&self) -> usize {
        self.reader as usize
    }

    #[inline(always)]
    fn new(state: State, part: &Part<'_>, index: usize) -> Self {
        Self { state, above_since: None, reader: index as u32, turn: part.turn() }
    }

    fn is_shared_by(&mut self, parts: &[Part<'_>], index: usize) {
        self.turn = self.turn.min(parts[index].turn());
        // One that a limit has made too wide for a word is read by that.
        if parts[index].reads_more_than(self.part(parts)) {
            self.reader = index as u32;
        }
    }

    #[inline(always)]
    fn part<'p, 'l>(&self, parts: &'p [Part<'l>]) -> &'p Part<'l> {
        &parts[self.reader()]
    }

    /// What a limit says of a cost.
    #[inline]
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
        limit::{Algorithm, LimitSpec, Rate, StateStorage},
        time::Nanos,
    };

    use super::*;
    use crate::store::{Buckets as _, Enrolment, MemoryStore, WideRecord};

    #[test]
    fn a_debt_that_is_paid_is_settled_by_who_only_asks() {
        let rate = Rate { amount: 10.try_into().unwrap(), per: Nanos::SECOND };
        let spec = LimitSpec { overrun: true, ..LimitSpec::new(Algorithm::SlidingWindowLog, rate) };
        let limit = spec.build(StateStorage::UserSpace).unwrap();
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
            let mut decided = Decided::none(&terms);
            transaction.judge(&[part], &mut decided, || now);
            let State::Wide(record) = store.read(&limits, &part.charge(now)).0 else { panic!() };
            let WideRecord::Log(log) = *record else { panic!() };
            (decided.admitted, log.len(), log.owed())
        };
        assert_eq!(owed_after(100, Act::Charge, 110), (true, 10, 100));
        assert_eq!(owed_after(105, Act::Ask, 0), (false, 10, 50));
        assert_eq!(owed_after(110, Act::Ask, 0), (false, 10, 0));
        assert_eq!(owed_after(111, Act::Ask, 0), (true, 10, 0));
    }
}
