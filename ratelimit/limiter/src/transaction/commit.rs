//! Commits what was decided, and decides again where somebody was faster.

use ratelimit_common::time::Now;
use smallvec::SmallVec;

use super::{
    Act, Decided, Held, MOST_INLINE, Part, Snapshot, Transaction,
    decide::{Crossing, decide},
};
use crate::store::{Backoff, Charge, State, Store};

/// What this request has stored so far.
#[derive(Default)]
pub(super) struct Stored {
    /// For each bucket how far this round is with it.
    progress: SmallVec<[Progress; MOST_INLINE]>,
    /// For each bucket the state that earlier rounds gave it, if they did; empty in the first round.
    states: SmallVec<[Option<State>; MOST_INLINE]>,
    /// For each part whether earlier rounds charged its bucket, which can be taken back.
    charged: SmallVec<[bool; MOST_INLINE]>,
}

/// How far a round is with a bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It is still to be stored, or somebody was faster.
    Open,
    /// There was nothing to store.
    Same,
    Stored,
}

/// Somebody was faster: the snapshot has been mended, and all is to be decided again.
struct Lost;

impl<S: Store> Transaction<'_, S> {
    /// Decides and commits until nobody was faster.
    pub(super) fn settle<'l>(
        &self,
        parts: &[Part<'l>],
        snapshot: &mut Snapshot,
        mut stored: Stored,
        decided: &mut Decided<'l>,
        present: impl Fn() -> Now,
    ) {
        let mut backoff = Backoff::default();
        loop {
            decide(&self.terms, parts, snapshot, decided);
            if self.commit(parts, decided, snapshot, &mut stored, &present).is_ok() {
                self.keep_crossings(decided);
                return;
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
        stored.progress.clear();
        stored.progress.resize(snapshot.buckets.len(), Progress::Open);
        for turn in 0..Part::TURNS {
            for index in (0..parts.len()).filter(|&index| parts[index].turn() == turn) {
                let bucket = snapshot.of_part[index];
                if stored.progress[bucket] != Progress::Open {
                    continue;
                }
                let progress = self.store_bucket(bucket, parts, decided, snapshot, stored, present);
                stored.progress[bucket] = progress;
                if progress == Progress::Open {
                    stored.keep(bucket, parts, decided, snapshot);
                    let held = &mut snapshot.buckets[bucket];
                    held.state = self.store.read(self.limits, &parts[held.reader].charge(self.terms.now));
                    return Err(Lost);
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn store_bucket(
        &self,
        bucket: usize,
        parts: &[Part<'_>],
        decided: &Decided<'_>,
        snapshot: &Snapshot,
        stored: &Stored,
        present: &impl Fn() -> Now,
    ) -> Progress {
        let (held, after) = (&snapshot.buckets[bucket], &decided.buckets[bucket].state);
        let ours = stored.states.get(bucket).and_then(Option::as_ref);
        let before = ours.unwrap_or(&held.state);
        if before.is(after) {
            return Progress::Same;
        }
        let charge = parts[held.reader].charge(self.terms.now);
        if self.store.exchange(self.limits, &charge, before, after) {
            return Progress::Stored;
        }
        if ours.is_none() {
            return Progress::Open;
        }
        let later = present().max(self.terms.now);
        for index in
            (0..parts.len()).filter(|&index| snapshot.of_part[index] == bucket && stored.charged[index])
        {
            self.take_back(&parts[index].charge(self.terms.now), later);
        }
        if decided.admitted { Progress::Open } else { Progress::Stored }
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

impl Stored {
    /// After a round that has stored all buckets before that one, at which somebody was faster.
    pub(super) fn before(
        lost: usize,
        parts: &[Part<'_>],
        decided: &Decided<'_>,
        snapshot: &Snapshot,
    ) -> Self {
        let of = |(index, (held, after)): (usize, (&Held, &Held))| match index < lost {
            true if held.state.is(&after.state) => Progress::Same,
            true => Progress::Stored,
            false => Progress::Open,
        };
        let progress = snapshot.buckets.iter().zip(&decided.buckets).enumerate().map(of).collect();
        let mut stored = Self { progress, ..Self::default() };
        stored.keep(lost, parts, decided, snapshot);
        stored
    }

    /// Keeps what this round has stored, for the next one, after somebody was faster at a bucket.
    #[cold]
    fn keep(&mut self, lost: usize, parts: &[Part<'_>], decided: &Decided<'_>, snapshot: &Snapshot) {
        self.states.resize(snapshot.buckets.len(), None);
        self.charged.resize(parts.len(), false);
        for (bucket, held) in decided.buckets.iter().enumerate() {
            if self.progress[bucket] == Progress::Stored {
                self.states[bucket] = Some(held.state.clone());
            }
        }
        for (index, outcome) in decided.outcomes.iter().enumerate() {
            if self.progress[snapshot.of_part[index]] == Progress::Stored {
                self.charged[index] = outcome.charged && parts[index].act == Act::ChargeIfAdmitted;
            }
        }
        self.states[lost] = None;
    }
}
