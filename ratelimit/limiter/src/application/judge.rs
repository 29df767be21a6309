//! One decision about a request under several limits.
//!
//! Limits that count denied requests are charged whatever the others say. The others are asked first, and charged only if
//! no limit that decides denies the request; what was charged is given back if somebody else took the last units in
//! between. Hits that a request gives back go the same two ways, to the others after all charges. Limits in shadow mode
//! never decide; those in quota mode only if all of them are over, which an unlimited one never is.

use ratelimit_common::time::Now;
use smallvec::SmallVec;

use super::{
    book::Rule,
    bucket::{Bucket, Verdict},
    soft::{Crossings, Standing},
};
use crate::store::{Charge, KeyHash, Limits, MemoryStore, Store as _};

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
    /// Whether it takes more hits than any limit lets through at once.
    pub(super) is_excessive: bool,
    /// Whether the hits are given back.
    pub(super) refunds: bool,
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

pub(super) type Outcomes = SmallVec<[Outcome; MOST_INLINE]>;

impl Ask<'_> {
    pub(super) fn charge(&self, hits: u32, now: Now) -> Charge<'_> {
        let Bucket { account, ref limit, .. } = self.bucket;
        Charge { account, hash: self.hash, limit, now, cost: hits }
    }

    /// Whether it is charged if the request passes, and only then.
    pub(super) fn is_tentative(&self) -> bool {
        !self.refunds && self.depends_on_others()
    }

    /// Whether it gets hits back if the request passes, and only then: who is denied asks again, and again.
    pub(super) fn is_tentative_refund(&self) -> bool {
        self.refunds && self.depends_on_others()
    }

    fn depends_on_others(&self) -> bool {
        self.hits > 0 && !self.is_excessive && !self.bucket.is_closed() && !self.bucket.stands_alone()
    }

    pub(super) fn key(&self) -> u64 {
        self.bucket.account.identity(self.hash)
    }

    /// Which of several goes first: by the rules' order, then by the request's.
    pub(super) fn order(&self) -> (u32, usize) {
        (self.rule.map_or(u32::MAX, |rule| rule.identity.order), self.descriptor)
    }
}

/// Whether the request is denied: by a limit that decides, or by all that are in quota mode.
pub(super) fn is_denied(asks: &[Ask<'_>], outcomes: &[Outcome]) -> bool {
    let over = |(ask, outcome): &(&Ask<'_>, &Outcome)| outcome.verdict.over && !ask.shadow;
    let pairs = || asks.iter().zip(outcomes);
    pairs().any(|pair| over(&pair) && !pair.0.quota) || is_over_quota(asks, outcomes)
}

/// Whether all limits in quota mode are over, and there are some.
fn is_over_quota(asks: &[Ask<'_>], outcomes: &[Outcome]) -> bool {
    let mut quotas = asks.iter().zip(outcomes).filter(|(ask, _)| ask.quota).peekable();
    quotas.peek().is_some() && quotas.all(|(_, outcome)| outcome.verdict.over) && !are_quotas_open(asks)
}

/// Whether there is a limit in quota mode that never denies, so that quotas are never all over.
pub(super) fn are_quotas_open(asks: &[Ask<'_>]) -> bool {
    asks.iter().any(|ask| ask.quota && (ask.shadow || ask.has_open_quota))
}

impl Court<'_> {
    /// Judges a request; `present` reads the clock, for giving back.
    pub(super) fn judge(&self, asks: &[Ask<'_>], present: impl Fn() -> Now) -> Outcomes {
        if let [ask] = asks
            && ask.is_tentative()
        {
            return SmallVec::from_iter([self.charge(ask)]);
        }
        let mut outcomes: Outcomes = asks.iter().map(|ask| self.first(ask)).collect();
        if self.denies(asks, &outcomes) {
            return outcomes;
        }
        if !self.charge_all(asks, &mut outcomes) || !self.refund_all(asks, &mut outcomes) {
            self.give_back(asks, &mut outcomes, present().max(self.now));
        }
        outcomes
    }

    /// Charges what is charged if the request passes; false if it does not any more.
    fn charge_all(&self, asks: &[Ask<'_>], outcomes: &mut [Outcome]) -> bool {
        for shadow in [false, true] {
            for (index, ask) in asks.iter().enumerate() {
                let is_due = ask.is_tentative() && ask.shadow == shadow && !outcomes[index].verdict.over;
                if !is_due {
                    continue;
                }
                outcomes[index] = self.charge(ask);
                if !outcomes[index].charged && self.denies(asks, outcomes) {
                    return false;
                }
            }
        }
        true
    }

    /// Refunds what is refunded if the request passes; false if it does not, since a limit is over all the same.
    fn refund_all(&self, asks: &[Ask<'_>], outcomes: &mut [Outcome]) -> bool {
        let mut is_over = false;
        for (ask, outcome) in asks.iter().zip(&mut *outcomes).filter(|(ask, _)| ask.is_tentative_refund()) {
            *outcome = self.refund(ask);
            is_over |= outcome.verdict.over;
        }
        !is_over || !self.denies(asks, outcomes)
    }

    fn denies(&self, asks: &[Ask<'_>], outcomes: &[Outcome]) -> bool {
        !self.passes_all && is_denied(asks, outcomes)
    }

    /// Charges what is charged in any case, and asks the rest.
    fn first(&self, ask: &Ask<'_>) -> Outcome {
        let bucket = &ask.bucket;
        if bucket.is_closed() {
            return Outcome { verdict: Bucket::CLOSED, charged: false };
        }
        if ask.is_excessive {
            let outcome = if bucket.stands_alone() { self.charge(ask) } else { self.ask(ask, ask.hits) };
            return Outcome { verdict: outcome.verdict.forever(), ..outcome };
        }
        if ask.is_tentative_refund() {
            let verdict = self.ask(ask, 0).verdict;
            // Whether it is over shows when it has been refunded.
            return Outcome {
                verdict: Verdict { over: false, wait: None, never: false, ..verdict },
                charged: false,
            };
        }
        if ask.refunds {
            return self.refund(ask);
        }
        match ask.hits {
            0 => self.ask(ask, 0),
            _ if bucket.stands_alone() => self.charge(ask),
            hits => self.ask(ask, hits),
        }
    }

    fn refund(&self, ask: &Ask<'_>) -> Outcome {
        self.store.refund(self.limits, &ask.charge(ask.hits, self.now));
        self.ask(ask, 0)
    }

    fn ask(&self, ask: &Ask<'_>, hits: u32) -> Outcome {
        let answer = self.store.ask(self.limits, &ask.charge(hits, self.now));
        let mut verdict = ask.bucket.verdict(&answer.decision(), hits);
        // What is given back is no use.
        if !ask.refunds {
            self.soften(ask, &mut verdict);
        }
        Outcome { verdict, charged: false }
    }

    /// Charges a limit that has room, or one that counts in any case.
    fn charge(&self, ask: &Ask<'_>) -> Outcome {
        let standing = self.standing(ask);
        if standing == Standing::TooLong && !ask.bucket.stands_alone() {
            return self.ask(ask, ask.hits);
        }
        let answer = self.store.charge(self.limits, &ask.charge(ask.hits, self.now));
        let mut verdict = ask.bucket.verdict(&answer.decision(), ask.hits);
        if standing == Standing::Above && !verdict.over {
            self.crossings.note(ask.key(), self.now, verdict.reset_after);
        }
        self.apply(standing, ask, &mut verdict);
        Outcome { verdict, charged: ask.bucket.stands_alone() || !verdict.over }
    }

    /// Where the request stands towards the soft limit, before it is charged.
    fn standing(&self, ask: &Ask<'_>) -> Standing {
        let Some(soft) = ask.bucket.soft else { return Standing::Below };
        let answer = self.store.ask(self.limits, &ask.charge(0, self.now));
        let used = answer.decision().used();
        // A request that only asks is told what one that takes a unit would be.
        self.crossings.standing(ask.key(), soft, used, ask.hits.max(1).into(), self.now)
    }

    fn soften(&self, ask: &Ask<'_>, verdict: &mut Verdict) {
        let standing = self.standing(ask);
        self.apply(standing, ask, verdict);
    }

    fn apply(&self, standing: Standing, ask: &Ask<'_>, verdict: &mut Verdict) {
        let is_over = verdict.over || standing == Standing::TooLong;
        verdict.soft = standing == Standing::Above && !is_over;
        if standing == Standing::Below || !is_over || verdict.never {
            return;
        }
        // One that counts denied requests has been charged, so what it says now is true of the next one.
        let wait = self.opening(ask, 0).wait();
        let reset_after =
            wait.filter(|_| !ask.bucket.is_window()).map_or(verdict.reset_after, |wait| wait.exact);
        *verdict = Verdict { over: true, remaining: 0, reset_after, wait, never: wait.is_none(), ..*verdict };
    }

    /// Takes back what was charged in vain.
    fn give_back(&self, asks: &[Ask<'_>], outcomes: &mut [Outcome], later: Now) {
        for (ask, outcome) in asks.iter().zip(outcomes) {
            if ask.is_tentative() && outcome.charged {
                self.store.undo(self.limits, &ask.charge(ask.hits, self.now), later);
                *outcome = self.ask(ask, ask.hits);
            }
        }
    }
}
