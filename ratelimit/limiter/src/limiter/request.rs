//! Several limits on one request, all or nothing.
//!
//! A request is denied if a limit denies it, and then no limit is charged, except those that count denied requests: they
//! are charged whatever the others say. The others are all asked first and charged only if each of them allows it. If
//! another thread took the last units between asking and charging, what was charged is given back: meanwhile it may have
//! denied others, but it has admitted none. Limits that observe are charged last, for requests that pass.

use ratelimit_common::time::Now;

use super::{
    decision::{Decision, Outcome, longest},
    rule::Bound,
};
use crate::store::{Charge, KeyHash, Limits, Store};

/// One limit to ask about a request: made by [`super::Limiter::ask`].
#[derive(Clone, Copy, Debug)]
pub struct Ask<'l> {
    pub(super) bound: &'l Bound,
    pub(super) hash: KeyHash,
    pub(super) cost: u32,
}

impl<'l> Ask<'l> {
    pub(super) const fn charge(&self, now: Now) -> Charge<'l> {
        let Bound { account, ref limit, .. } = *self.bound;
        Charge { account, hash: self.hash, limit, now, cost: self.cost }
    }

    pub(super) fn observes(&self) -> bool {
        self.bound.rule.observes()
    }

    /// Whether it is charged whatever other limits say.
    fn stands_alone(&self) -> bool {
        !self.observes() && self.bound.limit.counts_denied()
    }

    /// Whether it is charged only if all allow the request.
    fn is_tentative(&self) -> bool {
        !self.observes() && !self.bound.limit.counts_denied()
    }
}

/// Judges a request. `present` reads the clock, for giving back.
pub(super) fn judge<'l, S: Store>(
    store: &S,
    limits: &Limits,
    asks: &[Ask<'l>],
    now: Now,
    present: impl Fn() -> Now,
) -> Outcome<'l> {
    let decisions = asks.iter().map(|_| Decision::UNLIMITED).collect();
    let mut request = Request { store, limits, asks, now, outcome: Outcome { decisions, again: None } };
    request.charge(Ask::stands_alone);
    request.ask(Ask::is_tentative);
    if request.outcome.allowed() {
        request.charge_tentatively(present);
    }
    if request.outcome.allowed() {
        request.charge(Ask::observes);
    } else {
        request.ask(Ask::observes);
        request.outcome.again = request.again();
    }
    request.outcome
}

struct Request<'a, 'l, S> {
    store: &'a S,
    limits: &'a Limits,
    asks: &'a [Ask<'l>],
    now: Now,
    outcome: Outcome<'l>,
}

impl<'a, 'l, S: Store> Request<'a, 'l, S> {
    fn charge(&mut self, chosen: fn(&Ask<'l>) -> bool) {
        for index in self.indices(chosen) {
            self.charge_one(index);
        }
    }

    fn ask(&mut self, chosen: fn(&Ask<'l>) -> bool) {
        for index in self.indices(chosen) {
            self.ask_one(index);
        }
    }

    /// Charges the limits that were asked; if one denies it after all, gives back what those before it took.
    fn charge_tentatively(&mut self, present: impl Fn() -> Now) {
        let denied = self.indices(Ask::is_tentative).find(|&index| !self.charge_one(index));
        let Some(denied) = denied else { return };
        let later = present().max(self.now);
        for index in self.indices(Ask::is_tentative).take_while(|&index| index < denied) {
            self.store.undo(self.limits, &self.asks[index].charge(self.now), later);
            self.ask_one(index);
        }
    }

    fn charge_one(&mut self, index: usize) -> bool {
        let ask = &self.asks[index];
        let answer = self.store.charge(self.limits, &ask.charge(self.now));
        self.outcome.decisions[index] = Decision::new(answer, ask.bound);
        answer.allowed
    }

    fn ask_one(&mut self, index: usize) {
        let ask = &self.asks[index];
        let answer = self.store.ask(self.limits, &ask.charge(self.now));
        self.outcome.decisions[index] = Decision::new(answer, ask.bound);
    }

    /// The longest wait of the same request for a limit that does not say it itself: it has been charged, or is asked more
    /// than once.
    fn again(&self) -> Option<Decision<'l>> {
        let denied = self.indices(|ask| !ask.observes()).filter_map(|index| {
            let ask = &self.asks[index];
            let before = self.taken_before(index);
            let is_said = before == 0 && !ask.stands_alone();
            let cost = before.saturating_add(ask.cost.max(1));
            let charge = Charge { limit: &ask.bound.forgiving, cost, ..ask.charge(self.now) };
            let answer = (!is_said).then(|| self.store.ask(self.limits, &charge))?;
            (!answer.allowed).then(|| Decision::new(answer, ask.bound))
        });
        longest(denied)
    }

    /// What the request takes from the same bucket before it is asked.
    fn taken_before(&self, index: usize) -> u32 {
        let bucket = |ask: &Ask<'_>| (ask.bound.account, ask.hash);
        let (before, ask) = (&self.asks[..index], &self.asks[index]);
        let same = before.iter().filter(|other| bucket(other) == bucket(ask));
        same.fold(0, |taken, other| taken.saturating_add(other.cost))
    }

    fn indices(&self, chosen: fn(&Ask<'l>) -> bool) -> impl Iterator<Item = usize> + use<'a, 'l, S> {
        let asks = self.asks;
        (0..asks.len()).filter(move |&index| chosen(&asks[index]))
    }
}
