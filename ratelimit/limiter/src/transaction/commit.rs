//! Commits what was decided, and decides again where somebody was faster.

use ratelimit_common::time::Now;
use smallvec::{SmallVec, smallvec};

use super::{
    Act, Decided, MOST_INLINE, Part, Say, Snapshot, Transaction,
    decide::{Crossing, decide},
};
use crate::store::{Backoff, Charge, State, Store};

/// What this request has stored so far.
struct Stored {
    /// For each bucket the state that it was given, if it was.
    states: SmallVec<[Option<State>; MOST_INLINE]>,
    /// For each part whether its bucket was charged, which can be taken back.
    charged: SmallVec<[bool; MOST_INLINE]>,
}

/// Somebody was faster: the snapshot has been mended, and all is to be decided again.
struct Lost;

impl<S: Store> Transaction<'_, S> {
    /// Decides and commits until nobody was faster.
    pub(super) fn settle<'l>(
        &self,
        parts: &[Part<'l>],
        snapshot: &mut Snapshot,
        present: impl Fn() -> Now,
    ) -> Decided<'l> {
        let mut stored = Stored {
            states: smallvec![None; snapshot.buckets.len()],
            charged: smallvec![false; parts.len()],
        };
        let mut backoff = Backoff::default();
        let mut decided = Decided::none(&self.terms);
        loop {
            decide(&self.terms, parts, snapshot, &mut decided);
            if self.commit(parts, &decided, snapshot, &mut stored, &present).is_ok() {
                self.keep_crossings(&decided);
                return decided;
            }
            backoff.wait();
        }
    }

    /// Stores what is charged in any case first, and what only observes last.
    fn commit(
        &self,
        parts: &[Part<'_>],
        decided: &Decided<'_>,
        snapshot: &mut Snapshot,
        stored: &mut Stored,
        present: &impl Fn() -> Now,
    ) -> Result<(), Lost> {
        let turn = |part: &Part<'_>| match part.act {
            Act::Ask | Act::Charge | Act::Report | Act::Refund => 0,
            Act::ChargeIfAdmitted if part.say != Say::Observes => 1,
            Act::ChargeIfAdmitted => 2,
            Act::RefundIfAdmitted => 3,
        };
        for now in 0..4 {
            for index in (0..parts.len()).filter(|&index| turn(&parts[index]) == now) {
                self.store_bucket(snapshot.of_part[index], parts, decided, snapshot, stored, present)?;
            }
        }
        Ok(())
    }

    fn store_bucket(
        &self,
        bucket: usize,
        parts: &[Part<'_>],
        decided: &Decided<'_>,
        snapshot: &mut Snapshot,
        stored: &mut Stored,
        present: &impl Fn() -> Now,
    ) -> Result<(), Lost> {
        let (held, after) = (&mut snapshot.buckets[bucket], &decided.buckets[bucket].state);
        let before = stored.states[bucket].as_ref().unwrap_or(&held.state);
        if before.is(after) {
            return Ok(());
        }
        let charge = parts[held.reader].charge(self.terms.now);
        let is_done = self.store.exchange(self.limits, &charge, before, after);
        let is_ours = stored.states[bucket].is_some();
        if !is_done && is_ours {
            let later = present().max(self.terms.now);
            for index in
                (0..parts.len()).filter(|&index| snapshot.of_part[index] == bucket && stored.charged[index])
            {
                self.take_back(&parts[index].charge(self.terms.now), later);
            }
        }
        if is_done || (is_ours && !decided.admitted) {
            stored.states[bucket] = Some(after.clone());
            for (index, outcome) in decided.outcomes.iter().enumerate() {
                if snapshot.of_part[index] == bucket {
                    stored.charged[index] = outcome.charged && parts[index].act == Act::ChargeIfAdmitted;
                }
            }
            return Ok(());
        }
        held.state = self.store.read(self.limits, &charge);
        stored.states[bucket] = None;
        Err(Lost)
    }

    /// Gives back what was charged in vain, after others have changed the bucket as well.
    fn take_back(&self, charge: &Charge<'_>, later: Now) {
        let mut backoff = Backoff::default();
        loop {
            let before = self.store.read(self.limits, charge);
            let mut after = before.clone();
            after.undo(charge.limit, charge.now, later, charge.cost);
            if before.is(&after) || self.store.exchange(self.limits, charge, &before, &after) {
                return;
            }
            backoff.wait();
        }
    }

    fn keep_crossings(&self, decided: &Decided<'_>) {
        let Some(crossings) = self.crossings else { return };
        for crossing in &decided.crossings {
            match *crossing {
                Crossing::Forgotten { key } => crossings.forget(key),
                Crossing::Noted { key, reset_after } => crossings.note(key, self.terms.now, reset_after),
            }
        }
    }
}
