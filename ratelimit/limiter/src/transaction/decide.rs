//! From the states of all buckets and one time to what each limit says, and the states that follow. Nothing else goes in.

use ratelimit_common::{
    limit::Limit,
    time::{Nanos, Now},
};
use smallvec::{SmallVec, smallvec};

use super::{Act, Held, MOST_INLINE, Over, Part, Say, Snapshot, Standing, Terms, soft};
use crate::{
    policy::SoftLimit,
    store::{Answer, State},
};

/// What came of one part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome<'l> {
    /// `None` of a limit that lets nothing through.
    pub(crate) answer: Option<Answer<'l>>,
    pub(crate) over: bool,
    pub(crate) charged: bool,
    pub(crate) standing: Standing,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(crate) struct Decided<'l> {
    pub(crate) outcomes: SmallVec<[Outcome<'l>; MOST_INLINE]>,
    /// Whether no limit denies it.
    pub(crate) admitted: bool,
    /// The buckets as they are then, of a request that is denied: wide states of others may be gone, and one limit alone is
    /// charged in its store.
    pub(crate) buckets: SmallVec<[Held; MOST_INLINE]>,
    /// Crossings of soft limits, as they are to be kept.
    pub(super) crossings: Vec<Crossing>,
    pub(super) of_part: SmallVec<[usize; MOST_INLINE]>,
    /// Of each part that is over and above its soft limit, the bucket as it was then.
    softened: Vec<(usize, Held)>,
    now: Now,
}

/// What becomes of a key's crossing of its soft limit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Crossing {
    /// It is over.
    Forgotten { key: u64 },
    /// The key is above it, and its bucket is full again after so long.
    Noted { key: u64, reset_after: Nanos },
}

/// Decides about a request. What was decided before goes; it is filled in place, since it is large.
pub(crate) fn decide<'l>(terms: &Terms, parts: &[Part<'l>], snapshot: &Snapshot, decided: &mut Decided<'l>) {
    decided.outcomes.clear();
    decided.softened.clear();
    decided.begin(snapshot);
    if parts.iter().all(Part::is_plain) {
        let Some(over) = decided.take_all(terms, parts) else {
            decided.admitted = true;
            return;
        };
        if !terms.passes_all && parts[over].say == Say::Decides && decided.are_apart(parts) {
            return decided.deny(terms, parts, snapshot, over);
        }
        decided.begin(snapshot);
    }
    let mut deciding = Deciding { terms, parts, snapshot, decided };
    deciding.begin();
    if !deciding.is_denied() && !deciding.charge_all() {
        deciding.give_back(false);
    } else if !deciding.is_denied() && !deciding.refund_all() {
        deciding.give_back(true);
    }
    deciding.decided.admitted = !deciding.is_denied();
}

struct Deciding<'d, 'l> {
    terms: &'d Terms,
    parts: &'d [Part<'l>],
    snapshot: &'d Snapshot,
    decided: &'d mut Decided<'l>,
}

impl<'d, 'l> Deciding<'d, 'l> {
    #[inline(always)]
    fn begin(&mut self) {
        self.decided.outcomes.clear();
        for (index, part) in self.parts.iter().enumerate() {
            self.decided.outcomes.push(Outcome::closed());
            if part.act == Act::ChargeIfAdmitted && part.is_plain() {
                // What [`Self::first`] does, in place.
                let now = self.terms.now;
                let answer = self.held(index).ask(part.limit, now, part.cost);
                let outcome = &mut self.decided.outcomes[index];
                (outcome.answer, outcome.over) = (Some(answer), part.is_over(&answer));
            } else {
                self.decided.outcomes[index] = self.first(index);
            }
        }
    }

    /// Does what is done in any case, and asks the rest.
    #[inline(never)]
    fn first(&mut self, index: usize) -> Outcome<'l> {
        let part = self.part(index);
        match part.act {
            _ if part.over == Over::Closed => Outcome::closed(),
            Act::Charge => self.charge(index),
            Act::Report => self.report(index),
            Act::Refund => self.refund(index),
            // Whether it is over shows when it has been refunded.
            Act::RefundIfAdmitted => Outcome { over: false, ..self.ask(index) },
            Act::Ask => {
                // Who asks again and again must not bring about all the work of a debt each time.
                let now = self.terms.now;
                self.held(index).state.settle(part.limit, now);
                self.ask(index)
            }
            Act::ChargeIfAdmitted => self.ask(index),
        }
    }

    /// Charges what is charged if the request passes; false if it does not any more.
    fn charge_all(&mut self) -> bool {
        for observes in [false, true] {
            for (index, part) in self.parts.iter().enumerate() {
                if part.act != Act::ChargeIfAdmitted || (part.say == Say::Observes) != observes {
                    continue;
                }
                self.decided.outcomes[index] = self.charge(index);
                if !self.decided.outcomes[index].charged && self.is_denied() {
                    return false;
                }
            }
        }
        true
    }

    /// Refunds what is refunded if the request passes; false if it does not, since a limit is over all the same.
    fn refund_all(&mut self) -> bool {
        let mut is_over = false;
        for index in self.of(&[Act::RefundIfAdmitted]) {
            self.decided.outcomes[index] = self.refund(index);
            is_over |= self.decided.outcomes[index].over;
        }
        !is_over || !self.is_denied()
    }

    /// Takes back what was charged in vain: begins anew, and does what is done all the same.
    fn give_back(&mut self, refunded: bool) {
        self.decided.begin(self.snapshot);
        for index in self.of(&[Act::Ask, Act::Charge, Act::Report, Act::Refund]) {
            self.first(index);
        }
        for index in self.of(&[Act::RefundIfAdmitted]).filter(|_| refunded) {
            self.refund(index);
        }
        for index in self.of(&[Act::ChargeIfAdmitted]) {
            if self.decided.outcomes[index].charged {
                self.decided.outcomes[index] = self.ask(index);
            }
        }
    }

    /// Whether the request is denied: by a limit that decides, or by all quotas.
    fn is_denied(&self) -> bool {
        !self.terms.passes_all && is_over(self.terms, self.parts, &self.decided.outcomes)
    }

    fn ask(&mut self, index: usize) -> Outcome<'l> {
        let part = self.part(index);
        let now = self.terms.now;
        let answer = self.held(index).ask(part.limit, now, part.asked());
        // What is given back is no use.
        let standing = if part.gives_back() { Standing::Below } else { self.standing(index) };
        let over = part.is_over(&answer) || standing == Standing::TooLong;
        self.outcome(index, answer, standing, (over, false))
    }

    /// Charges a limit that has room, or one that is charged in any case.
    #[inline]
    fn charge(&mut self, index: usize) -> Outcome<'l> {
        let part = self.part(index);
        let standing = self.standing(index);
        if standing == Standing::TooLong && part.act != Act::Charge {
            return self.ask(index);
        }
        let now = self.terms.now;
        let answer = self.held(index).state.charge(part.limit, now, part.cost);
        let over = part.is_over(&answer);
        if standing == Standing::Above && !over {
            self.note(index, &answer);
        }
        let over = over || standing == Standing::TooLong;
        self.outcome(index, answer, standing, (over, part.act == Act::Charge || !over))
    }

    /// Charges what is known afterwards. Nothing is denied any more, by a soft limit neither.
    fn report(&mut self, index: usize) -> Outcome<'l> {
        let part = self.part(index);
        let (now, standing) = (self.terms.now, self.standing(index));
        let answer = self.held(index).state.report(part.limit, now, part.cost);
        if standing != Standing::Below {
            self.note(index, &answer);
        }
        let standing = if standing == Standing::Above { standing } else { Standing::Below };
        self.outcome(index, answer, standing, (false, true))
    }

    /// Notes that use is above the soft limit.
    fn note(&mut self, index: usize, answer: &Answer<'l>) {
        let now = self.terms.now;
        self.held(index).above_since.get_or_insert(now);
        let (key, reset_after) = (self.part(index).key(), answer.decision().reset_after());
        self.decided.crossings.push(Crossing::Noted { key, reset_after });
    }

    fn refund(&mut self, index: usize) -> Outcome<'l> {
        let part = self.part(index);
        let now = self.terms.now;
        self.held(index).state.refund(part.limit, now, part.cost);
        self.ask(index)
    }

    /// Where the request stands towards the soft limit, before it is charged.
    #[inline]
    fn standing(&mut self, index: usize) -> Standing {
        self.part(index).soft.map_or(Standing::Below, |soft| self.standing_towards(index, soft))
    }

    fn standing_towards(&mut self, index: usize, soft: SoftLimit) -> Standing {
        let part = self.part(index);
        let now = self.terms.now;
        let held = self.held(index);
        let used = held.ask(part.limit, now, 0).decision().used();
        if used < soft.limit.get() && held.above_since.take().is_some() {
            self.decided.crossings.push(Crossing::Forgotten { key: part.key() });
        }
        // A request that only asks is told what one that takes a unit would be.
        soft::standing(self.held(index).above_since, soft, used.saturating_add(part.cost.max(1).into()), now)
    }

    #[inline(always)]
    fn outcome(
        &mut self,
        index: usize,
        answer: Answer<'l>,
        standing: Standing,
        (over, charged): (bool, bool),
    ) -> Outcome<'l> {
        let is_told = over && standing != Standing::Below;
        if is_told {
            let then = self.held(index).clone();
            self.decided.softened.push((index, then));
        }
        Outcome { answer: Some(answer), over, charged, standing }
    }

    #[inline]
    fn held(&mut self, index: usize) -> &mut Held {
        &mut self.decided.buckets[self.snapshot.of_part[index]]
    }

    #[inline]
    fn part(&self, index: usize) -> &'d Part<'l> {
        let parts = self.parts;
        &parts[index]
    }

    /// The parts that act in one of these ways.
    fn of(&self, acts: &'static [Act]) -> impl Iterator<Item = usize> + use<'d, 'l> {
        let parts = self.parts;
        (0..parts.len()).filter(move |&index| acts.contains(&parts[index].act))
    }
}

/// Whether a limit that decides is over, or all quotas are.
#[inline]
pub(crate) fn is_over(terms: &Terms, parts: &[Part<'_>], outcomes: &[Outcome<'_>]) -> bool {
    let (mut quotas, mut open_quotas) = (0, usize::from(terms.has_open_quota));
    for (part, outcome) in parts.iter().zip(outcomes) {
        match part.say {
            Say::Decides if outcome.over => return true,
            Say::Quota if outcome.over => quotas += 1,
            Say::Quota => open_quotas += 1,
            Say::Decides | Say::Observes => {}
        }
    }
    quotas > 0 && open_quotas == 0
}

impl<'l> Decided<'l> {
    /// Of one limit alone that was charged in its store.
    pub(super) fn set_one(&mut self, terms: &Terms, part: &Part<'l>, answer: Answer<'l>) {
        let over = part.is_over(&answer);
        let charged = part.act == Act::Charge || !over;
        self.outcomes.push(Outcome { answer: Some(answer), over, charged, ..Outcome::closed() });
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
    fn begin(&mut self, snapshot: &Snapshot) {
        self.buckets.clear();
        for held in &*snapshot.buckets {
            self.buckets.push(held.clone());
        }
        self.crossings.clear();
        if self.of_part.is_empty() {
            self.of_part.extend_from_slice(&snapshot.of_part);
        }
    }

    /// Charges all limits without asking them first, as long as none is over that has a say; else says which. Where all
    /// there is to do is to charge, a limit that has room then had room before as well.
    #[inline(always)]
    fn take_all(&mut self, terms: &Terms, parts: &[Part<'l>]) -> Option<usize> {
        let mut turns = Part::turns(parts);
        let buckets = &mut *self.buckets;
        if turns.is_power_of_two() {
            for (index, (part, &bucket)) in parts.iter().zip(&*self.of_part).enumerate() {
                // Apart, so that words stay in registers.
                let over = match &mut buckets[bucket].state {
                    State::Word(word) => {
                        let outcome = Outcome::of_word(part, word, terms.now);
                        let over = outcome.over;
                        self.outcomes.push(outcome);
                        over
                    }
                    state @ State::Wide(_) => {
                        let outcome = Outcome::charged(part, state, terms.now);
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
                *outcome = Outcome::charged(part, &mut buckets[bucket].state, terms.now);
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
            self.outcomes.push(Outcome::closed());
        }
    }

    /// Whether each limit is charged only if all let the request pass, and has a bucket of its own.
    #[inline(always)]
    fn are_apart(&self, parts: &[Part<'_>]) -> bool {
        self.buckets.len() == parts.len() && parts.iter().all(|part| part.act == Act::ChargeIfAdmitted)
    }

    /// Of a request that one limit denies, the others say what they have, and nothing is charged.
    #[inline(always)]
    fn deny(&mut self, terms: &Terms, parts: &[Part<'l>], snapshot: &Snapshot, over: usize) {
        self.fill_up(parts);
        let gathered = snapshot.buckets.iter().zip(&mut *self.buckets);
        for (index, ((part, outcome), (held, bucket))) in
            parts.iter().zip(&mut *self.outcomes).zip(gathered).enumerate()
        {
            // The one that is over has said it, if its question is what was charged.
            if index != over || part.limit.overruns() {
                let answer = held.ask(part.limit, terms.now, part.cost);
                (outcome.answer, outcome.over) = (Some(answer), part.is_over(&answer));
            }
            outcome.charged = false;
            if !bucket.state.is(&held.state) {
                bucket.state = held.state.clone();
            }
        }
        self.admitted = false;
    }

    /// The bucket of a part.
    pub(crate) fn held(&self, part: usize) -> &Held {
        &self.buckets[self.of_part[part]]
    }

    /// The bucket of a part that is over and above its soft limit, as it was then.
    pub(crate) fn then(&self, part: usize) -> Option<&Held> {
        let outcome = self.outcomes.get(part)?;
        let is_told = outcome.over && outcome.standing != Standing::Below;
        self.softened.iter().rfind(|(index, _)| is_told && *index == part).map(|(_, held)| held)
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
        self.held(part).ask_after(limit, self.now, before, cost)
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

impl<'l> Outcome<'l> {
    /// Without anything that a bucket says.
    pub(crate) const fn unknown(over: bool) -> Self {
        Self { over, ..Self::closed() }
    }

    /// Of a limit that is charged if it has room, or in any case.
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
        Self { answer: Some(answer), over, charged, standing: Standing::Below }
    }

    /// Of a limit that lets nothing through.
    #[inline(always)]
    pub(super) const fn closed() -> Self {
        Self { answer: None, over: true, charged: false, standing: Standing::Below }
    }
}
