//! One limit's part in a request: whose bucket, what it takes, and what it has to say.

use ratelimit_common::{
    limit::{Limit, StateKind},
    time::Now,
};

use crate::{
    policy::SoftLimit,
    store::{Account, Answer, Charge, KeyHash},
};

/// One limit's part in a request.
#[derive(Clone, Copy, Debug)]
pub struct Part<'l> {
    /// Whose rule's buckets in this process's memory.
    pub account: Account,
    /// The key there.
    pub hash: KeyHash,
    /// The limit.
    pub limit: &'l Limit,
    /// What it takes, or gives back.
    pub cost: u32,
    /// What it does to its bucket.
    pub act: Act,
    /// What it means if it is over.
    pub say: Say,
    /// When it is over.
    pub over: Over,
    /// The soft limit below it.
    pub soft: Option<SoftLimit>,
}

/// What a part does to its bucket, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Only asks.
    Ask,
    /// Takes, whatever others say.
    Charge,
    /// Takes as much as there is room for, and denies nothing.
    Report,
    /// Takes if the request passes.
    ChargeIfAdmitted,
    /// Gives back, whatever others say.
    Refund,
    /// Gives back if the request passes: who is denied asks again, and again.
    RefundIfAdmitted,
}

/// What a limit that is over means for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    /// It is denied.
    Decides,
    /// It is denied if all quotas are over.
    Quota,
    /// Nothing.
    Observes,
}

/// When a limit is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// If it does not allow the cost.
    Denied,
    /// If it has counted more than this.
    Counted(u64),
    /// Always, since no limit lets so much through at once.
    Excessive,
    /// Always, since it lets nothing through, and it keeps no count either.
    Closed,
}

impl<'l> Part<'l> {
    #[inline]
    pub(crate) const fn charge(&self, now: Now) -> Charge<'l> {
        Charge { account: self.account, hash: self.hash, limit: self.limit, now, cost: self.cost }
    }

    /// What the bucket is to be asked about.
    pub(super) const fn asked(&self) -> u32 {
        if self.gives_back() { 0 } else { self.cost }
    }

    /// Whether it gives back.
    #[must_use]
    pub const fn gives_back(&self) -> bool {
        matches!(self.act, Act::Refund | Act::RefundIfAdmitted)
    }

    /// Whether no state of its bucket would let it through.
    pub(crate) fn denies_always(&self) -> bool {
        let takes = matches!(self.act, Act::Ask | Act::Charge | Act::ChargeIfAdmitted);
        takes
            && match self.over {
                Over::Denied => !self.limit.can_hold(self.cost),
                Over::Counted(most) => u64::from(self.cost) > most,
                Over::Excessive | Over::Closed => true,
            }
    }

    /// The turns of all parts, as bits.
    #[inline(always)]
    pub(super) fn turns(parts: &[Self]) -> u32 {
        parts.iter().fold(0, |turns, part| turns | 1 << part.turn())
    }

    /// When it is stored, and charged: first what is in any case, last what only observes, and what is given back.
    #[inline(always)]
    pub(super) fn turn(&self) -> u32 {
        match self.act {
            Act::Ask | Act::Charge | Act::Report | Act::Refund => 0,
            Act::ChargeIfAdmitted if self.say != Say::Observes => 1,
            Act::ChargeIfAdmitted => 2,
            Act::RefundIfAdmitted => 3,
        }
    }

    /// Whether all there is to do is to charge it.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.act, Act::Charge | Act::ChargeIfAdmitted)
            && self.soft.is_none()
            && self.over != Over::Closed
    }

    /// The bucket as one number.
    pub(crate) const fn key(&self) -> u64 {
        self.account.identity(self.hash)
    }

    #[inline(always)]
    pub(super) fn is_about_same(&self, other: &Self) -> bool {
        (self.account, self.hash) == (other.account, other.hash)
    }

    /// Whether its limit has wider states than another's.
    pub(super) fn reads_more_than(&self, other: &Self) -> bool {
        self.limit.kind() == StateKind::WideSlidingCounter
            && other.limit.kind() != StateKind::WideSlidingCounter
    }

    #[inline]
    pub(super) fn is_over(&self, answer: &Answer<'_>) -> bool {
        match self.over {
            Over::Denied => !answer.allowed,
            Over::Counted(most) => used(*answer) > most,
            Over::Excessive | Over::Closed => true,
        }
    }
}

/// With its argument by value, so that an answer that is only asked whether it allows needs no memory.
#[inline(never)]
fn used(answer: Answer<'_>) -> u64 {
    answer.decision().used()
}
