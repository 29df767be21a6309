//! From the states of all buckets and one time to what each limit says, and the states that follow. Nothing else goes
//! in.

use ratelimit_common::time::Nanos;

use super::{
    Act, BucketSnapshot, Decided, Over, Part, PartOutcome, Say, Snapshot, SoftLimitState, Terms, soft,
};
use crate::{policy::SoftLimit, store::Answer};

/// What becomes of a key's crossing of its soft limit.
#[derive(Clone, Copy, Debug)]
pub(super) enum CrossingChange {
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
            self.decided.outcomes.push(PartOutcome::closed());
            if part.act == Act::ChargeIfAdmitted && part.is_plain() {
                // What [`Self::first`] does, in place.
                let now = self.terms.now;
                let answer = self.bucket_state(index).ask(part.limit, now, part.cost);
                let outcome = &mut self.decided.outcomes[index];
                (outcome.answer, outcome.over) = (Some(answer), part.is_over(&answer));
            } else {
                self.decided.outcomes[index] = self.first(index);
            }
        }
    }

    /// Does what is done in any case, and asks the rest.
    #[inline(never)]
    fn first(&mut self, index: usize) -> PartOutcome<'l> {
        let part = self.part(index);
        match part.act {
            _ if part.over == Over::Closed => PartOutcome::closed(),
            Act::Charge => self.charge(index),
            Act::Report => self.report(index),
            Act::Refund => self.refund(index),
            // Whether it is over shows when it has been refunded.
            Act::RefundIfAdmitted => PartOutcome { over: false, ..self.ask(index) },
            Act::Ask => {
                // Who asks again and again must not bring about all the work of a debt each time.
                let now = self.terms.now;
                self.bucket_state(index).state.settle(part.limit, now);
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

    fn ask(&mut self, index: usize) -> PartOutcome<'l> {
        let part = self.part(index);
        let now = self.terms.now;
        let answer = self.bucket_state(index).ask(part.limit, now, part.asked());
        // What is given back is no use.
        let soft_state = if part.gives_back() { SoftLimitState::Below } else { self.soft_state(index) };
        let over = part.is_over(&answer) || soft_state == SoftLimitState::TooLong;
        self.outcome(index, answer, soft_state, (over, false))
    }

    /// Charges a limit that has room, or one that is charged in any case.
    #[inline]
    fn charge(&mut self, index: usize) -> PartOutcome<'l> {
        let part = self.part(index);
        let soft_state = self.soft_state(index);
        if soft_state == SoftLimitState::TooLong && part.act != Act::Charge {
            return self.ask(index);
        }
        let now = self.terms.now;
        let answer = self.bucket_state(index).state.charge(part.limit, now, part.cost);
        let over = part.is_over(&answer);
        if soft_state == SoftLimitState::Above && !over {
            self.note(index, &answer);
        }
        let over = over || soft_state == SoftLimitState::TooLong;
        self.outcome(index, answer, soft_state, (over, part.act == Act::Charge || !over))
    }

    /// Charges what is known afterwards. Nothing is denied any more, by a soft limit neither.
    fn report(&mut self, index: usize) -> PartOutcome<'l> {
        let part = self.part(index);
        let (now, soft_state) = (self.terms.now, self.soft_state(index));
        let answer = self.bucket_state(index).state.report(part.limit, now, part.cost);
        if soft_state != SoftLimitState::Below {
            self.note(index, &answer);
        }
        let soft_state = if soft_state == SoftLimitState::Above { soft_state } else { SoftLimitState::Below };
        self.outcome(index, answer, soft_state, (false, true))
    }

    /// Notes that use is above the soft limit.
    fn note(&mut self, index: usize, answer: &Answer<'l>) {
        let now = self.terms.now;
        self.bucket_state(index).above_since.get_or_insert(now);
        let (key, reset_after) = (self.part(index).key(), answer.decision().reset_after());
        self.decided.crossings.push(CrossingChange::Noted { key, reset_after });
    }

    fn refund(&mut self, index: usize) -> PartOutcome<'l> {
        let part = self.part(index);
        let now = self.terms.now;
        self.bucket_state(index).state.refund(part.limit, now, part.cost);
        self.ask(index)
    }

    /// Where the request stands towards the soft limit, before it is charged.
    #[inline]
    fn soft_state(&mut self, index: usize) -> SoftLimitState {
        self.part(index).soft.map_or(SoftLimitState::Below, |soft| self.standing_towards(index, soft))
    }

    fn standing_towards(&mut self, index: usize, soft: SoftLimit) -> SoftLimitState {
        let part = self.part(index);
        let now = self.terms.now;
        let bucket_state = self.bucket_state(index);
        let used = bucket_state.ask(part.limit, now, 0).decision().used();
        if used < soft.limit.get() && bucket_state.above_since.take().is_some() {
            self.decided.crossings.push(CrossingChange::Forgotten { key: part.key() });
        }
        // A request that only asks is told what one that takes a unit would be.
        soft::soft_state(
            self.bucket_state(index).above_since,
            soft,
            used.saturating_add(part.cost.max(1).into()),
            now,
        )
    }

    #[inline(always)]
    fn outcome(
        &mut self,
        index: usize,
        answer: Answer<'l>,
        soft_state: SoftLimitState,
        (over, charged): (bool, bool),
    ) -> PartOutcome<'l> {
        let is_told = over && soft_state != SoftLimitState::Below;
        if is_told {
            let then = self.bucket_state(index).clone();
            self.decided.softened.push((index, then));
        }
        PartOutcome { answer: Some(answer), over, charged, soft_state }
    }

    #[inline]
    fn bucket_state(&mut self, index: usize) -> &mut BucketSnapshot {
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
pub(crate) fn is_over(terms: &Terms, parts: &[Part<'_>], outcomes: &[PartOutcome<'_>]) -> bool {
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
