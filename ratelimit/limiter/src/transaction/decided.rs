//! What came of a request and of each of its parts, and the plainest way to it: all limits are charged without asking
//! first.

use ratelimit_common::{limit::Limit, time::Now};
use smallvec::{SmallVec, smallvec};

use super::{
    Act, BucketSnapshot, MOST_INLINE, Part, Say, Snapshot, SoftLimitState, Terms,
    decide::{CrossingChange, is_over},
};
use crate::store::{Answer, State};

/// What came of one part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartOutcome<'l> {
    /// `None` of a limit that lets nothing through.
    pub(crate) answer: Option<Answer<'l>>,
    pub(crate) over: bool,
    pub(crate) charged: bool,
    pub(crate) soft_state: SoftLimitState,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(crate) struct Decided<'l> {
    pub(crate) outcomes: SmallVec<[PartOutcome<'l>; MOST_INLINE]>,
    /// Whether no limit denies it.
    pub(crate) admitted: bool,
    /// The buckets as they are then, of a request that is denied: wide states of others may be gone, and one limit
    /// alone is charged in its store.
    pub(crate) buckets: SmallVec<[BucketSnapshot; MOST_INLINE]>,
    /// Crossings of soft limits, as they are to be kept.
    pub(super) crossings: Vec<CrossingChange>,
    pub(super) of_part: SmallVec<[usize; MOST_INLINE]>,
    /// The bucket of each part that is over and above its soft limit, as it was then.
    pub(super) softened: Vec<(usize, BucketSnapshot)>,
    now: Now,
}

impl<'l> Decided<'l> {
    /// Takes the answer of one limit that was charged alone, in its store.
    pub(super) fn set_one(&mut self, terms: &Terms, part: &Part<'l>, answer: Answer<'l>) {
        let over = part.is_over(&answer);
        let charged = part.act == Act::Charge || !over;
        self.outcomes.push(PartOutcome { answer: Some(answer), over, charged, ..PartOutcome::closed() });
        self.admitted = terms.passes_all || !is_over(terms, &[*part], &self.outcomes);
    }

    /// Before anything is decided.
    #[inline(always)]
    pub(crate) fn none(terms: &Terms) -> Self {
        Self {
            outcomes: SmallVec::new(),
            admitted: false,
            buckets: SmallVec::new(),
            crossings: Vec::new(),
            of_part: SmallVec::new(),
            softened: Vec::new(),
            now: terms.now,
        }
    }

    /// With the buckets as they were gathered.
    #[inline(always)]
    pub(super) fn begin(&mut self, snapshot: &Snapshot) {
        self.buckets.clear();
        for bucket_state in &*snapshot.buckets {
            self.buckets.push(bucket_state.clone());
        }
        self.crossings.clear();
        if self.of_part.is_empty() {
            self.of_part.extend_from_slice(&snapshot.of_part);
        }
    }

    /// Charges all limits without asking them first, as long as none is over that has a say; else says which. Where all
    /// there is to do is to charge, a limit that has room then had room before as well.
    #[inline(always)]
    pub(super) fn take_all(&mut self, terms: &Terms, parts: &[Part<'l>]) -> Option<usize> {
        let mut turns = Part::turns(parts);
        let buckets = &mut *self.buckets;
        if turns.is_power_of_two() {
            for (index, (part, &bucket)) in parts.iter().zip(&*self.of_part).enumerate() {
                // Apart, so that words stay in registers.
                let over = match &mut buckets[bucket].state {
                    State::Word(word) => {
                        let outcome = PartOutcome::of_word(part, word, terms.now);
                        let over = outcome.over;
                        self.outcomes.push(outcome);
                        over
                    }
                    state @ State::Wide(_) => {
                        let outcome = PartOutcome::charged(part, state, terms.now);
                        self.outcomes.push(outcome);
                        outcome.over
                    }
                };
                if over && part.say != Say::Observes {
                    return Some(index);
                }
            }
            return None;
        }
        self.fill_up(parts);
        let buckets = &mut *self.buckets;
        while turns != 0 {
            let turn = turns.trailing_zeros();
            turns &= turns - 1;
            let of_turn = parts.iter().zip(&mut *self.outcomes).zip(&*self.of_part).enumerate();
            for (index, ((part, outcome), &bucket)) in
                of_turn.filter(|(_, ((part, _), _))| part.turn() == turn)
            {
                *outcome = PartOutcome::charged(part, &mut buckets[bucket].state, terms.now);
                if outcome.over && part.say != Say::Observes {
                    return Some(index);
                }
            }
        }
        None
    }

    /// An outcome for each part.
    #[inline(always)]
    fn fill_up(&mut self, parts: &[Part<'_>]) {
        while self.outcomes.len() < parts.len() {
            self.outcomes.push(PartOutcome::closed());
        }
    }

    /// Whether each limit is charged only if all let the request pass, and has a bucket of its own.
    #[inline(always)]
    pub(super) fn are_apart(&self, parts: &[Part<'_>]) -> bool {
        self.buckets.len() == parts.len() && parts.iter().all(|part| part.act == Act::ChargeIfAdmitted)
    }

    /// One limit denies the request: the others say what they have, and nothing is charged.
    #[inline(always)]
    pub(super) fn deny(&mut self, terms: &Terms, parts: &[Part<'l>], snapshot: &Snapshot, over: usize) {
        self.fill_up(parts);
        let gathered = snapshot.buckets.iter().zip(&mut *self.buckets);
        for (index, ((part, outcome), (bucket_state, bucket))) in
            parts.iter().zip(&mut *self.outcomes).zip(gathered).enumerate()
        {
            // The one that is over has said it, if its question is what was charged.
            if index != over || part.limit.overruns() {
                let answer = bucket_state.ask(part.limit, terms.now, part.cost);
                (outcome.answer, outcome.over) = (Some(answer), part.is_over(&answer));
            }
            outcome.charged = false;
            if !bucket.state.is(&bucket_state.state) {
                bucket.state = bucket_state.state.clone();
            }
        }
        self.admitted = false;
    }

    /// The bucket of a part.
    pub(crate) fn bucket(&self, part: usize) -> &BucketSnapshot {
        &self.buckets[self.of_part[part]]
    }

    /// The bucket of a part that is over and above its soft limit, as it was then.
    pub(crate) fn then(&self, part: usize) -> Option<&BucketSnapshot> {
        let outcome = self.outcomes.get(part)?;
        let is_told = outcome.over && outcome.soft_state != SoftLimitState::Below;
        self.softened
            .iter()
            .rfind(|(index, _)| is_told && *index == part)
            .map(|(_, bucket_state)| bucket_state)
    }

    /// When it was decided.
    pub(crate) const fn now(&self) -> Now {
        self.now
    }

    /// Whether two parts share a bucket.
    pub(crate) fn shares_buckets(&self) -> bool {
        self.of_part.len() > self.buckets.len()
    }

    /// What a part's bucket would say of a cost if so much had been taken from it before.
    pub(crate) fn ask_after<'m>(&self, part: usize, limit: &'m Limit, before: u32, cost: u32) -> Answer<'m> {
        self.bucket(part).ask_after(limit, self.now, before, cost)
    }

    /// For each part, what the request takes from the same bucket before it.
    pub(crate) fn taken_before(&self, parts: &[Part<'_>]) -> SmallVec<[u32; MOST_INLINE]> {
        let mut taken: SmallVec<[u32; MOST_INLINE]> = smallvec![0; self.buckets.len()];
        let before = |(part, &bucket): (&Part<'_>, &usize)| {
            let before = taken[bucket];
            taken[bucket] = before.saturating_add(part.asked());
            before
        };
        parts.iter().zip(&self.of_part).map(before).collect()
    }
}

impl<'l> PartOutcome<'l> {
    /// Without anything that a bucket says.
    pub(crate) const fn unknown(over: bool) -> Self {
        Self { over, ..Self::closed() }
    }

    /// The outcome of a limit that is charged if it has room, or in any case.
    fn charged(part: &Part<'l>, state: &mut State, now: Now) -> Self {
        Self::of_answer(part, state.charge(part.limit, now, part.cost))
    }

    /// The same of one whose state is a word.
    #[inline(always)]
    fn of_word(part: &Part<'l>, word: &mut u64, now: Now) -> Self {
        Self::of_answer(part, Answer::charge_word(part.limit, word, now, part.cost))
    }

    #[inline(always)]
    fn of_answer(part: &Part<'l>, answer: Answer<'l>) -> Self {
        let over = part.is_over(&answer);
        let charged = part.act == Act::Charge || !over;
        Self { answer: Some(answer), over, charged, soft_state: SoftLimitState::Below }
    }

    /// The outcome of a limit that lets nothing through.
    #[inline(always)]
    pub(super) const fn closed() -> Self {
        Self { answer: None, over: true, charged: false, soft_state: SoftLimitState::Below }
    }
}
