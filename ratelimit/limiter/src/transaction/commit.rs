//! Commits what was decided, and decides again where somebody was faster.

use std::mem;

use ratelimit_common::time::Now;
use smallvec::{SmallVec, smallvec};

use super::{
    Act, BucketSnapshot, Decided, MOST_INLINE, Part, Snapshot, Transaction,
    decide::{CrossingChange, decide},
};
use crate::store::{Backoff, Buckets, Charge, MOST_LOST, State, Store};

/// Where buckets lay when they were read.
pub(super) type Spots<'b, B> = SmallVec<[<B as Buckets>::Spot<'b>; MOST_INLINE]>;

/// What this request has stored so far.
#[derive(Default)]
struct Stored {
    /// For each bucket how far this round is with it.
    progress: SmallVec<[Progress; MOST_INLINE]>,
    /// For each bucket the state that earlier rounds gave it, if they did; empty in the first round.
    states: Vec<Option<State>>,
    /// For each part whether earlier rounds charged its bucket, which can be taken back.
    charged: Vec<bool>,
}

/// How far a round is with a bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It is still to be stored, or somebody was faster.
    Open,
    /// There was nothing to store.
    Same,
    Stored,
    /// What earlier rounds stored is to be given back, and somebody was faster.
    Owing,
}

/// Rounds of deciding and committing, until nobody was faster in one.
struct Settling<'r, 'l, 's, S, P> {
    transaction: &'r Transaction<'s, S>,
    parts: &'r [Part<'l>],
    snapshot: &'r mut Snapshot,
    decided: &'r mut Decided<'l>,
    stored: Stored,
    /// Reads the clock.
    present: P,
}

impl<S: Store> Transaction<'_, S> {
    /// Decides and commits until nobody was faster.
    pub(super) fn settle<'s, 'l>(
        &'s self,
        parts: &[Part<'l>],
        snapshot: &mut Snapshot,
        spots: &mut Spots<'s, S>,
        decided: &mut Decided<'l>,
        present: impl Fn() -> Now,
    ) {
        let mut settling =
            Settling { transaction: self, parts, snapshot, decided, stored: Stored::default(), present };
        if !settling.round(self.store, spots) {
            settling.go_on(spots);
        }
        self.keep_crossings(decided);
    }

    fn keep_crossings(&self, decided: &Decided<'_>) {
        let Some(crossings) = self.crossings else { return };
        for crossing in &decided.crossings {
            match *crossing {
                CrossingChange::Forgotten { key } => crossings.forget(key),
                CrossingChange::Noted { key, reset_after } => {
                    crossings.note(key, self.terms.now, reset_after)
                }
            }
        }
    }
}

impl<'l, 's, S: Store, P: Fn() -> Now> Settling<'_, 'l, 's, S, P> {
    /// After a round in which somebody was faster.
    #[cold]
    fn go_on(&mut self, spots: &mut Spots<'s, S>) {
        let mut backoff = Backoff::default();
        for _ in 1..MOST_LOST {
            backoff.wait();
            if self.round(self.transaction.store, spots) {
                return;
            }
        }
        let turn = self.transaction.store.turn();
        let mut spots = smallvec![Default::default(); spots.len()];
        // One round for each bucket that was read before the turn, or given back in it.
        while !self.round(&turn, &mut spots) {}
    }

    /// Decides and commits; false if somebody was faster at a bucket, which has been read again.
    #[inline(always)]
    fn round<'b, B: Buckets>(&mut self, buckets: &'b B, spots: &mut Spots<'b, B>) -> bool {
        decide(&self.transaction.terms, self.parts, self.snapshot, self.decided);
        self.stored.progress.clear();
        let mut passes = 0_u32;
        for bucket_state in &*self.snapshot.buckets {
            self.stored.progress.push(Progress::Open);
            passes |= 1 << pass(bucket_state);
        }
        while passes != 0 {
            let this = passes.trailing_zeros();
            passes &= passes - 1;
            for bucket in 0..self.snapshot.buckets.len() {
                if pass(&self.snapshot.buckets[bucket]) == this && !self.stores(buckets, bucket, spots) {
                    self.lose(buckets, bucket, spots);
                    return false;
                }
            }
        }
        true
    }

    /// Stores a bucket; false if somebody was faster.
    #[inline(always)]
    fn stores<'b, B: Buckets>(&mut self, buckets: &'b B, bucket: usize, spots: &Spots<'b, B>) -> bool {
        let progress = self.store_bucket(buckets, bucket, spots);
        self.stored.progress[bucket] = progress;
        matches!(progress, Progress::Same | Progress::Stored)
    }

    /// Prepares the next round, after somebody was faster at a bucket.
    #[cold]
    fn lose<'b, B: Buckets>(&mut self, buckets: &'b B, bucket: usize, spots: &mut Spots<'b, B>) {
        self.keep();
        if self.stored.progress[bucket] == Progress::Open {
            self.stored.states[bucket] = None;
            (self.snapshot.buckets[bucket].state, spots[bucket]) =
                buckets.read(self.transaction.limits, &self.charge_of(bucket));
        }
    }

    #[inline(always)]
    fn store_bucket<'b, B: Buckets>(
        &mut self,
        buckets: &'b B,
        bucket: usize,
        spots: &Spots<'b, B>,
    ) -> Progress {
        if self.stored.states.get(bucket).is_some_and(Option::is_some) {
            return self.store_again(buckets, bucket);
        }
        let (before, after) = (&self.snapshot.buckets[bucket].state, &self.decided.buckets[bucket].state);
        let (before, after) = match (before, after) {
            (State::Word(before), State::Word(after)) if before == after => return Progress::Same,
            (&State::Word(before), &State::Word(after)) => (State::Word(before), State::Word(after)),
            (before, after) if before.is(after) => return Progress::Same,
            _ => self.wide_states(bucket),
        };
        let charge = self.charge_of(bucket);
        if buckets.exchange(self.transaction.limits, &charge, spots[bucket], before, after) {
            Progress::Stored
        } else {
            Progress::Open
        }
    }

    /// The states before and after. Nobody needs the last one's any more, if waits need not be told.
    #[inline(never)]
    fn wide_states(&mut self, bucket: usize) -> (State, State) {
        let is_open = |progress: &&Progress| **progress == Progress::Open;
        let is_last = self.stored.progress.iter().filter(is_open).count() == 1;
        let (before, after) =
            (&mut self.snapshot.buckets[bucket].state, &mut self.decided.buckets[bucket].state);
        if is_last && self.decided.admitted {
            (mem::replace(before, State::Word(0)), mem::replace(after, State::Word(0)))
        } else {
            (before.clone(), after.clone())
        }
    }

    /// A bucket that an earlier round has stored.
    #[cold]
    fn store_again<B: Buckets>(&mut self, buckets: &B, bucket: usize) -> Progress {
        let Some(Some(before)) = self.stored.states.get(bucket) else { return Progress::Open };
        let after = &self.decided.buckets[bucket].state;
        if before.is(after) {
            return Progress::Same;
        }
        let (limits, charge) = (self.transaction.limits, self.charge_of(bucket));
        if buckets.exchange(limits, &charge, Default::default(), before.clone(), after.clone()) {
            return Progress::Stored;
        }
        match self.take_back(buckets, bucket) {
            false => Progress::Owing,
            true if self.decided.admitted => Progress::Open,
            true => Progress::Stored,
        }
    }

    /// Gives back what was charged in vain, after others have changed the bucket as well; false if they do so all the
    /// time.
    fn take_back<B: Buckets>(&mut self, buckets: &B, bucket: usize) -> bool {
        let (limits, now) = (self.transaction.limits, self.transaction.terms.now);
        let later = (self.present)().max(now);
        for index in (0..self.parts.len()).filter(|&index| self.snapshot.of_part[index] == bucket) {
            if !self.stored.charged[index] {
                continue;
            }
            let charge = self.parts[index].charge(now);
            let (before, spot) = buckets.read(limits, &charge);
            let mut after = before.clone();
            after.undo(charge.limit, now, later, charge.cost);
            if !before.is(&after) && !buckets.exchange(limits, &charge, spot, before, after) {
                return false;
            }
            self.stored.charged[index] = false;
        }
        true
    }

    /// Keeps what this round has stored, for the next one.
    fn keep(&mut self) {
        let Self { stored, decided, snapshot, parts, .. } = self;
        stored.states.resize(snapshot.buckets.len(), None);
        stored.charged.resize(parts.len(), false);
        for (bucket, bucket_state) in decided.buckets.iter().enumerate() {
            if stored.progress[bucket] == Progress::Stored {
                stored.states[bucket] = Some(bucket_state.state.clone());
            }
        }
        for (index, outcome) in decided.outcomes.iter().enumerate() {
            if stored.progress[snapshot.of_part[index]] == Progress::Stored {
                stored.charged[index] = outcome.charged && parts[index].act == Act::ChargeIfAdmitted;
            }
        }
    }

    /// What the store is asked with about a bucket.
    #[inline(always)]
    fn charge_of(&self, bucket: usize) -> Charge<'l> {
        self.snapshot.buckets[bucket].part(self.parts).charge(self.transaction.terms.now)
    }
}

/// When a bucket is stored: first what is charged in any case, last what only observes; and words before wide states,
/// of which the last one need not be copied.
#[inline(always)]
fn pass(bucket_state: &BucketSnapshot) -> u32 {
    2 * bucket_state.turn + u32::from(matches!(bucket_state.state, State::Wide(_)))
}
