//! From the states of all buckets and one time to what each limit says, and the states that follow. Nothing else goes in.

use ratelimit_common::{
    limit::Limit,
    time::{Nanos, Now},
};
use smallvec::{SmallVec, smallvec};

use super::{Act, Held, MOST_INLINE, Over, Part, Say, Snapshot, Standing, Terms, soft};
use crate::{policy::SoftLimit, store::Answer};

/// What came of one part.
#[derive(Clone, Debug)]
pub(crate) struct Outcome<'l> {
    /// `None` of a limit that lets nothing through.
    pub(crate) answer: Option<Answer<'l>>,
    pub(crate) over: bool,
    pub(crate) charged: bool,
    pub(crate) standing: Standing,
    /// Of one that is over and above its soft limit: the bucket as it was then.
    pub(crate) then: Option<Box<Held>>,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(crate) struct Decided<'l> {
    pub(crate) outcomes: SmallVec<[Outcome<'l>; MOST_INLINE]>,
    /// Whether no limit denies it.
    pub(crate) admitted: bool,
    /// The buckets as they are then. None if one limit was charged in its store, or if a simple request passes.
    pub(crate) buckets: SmallVec<[Held; MOST_INLINE]>,
    /// Crossings of soft limits, as they are to be kept.
    pub(super) crossings: Vec<Crossing>,
    pub(super) of_part: SmallVec<[usize; MOST_INLINE]>,
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
    let mut deciding = Deciding { terms, parts, snapshot, decided };
    if deciding.takes_all() {
        deciding.decided.admitted = true;
        return;
    }
    deciding.begin();
    for index in 0..parts.len() {
        deciding.decided.outcomes[index] = deciding.first(index);
    }
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
    fn begin(&mut self) {
        self.decided.begin(self.snapshot);
        self.decided.outcomes.clear();
        for _ in self.parts {
            self.decided.outcomes.push(Outcome::closed());
        }
    }

    /// Charges all limits without asking them first, as long as none is over that has a say; false if one is. Where all
    /// there is to do is to charge, a limit that has room then had room before as well.
    fn takes_all(&mut self) -> bool {
        if !self.parts.iter().all(Part::is_plain) {
            return false;
        }
        self.begin();
        for turn in 0..Part::TURNS {
            for (index, part) in self.parts.iter().enumerate().filter(|(_, part)| part.turn() == turn) {
                self.decided.outcomes[index] = self.charge(index);
                if self.decided.outcomes[index].over && part.say != Say::Observes {
                    return false;
                }
            }
        }
        true
    }

    /// Does what is done in any case, and asks the rest.
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
        let then = is_told.then(|| Box::new(self.held(index).clone()));
        Outcome { answer: Some(answer), over, charged, standing, then }
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
pub(crate) fn is_over(terms: &Terms, parts: &[Part<'_>], outcomes: &[Outcome<'_>]) -> bool {
    let of = |say: Say| parts.iter().zip(outcomes).filter(move |(part, _)| part.say == say);
    let mut quotas = of(Say::Quota).map(|(_, outcome)| outcome.over).peekable();
    of(Say::Decides).any(|(_, outcome)| outcome.over)
        || (!terms.has_open_quota && quotas.peek().is_some() && quotas.all(|over| over))
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
    pub(crate) fn none(terms: &Terms) -> Self {
        Self {
            outcomes: SmallVec::new(),
            admitted: false,
            buckets: SmallVec::new(),
            crossings: Vec::new(),
            of_part: SmallVec::new(),
            now: terms.now,
        }
    }

    /// With the buckets as they were gathered.
    #[inline]
    fn begin(&mut self, snapshot: &Snapshot) {
        self.buckets.clear();
        for held in &snapshot.buckets {
            self.buckets.push(held.clone());
        }
        self.crossings.clear();
        if self.of_part.is_empty() {
            self.of_part.extend_from_slice(&snapshot.of_part);
        }
    }

    /// The bucket of a part.
    pub(crate) fn held(&self, part: usize) -> &Held {
        &self.buckets[self.of_part[part]]
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

impl Outcome<'_> {
    /// Without anything that a bucket says.
    pub(crate) fn unknown(over: bool) -> Self {
        let mut outcome = Self::closed();
        outcome.over = over;
        outcome
    }

    /// Of a limit that lets nothing through.
    #[inline(always)]
    pub(super) const fn closed() -> Self {
        Self { answer: None, over: true, charged: false, standing: Standing::Below, then: None }
    }
}
