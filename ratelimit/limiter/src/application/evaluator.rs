//! Several limits on one request: from rules to the parts that they have in a [`transaction`](crate::transaction), and
//! from what came of these to verdicts.
//!
//! Limits in shadow mode never decide; those in quota mode only if all of them are over, which an unlimited one never
//! is.

use ratelimit_common::time::Now;
use smallvec::SmallVec;

use super::{
    active_limit::{ActiveLimit, LimitVerdict},
    rule_tree::RequestRule,
    wait::Opening,
};
use crate::{
    store::{KeyHash, Limits, MemoryStore},
    transaction::{
        self, Act, BucketSnapshot, Crossings, Decided, Over, Part, Say, SoftLimitState, Terms, Transaction,
        is_over,
    },
};

/// A request with more limits than this allocates memory.
pub(super) const MOST_INLINE: usize = 4;

/// One limit that a request is checked against.
#[derive(Clone, Debug)]
pub(super) struct LimitCheck<'g> {
    /// Which descriptor it is about.
    pub(super) descriptor: usize,
    /// `None` if the request brought the limit.
    pub(super) rule: Option<&'g RequestRule>,
    pub(super) limit: ActiveLimit,
    pub(super) hash: KeyHash,
    /// 0 only asks.
    pub(super) hits: u32,
    /// Hits that can't even be counted.
    pub(super) uncounted: u64,
    /// Whether it takes more hits than any limit lets through at once.
    pub(super) is_excessive: bool,
    /// Whether the hits are given back.
    pub(super) refunds: bool,
    /// Whether the hits are taken already, and reported.
    pub(super) reports: bool,
    pub(super) shadow: bool,
    pub(super) quota: bool,
    /// Whether the request has a descriptor in quota mode that is unlimited, so that quotas are never all over.
    pub(super) has_open_quota: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckOutcome {
    pub(super) verdict: LimitVerdict,
    pub(super) charged: bool,
}

pub(super) type Parts<'a> = SmallVec<[Part<'a>; MOST_INLINE]>;

pub(super) type CheckOutcomes = SmallVec<[CheckOutcome; MOST_INLINE]>;

/// Checks requests against their limits: what that takes.
#[derive(Clone, Copy)]
pub(super) struct Evaluator<'g> {
    pub(super) store: &'g MemoryStore,
    pub(super) limits: &'g Limits,
    pub(super) crossings: &'g Crossings,
    pub(super) now: Now,
    /// Whether requests pass whatever limits say.
    pub(super) passes_all: bool,
}

/// A request that was judged.
pub(super) struct Evaluated<'a, 'g> {
    pub(super) checks: &'a [LimitCheck<'g>],
    pub(super) outcomes: CheckOutcomes,
    /// Whether a limit that decides is over, or all that are in quota mode, whatever becomes of it.
    pub(super) is_over: bool,
    pub(super) now: Now,
    parts: Parts<'a>,
    decided: Decided<'a>,
}

impl LimitCheck<'_> {
    fn part(&self) -> Part<'_> {
        let ActiveLimit { account, ref limit, soft, .. } = self.limit;
        Part {
            account,
            hash: self.hash,
            limit,
            cost: self.hits,
            act: self.act(),
            say: self.say(),
            over: self.over(),
            soft,
        }
    }

    fn act(&self) -> Act {
        let stands_alone = self.limit.stands_alone();
        // What only counts denied requests was charged by each of them. A debt is what others have taken.
        let refunds_alone = self.reports || self.limit.is_closed() || self.limit.limit.counts_denied();
        match (self.refunds, self.hits) {
            (true, 0) => Act::Refund,
            (true, _) if refunds_alone => Act::Refund,
            (true, _) => Act::RefundIfAdmitted,
            (false, 0) => Act::Ask,
            (false, _) if self.reports => Act::Report,
            (false, _) if stands_alone => Act::Charge,
            (false, _) if self.is_excessive || self.limit.is_closed() => Act::Ask,
            (false, _) => Act::ChargeIfAdmitted,
        }
    }

    const fn say(&self) -> Say {
        match (self.shadow, self.quota) {
            (true, _) => Say::Observes,
            (false, _) if self.reports => Say::Observes,
            (false, true) => Say::Quota,
            (false, false) => Say::Decides,
        }
    }

    const fn over(&self) -> Over {
        if self.limit.is_closed() {
            Over::Closed
        } else if self.is_excessive && !self.limit.overruns() {
            Over::Excessive
        } else if self.limit.counts_all {
            Over::Counted(self.limit.current.capacity)
        } else {
            Over::Denied
        }
    }

    /// Which of several goes first: by the rules' order, then by the request's.
    pub(super) fn order(&self) -> (u32, usize) {
        (self.rule.map_or(u32::MAX, |rule| rule.identity.order), self.descriptor)
    }
}

/// Whether there is a limit in quota mode that never denies, so that quotas are never all over.
pub(super) fn are_quotas_open(checks: &[LimitCheck<'_>]) -> bool {
    checks.iter().any(|check| check.quota && (check.shadow || check.has_open_quota))
}

impl<'g> Evaluator<'g> {
    /// Judges a request; `present` reads the clock, for giving back.
    pub(super) fn judge<'a>(
        &self,
        checks: &'a [LimitCheck<'g>],
        present: impl Fn() -> Now,
    ) -> Evaluated<'a, 'g> {
        let Self { store, limits, crossings, now, passes_all } = *self;
        let parts = parts(checks);
        let terms = terms(checks, now, passes_all);
        let mut decided = Decided::none(&terms);
        Transaction { store, limits, crossings: Some(crossings), terms }.judge(&parts, &mut decided, present);
        Evaluated::new(checks, &terms, parts, decided)
    }
}

/// What each limit has to do with the request.
#[inline(always)]
pub(super) fn parts<'a>(checks: &'a [LimitCheck<'_>]) -> Parts<'a> {
    checks.iter().map(LimitCheck::part).collect()
}

/// What else decides about it.
#[inline(always)]
pub(super) fn terms(checks: &[LimitCheck<'_>], now: Now, passes_all: bool) -> Terms {
    Terms { now, passes_all, has_open_quota: are_quotas_open(checks) }
}

impl<'a, 'g> Evaluated<'a, 'g> {
    /// From what came of each limit's part.
    #[inline(always)]
    pub(super) fn new(
        checks: &'a [LimitCheck<'g>],
        terms: &Terms,
        parts: Parts<'a>,
        decided: Decided<'a>,
    ) -> Self {
        let now = terms.now;
        let outcome = |index: usize| of_outcome(&checks[index], &parts[index], &decided, index);
        let outcomes = (0..checks.len()).map(outcome).collect();
        let is_over = is_over(terms, &parts, &decided.outcomes);
        Evaluated { checks, outcomes, is_over, now, parts, decided }
    }
}

impl Evaluated<'_, '_> {
    /// A limit's bucket as it is after the request.
    pub(super) fn bucket(&self, check: usize) -> &BucketSnapshot {
        self.decided.bucket(check)
    }

    /// For each limit, what the request takes from the same bucket before it is asked.
    pub(super) fn taken_before(&self) -> SmallVec<[u32; transaction::MOST_INLINE]> {
        // Others are asked before anything is taken from them; of quotas, those that are over take nothing.
        let sees = |(part, check): (&Part<'_>, &LimitCheck<'_>)| {
            check.limit.stands_alone() || (part.act == Act::ChargeIfAdmitted && !check.quota)
        };
        let before = self.decided.taken_before(&self.parts);
        let seen = self.parts.iter().zip(self.checks).map(sees);
        before.into_iter().zip(seen).map(|(before, sees)| if sees { before } else { 0 }).collect()
    }

    /// Whether it gets hits back if the request passes, and only then.
    pub(super) fn is_tentative_refund(&self, check: usize) -> bool {
        self.parts[check].act == Act::RefundIfAdmitted
    }
}

fn of_outcome(check: &LimitCheck<'_>, part: &Part<'_>, decided: &Decided<'_>, index: usize) -> CheckOutcome {
    let outcome = &decided.outcomes[index];
    let Some(answer) = outcome.answer else {
        let verdict = if check.reports { REPORTED_IN_VAIN } else { ActiveLimit::CLOSED };
        return CheckOutcome { verdict, charged: false };
    };
    let mut verdict = check.limit.verdict(&answer.decision(), if check.refunds { 0 } else { check.hits });
    if check.reports {
        let soft = outcome.soft_state == SoftLimitState::Above;
        verdict = LimitVerdict { over: false, wait: None, never: false, soft, ..verdict };
    } else if part.over == Over::Excessive {
        verdict = verdict.forever();
    } else if part.act == Act::RefundIfAdmitted && !outcome.over {
        verdict = LimitVerdict { over: false, wait: None, never: false, ..verdict };
    } else {
        verdict.soft = outcome.soft_state == SoftLimitState::Above && !outcome.over;
        if let Some(then) = decided.then(index).filter(|_| !verdict.never) {
            soften(check, then, decided.now(), &mut verdict);
        }
    }
    if outcome.charged && check.limit.overruns() {
        verdict.cut = verdict.cut.saturating_add(check.uncounted);
    }
    CheckOutcome { verdict, charged: outcome.charged }
}

/// The verdict on a report to a limit that lets nothing through.
const REPORTED_IN_VAIN: LimitVerdict = LimitVerdict { over: false, never: false, ..ActiveLimit::CLOSED };

/// What a soft limit that is over makes of what the limit says.
fn soften(check: &LimitCheck<'_>, then: &BucketSnapshot, now: Now, verdict: &mut LimitVerdict) {
    // One that counts denied requests has been charged, so what it says now is true of the next one.
    let wait = Opening::of(check, then, 0, now).wait();
    let reset_after =
        wait.filter(|_| !check.limit.is_window()).map_or(verdict.reset_after, |wait| wait.exact);
    *verdict =
        LimitVerdict { over: true, remaining: 0, reset_after, wait, never: wait.is_none(), ..*verdict };
}
