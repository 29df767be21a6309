//! Several limits on one request: from rules to the parts that they have in a [`transaction`](crate::transaction), and
//! from what came of these to decisions.

use ratelimit_common::time::Now;
use smallvec::SmallVec;

use super::{
    MOST_INLINE,
    decision::{Decision, Outcome, longest},
    rule::BoundRule,
};
use crate::{
    store::{Charge, KeyHash, Limits, Store},
    transaction::{Act, Decided, Over, Part, Say, Terms, Transaction},
};

/// One limit to ask about a request: made by [`super::Limiter::ask`].
#[derive(Clone, Copy, Debug)]
pub struct Ask<'l> {
    pub(super) bound: &'l BoundRule,
    pub(super) hash: KeyHash,
    pub(super) cost: u32,
}

impl<'l> Ask<'l> {
    #[inline]
    pub(super) const fn charge(&self, now: Now) -> Charge<'l> {
        let BoundRule { account, ref limit, .. } = *self.bound;
        Charge { account, hash: self.hash, limit, now, cost: self.cost }
    }

    pub(super) fn observes(&self) -> bool {
        self.bound.rule.observes()
    }

    #[inline]
    fn part(&self) -> Part<'l> {
        let BoundRule { account, ref limit, .. } = *self.bound;
        let say = if self.observes() { Say::Observes } else { Say::Decides };
        Part {
            account,
            hash: self.hash,
            limit,
            cost: self.cost,
            act: if self.stands_alone() { Act::Charge } else { Act::ChargeIfAdmitted },
            say,
            over: Over::Denied,
            soft: None,
        }
    }

    /// Whether it is charged whatever other limits say.
    fn stands_alone(&self) -> bool {
        !self.observes() && self.bound.limit.always_charges()
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
    // Filled in place: they are large.
    let mut parts: SmallVec<[Part<'l>; MOST_INLINE]> = SmallVec::new();
    for ask in asks {
        parts.push(ask.part());
    }
    let terms = Terms { now, passes_all: false, has_open_quota: false };
    let mut decided = Decided::none(&terms);
    Transaction { store, limits, crossings: None, terms }.judge(&parts, &mut decided, present);
    let mut outcome = Outcome { decisions: SmallVec::new(), again: None };
    for (ask, of_ask) in asks.iter().zip(&decided.outcomes) {
        outcome.decisions.push(Decision::of(of_ask, ask.bound));
    }
    if !decided.admitted && (decided.shares_buckets() || asks.iter().any(Ask::stands_alone)) {
        outcome.again = again(asks, &parts, &decided);
    }
    outcome
}

/// Gives back what a request has taken.
pub(super) fn refund<S: Store>(store: &S, limits: &Limits, asks: &[Ask<'_>], present: impl Fn() -> Now) {
    let refunds = asks.iter().map(|ask| Part { act: Act::Refund, ..ask.part() });
    let refunds: SmallVec<[Part<'_>; MOST_INLINE]> = refunds.collect();
    let terms = Terms { now: present(), passes_all: false, has_open_quota: false };
    let mut decided = Decided::none(&terms);
    Transaction { store, limits, crossings: None, terms }.judge(&refunds, &mut decided, present);
}

/// The longest wait of the same request for a limit that does not say it itself: it has been charged, or is asked more
/// than once.
fn again<'l>(asks: &[Ask<'l>], parts: &[Part<'l>], decided: &Decided<'l>) -> Option<Decision<'l>> {
    let before = decided.taken_before(parts);
    let denied = (0..asks.len()).filter(|&index| !asks[index].observes()).filter_map(|index| {
        let ask = &asks[index];
        let is_said = before[index] == 0 && !ask.stands_alone();
        let answer = || decided.ask_after(index, &ask.bound.forgiving, before[index], ask.cost.max(1));
        let answer = (!is_said).then(answer)?;
        (!answer.allowed).then(|| Decision::new(answer, ask.bound))
    });
    longest(denied)
}
