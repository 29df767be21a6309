//! The first round of the commonest request, without what it does not need: a few limits, each with a bucket of its
//! own, that decide and are charged if the request passes. The three steps are the same, and what comes of it is, too.

use ratelimit_common::time::Now;
use smallvec::SmallVec;

use super::{Act, Decided, Held, MOST_INLINE, Outcome, Part, Say, Snapshot, Transaction, commit::Stored};
use crate::store::{State, Store};

/// Each bucket as it was gathered, and as it is then.
type States = SmallVec<[(State, State); MOST_INLINE]>;

/// Whether a request is one of these.
pub(super) fn is_simple(parts: &[Part<'_>]) -> bool {
    let is_own = |(index, part): (usize, &Part<'_>)| {
        part.is_plain()
            && part.act == Act::ChargeIfAdmitted
            && part.say == Say::Decides
            && !parts[..index].iter().any(|other| other.is_about_same(part))
    };
    parts.len() <= MOST_INLINE && parts.iter().enumerate().all(is_own)
}

impl<S: Store> Transaction<'_, S> {
    /// Gathers, decides and commits.
    pub(super) fn settle_simple<'l>(
        &self,
        parts: &[Part<'l>],
        decided: &mut Decided<'l>,
        present: impl Fn() -> Now,
    ) {
        let now = self.terms.now;
        let mut states = States::new();
        decided.admitted = true;
        for part in parts {
            match self.store.read(self.limits, &part.charge(now)) {
                // Apart, so that words stay in registers: copies of wide states would take most of the time.
                State::Word(word) => self.charge_simple(part, State::Word(word), &mut states, decided),
                wide @ State::Wide(_) => self.charge_simple(part, wide, &mut states, decided),
            }
        }
        if !decided.admitted {
            return self.ask_simple(parts, states, decided);
        }
        let is_lost = |(index, (before, after)): (usize, &(State, State))| {
            let charge = parts[index].charge(now);
            !before.is(after) && !self.store.exchange(self.limits, &charge, before, after)
        };
        if let Some(lost) = states.iter().enumerate().position(is_lost) {
            self.settle_lost(lost, parts, states, decided, present);
        }
    }

    #[inline(always)]
    fn charge_simple<'l>(
        &self,
        part: &Part<'l>,
        before: State,
        states: &mut States,
        decided: &mut Decided<'l>,
    ) {
        let mut after = before.clone();
        let answer = after.charge(part.limit, self.terms.now, part.cost);
        let over = part.is_over(&answer);
        decided.admitted &= !over;
        decided.outcomes.push(Outcome { answer: Some(answer), over, charged: !over, ..Outcome::closed() });
        states.push((before, after));
    }

    /// Of a request that is denied, each limit says what it has.
    fn ask_simple<'l>(&self, parts: &[Part<'l>], states: States, decided: &mut Decided<'l>) {
        for (index, ((before, _), part)) in states.into_iter().zip(parts).enumerate() {
            let outcome = &mut decided.outcomes[index];
            let is_said = outcome.answer.is_some_and(|answer| !answer.allowed) && !part.limit.overruns();
            if !is_said {
                let answer = before.ask(part.limit, self.terms.now, part.asked());
                *outcome = Outcome { answer: Some(answer), over: part.is_over(&answer), ..Outcome::closed() };
            }
            decided.buckets.push(Held::new(before, index));
            decided.of_part.push(index);
        }
    }

    /// Goes on after somebody was faster at a bucket.
    #[cold]
    fn settle_lost<'l>(
        &self,
        lost: usize,
        parts: &[Part<'l>],
        states: States,
        decided: &mut Decided<'l>,
        present: impl Fn() -> Now,
    ) {
        let mut snapshot = Snapshot { buckets: SmallVec::new(), of_part: (0..parts.len()).collect() };
        for (index, (before, after)) in states.into_iter().enumerate() {
            snapshot.buckets.push(Held::new(before, index));
            decided.buckets.push(Held::new(after, index));
        }
        let stored = Stored::before(lost, parts, decided, &snapshot);
        snapshot.buckets[lost].state = self.store.read(self.limits, &parts[lost].charge(self.terms.now));
        self.settle(parts, &mut snapshot, stored, decided, present);
    }
}
