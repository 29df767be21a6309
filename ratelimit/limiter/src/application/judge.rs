//! Several limits on one request: from rules to the parts that they have in a [`transaction`](crate::transaction), and
//! from what came of these to verdicts.
//!
//! Limits in shadow mode never decide; those in quota mode only if all of them are over, which an unlimited one never is.

use ratelimit_common::time::Now;
use smallvec::SmallVec;

use super::{
    book::Rule,
    bucket::{Bucket, Verdict},
    wait::Opening,
};
use crate::{
    store::{KeyHash, Limits, MemoryStore},
    transaction::{
        self, Act, Crossings, Decided, Held, Over, Part, Say, Standing, Terms, Transaction, is_over,
    },
};

/// A request with more limits than this allocates memory.
pub(super) const MOST_INLINE: usize = 4;

/// One limit to ask.
#[derive(Clone, Debug)]
pub(super) struct Ask<'g> {
    /// Which descriptor it is about.
    pub(super) descriptor: usize,
    /// `None` if the request brought the limit.
    pub(super) rule: Option<&'g Rule>,
    pub(super) bucket: Bucket,
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
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) charged: bool,
}

pub(super) type Parts<'a> = SmallVec<[Part<'a>; MOST_INLINE]>;

pub(super) type Outcomes = SmallVec<[Outcome; MOST_INLINE]>;

/// What limits are asked with.
#[derive(Clone, Copy)]
pub(super) struct Court<'g> {
    pub(super) store: &'g MemoryStore,
    pub(super) limits: &'g Limits,
    pub(super) crossings: &'g Crossings,
    pub(super) now: Now,
    /// Whether requests pass whatever limits say.
    pub(super) passes_all: bool,
}

/// A request that was judged.
pub(super) struct Judged<'a, 'g> {
    pub(super) asks: &'a [Ask<'g>],
    pub(super) outcomes: Outcomes,
    /// Whether a limit that decides is over, or all that are in quota mode, whatever becomes of it.
    pub(super) is_over: bool,
    pub(super) now: Now,
    parts: Parts<'a>,
    decided: Decided<'a>,
}

impl Ask<'_> {
    fn part(&self) -> Part<'_> {
        let Bucket { account, ref limit, soft, .. } = self.bucket;
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
        let stands_alone = self.bucket.stands_alone();
        // What only counts denied requests was charged by each of them. A debt is what others have taken.
        let refunds_alone = self.reports || self.bucket.is_closed() || self.bucket.limit.counts_denied();
        match (self.refunds, self.hits) {
            (true, 0) => Act::Refund,
            (true, _) if refunds_alone => Act::Refund,
            (true, _) => Act::RefundIfAdmitted,
            (false, 0) => Act::Ask,
            (false, _) if self.reports => Act::Report,
            (false, _) if stands_alone => Act::Charge,
            (false, _) if self.is_excessive || self.bucket.is_closed() => Act::Ask,
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
        if self.bucket.is_closed() {
            Over::Closed
        } else if self.is_excessive && !self.bucket.overruns() {
            Over::Excessive
        } else if self.bucket.counts_all {
            Over::Counted(self.bucket.current.capacity)
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
pub(super) fn are_quotas_open(asks: &[Ask<'_>]) -> bool {
    asks.iter().any(|ask| ask.quota && (ask.shadow || ask.has_open_quota))
}

impl<'g> Court<'g> {
    /// Judges a request; `present` reads the clock, for giving back.
    pub(super) fn judge<'a>(&self, asks: &'a [Ask<'g>], present: impl Fn() -> Now) -> Judged<'a, 'g> {
        let Self { store, limits, crossings, now, passes_all } = *self;
        let parts = parts(asks);
        let terms = terms(asks, now, passes_all);
        let mut decided = Decided::none(&terms);
        Transaction { store, limits, crossings: Some(crossings), terms }.judge(&parts, &mut decided, present);
        Judged::new(asks, &terms, parts, decided)
    }
}

/// What each limit has to do with the request.
#[inline(always)]
pub(super) fn parts<'a>(asks: &'a [Ask<'_>]) -> Parts<'a> {
    asks.iter().map(Ask::part).collect()
}

/// What else decides about it.
#[inline(always)]
pub(super) fn terms(asks: &[Ask<'_>], now: Now, passes_all: bool) -> Terms {
    Terms { now, passes_all, has_open_quota: are_quotas_open(asks) }
}

impl<'a, 'g> Judged<'a, 'g> {
    /// From what came of each limit's part.
    #[inline(always)]
    pub(super) fn new(asks: &'a [Ask<'g>], terms: &Terms, parts: Parts<'a>, decided: Decided<'a>) -> Self {
        let now = terms.now;
        let outcome = |index: usize| of_outcome(&asks[index], &parts[index], &decided, index);
        let outcomes = (0..asks.len()).map(outcome).collect();
        let is_over = is_over(terms, &parts, &decided.outcomes);
        Judged { asks, outcomes, is_over, now, parts, decided }
    }
}

impl Judged<'_, '_> {
    /// A limit's bucket as it is after the request.
    pub(super) fn held(&self, ask: usize) -> &Held {
        self.decided.held(ask)
    }

    /// For each limit, what the request takes from the same bucket before it is asked.
    pub(super) fn taken_before(&self) -> SmallVec<[u32; transaction::MOST_INLINE]> {
        // Others are asked before anything is taken from them; of quotas, those that are over take nothing.
        let sees = |(part, ask): (&Part<'_>, &Ask<'_>)| {
            ask.bucket.stands_alone() || (part.act == Act::ChargeIfAdmitted && !ask.quota)
        };
        let before = self.decided.taken_before(&self.parts);
        let seen = self.parts.iter().zip(self.asks).map(sees);
        before.into_iter().zip(seen).map(|(before, sees)| if sees { before } else { 0 }).collect()
    }

    /// Whether it gets hits back if the request passes, and only then.
    pub(super) fn is_tentative_refund(&self, ask: usize) -> bool {
        self.parts[ask].act == Act::RefundIfAdmitted
    }
}

fn of_outcome(ask: &Ask<'_>, part: &Part<'_>, decided: &Decided<'_>, index: usize) -> Outcome {
    let outcome = &decided.outcomes[index];
    let Some(answer) = outcome.answer else {
        let verdict = if ask.reports { REPORTED_IN_VAIN } else { Bucket::CLOSED };
        return Outcome { verdict, charged: false };
    };
    let mut verdict = ask.bucket.verdict(&answer.decision(), if ask.refunds { 0 } else { ask.hits });
    if ask.reports {
        let soft = outcome.standing == Standing::Above;
        verdict = Verdict { over: false, wait: None, never: false, soft, ..verdict };
    } else if part.over == Over::Excessive {
        verdict = verdict.forever();
    } else if part.act == Act::RefundIfAdmitted && !outcome.over {
        verdict = Verdict { over: false, wait: None, never: false, ..verdict };
    } else {
        verdict.soft = outcome.standing == Standing::Above && !outcome.over;
        if let Some(then) = decided.then(index).filter(|_| !verdict.never) {
            soften(ask, then, decided.now(), &mut verdict);
        }
    }
    if outcome.charged && ask.bucket.overruns() {
        verdict.cut = verdict.cut.saturating_add(ask.uncounted);
    }
    Outcome { verdict, charged: outcome.charged }
}

/// Of a report to a limit that lets nothing through.
const REPORTED_IN_VAIN: Verdict = Verdict { over: false, never: false, ..Bucket::CLOSED };

/// What a soft limit that is over makes of what the limit says.
fn soften(ask: &Ask<'_>, then: &Held, now: Now, verdict: &mut Verdict) {
    // One that counts denied requests has been charged, so what it says now is true of the next one.
    let wait = Opening::of(ask, then, 0, now).wait();
    let reset_after = wait.filter(|_| !ask.bucket.is_window()).map_or(verdict.reset_after, |wait| wait.exact);
    *verdict = Verdict { over: true, remaining: 0, reset_after, wait, never: wait.is_none(), ..*verdict };
}
