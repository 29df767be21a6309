//! One packet against one rule's bucket: asking, charging, giving back, with a bounded number of tries.

use super::{Hooks, PacketContext};
use crate::{
    table::{self, Attempt, BucketRequest, Table},
    verifier::opaque,
};

/// What one try came to. A number, because functions that the kernel verifies once return nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct BucketResult(u64);

impl BucketResult {
    /// Somebody else was at the bucket: no answer yet.
    pub const DISTURBED: Self = Self(0);
    /// The rule allows the packet.
    pub const ALLOWED: Self = Self(1);
    /// It does not.
    pub const DENIED: Self = Self(2);
    /// There is no bucket; it would allow.
    pub const ALLOWED_NEW: Self = Self(3);
    /// No answer yet, and if there is no bucket, it must be paid for before it is made.
    const UNPAID: Self = Self(4);

    /// The one with this number.
    #[must_use]
    #[inline(always)]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    #[inline(always)]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Opaque, so that what follows from it is one of two constants and not the answer itself.
    #[inline(always)]
    fn is(self, other: Self) -> bool {
        opaque(self.0) == other.0
    }
}

/// What may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketOp {
    /// Charge it; one that is not there is made.
    Charge,
    /// Charge it if it is there.
    ChargeKnown,
    /// Ask it without charging.
    Ask,
    /// Give back what was charged.
    GiveBack,
}

/// At most this many tries: a processor that meets others at a slot more often than that denies its packet.
const TRIES: u64 = 8;

/// Charges the bucket of the rule at `index`.
#[inline(always)]
pub fn charge<H: Hooks>(hooks: H, context: &PacketContext, index: u64) -> bool {
    repeat(hooks, index, |answer| charge_once(hooks, context, index, answer)) == BucketResult::ALLOWED
}

/// Asks it without charging.
#[inline(always)]
pub(super) fn ask<H: Hooks>(hooks: H, context: &PacketContext, index: u64) -> bool {
    repeat(hooks, index, |answer| ask_once(hooks, context, index, answer)) == BucketResult::ALLOWED
}

/// Gives back what [`charge`] took.
#[inline(always)]
pub(super) fn give_back<H: Hooks>(hooks: H, context: &PacketContext, index: u64) {
    repeat(hooks, index, |_| hooks.attempt(BucketOp::GiveBack, context, index));
}

/// Tries until there is an answer. Each try is told what the one before came to.
#[inline(always)]
fn repeat<H: Hooks>(hooks: H, index: u64, attempt: impl Fn(BucketResult) -> BucketResult) -> BucketResult {
    let is_capped = hooks.rule(index).new_sources != 0;
    let mut answer = if is_capped { BucketResult::UNPAID } else { BucketResult::DISTURBED };
    // Hidden, so that it stays a loop.
    let mut left = opaque(TRIES);
    while left != 0 {
        answer = attempt(answer);
        if !answer.is(BucketResult::DISTURBED) && !answer.is(BucketResult::UNPAID) {
            return answer;
        }
        left -= 1;
    }
    hooks.on_exhausted_tries();
    answer
}

#[inline(always)]
fn charge_once<H: Hooks>(
    hooks: H,
    context: &PacketContext,
    index: u64,
    before: BucketResult,
) -> BucketResult {
    if !before.is(BucketResult::UNPAID) {
        return hooks.attempt(BucketOp::Charge, context, index);
    }
    let answer = hooks.attempt(BucketOp::ChargeKnown, context, index);
    if answer.is(BucketResult::DISTURBED) {
        return BucketResult::UNPAID;
    }
    if !answer.is(BucketResult::ALLOWED_NEW) {
        return answer;
    }
    let rule = hooks.rule(index);
    // What even a new bucket denies makes none, unless it counts.
    if !rule.limit.counts_denied() && !rule.limit.can_hold(context.cost(hooks, rule)) {
        return BucketResult::DENIED;
    }
    // Paid for once, however often the bucket itself takes.
    match hooks.attempt(BucketOp::Charge, context, rule.new_sources as u64) {
        BucketResult::ALLOWED => BucketResult::DISTURBED,
        BucketResult::DISTURBED => BucketResult::UNPAID,
        answer => answer,
    }
}

#[inline(always)]
fn ask_once<H: Hooks>(hooks: H, context: &PacketContext, index: u64, before: BucketResult) -> BucketResult {
    let mut answer = hooks.attempt(BucketOp::Ask, context, index);
    if answer.is(BucketResult::ALLOWED_NEW) && before.is(BucketResult::UNPAID) {
        answer = hooks.attempt(BucketOp::Ask, context, hooks.rule(index).new_sources as u64);
    }
    if answer.is(BucketResult::DISTURBED) {
        return before;
    }
    // The bucket of all new sources may itself be new.
    if answer.is(BucketResult::ALLOWED_NEW) { BucketResult::ALLOWED } else { answer }
}

/// One try at the bucket of the rule at `index`, in a table.
#[inline(always)]
pub fn attempt<H: Hooks, T: Table>(
    hooks: H,
    table: &T,
    what: BucketOp,
    context: &PacketContext,
    index: u64,
) -> BucketResult {
    let request = context.request(hooks, hooks.rule(index));
    match what {
        BucketOp::Charge => answer(Some(table::charge(table, &request)), BucketResult::ALLOWED),
        BucketOp::ChargeKnown => answer(table::charge_known(table, &request), BucketResult::ALLOWED),
        BucketOp::Ask => answer(Some(table::peek(table, &request)), BucketResult::ALLOWED_NEW),
        BucketOp::GiveBack => give_back_once(hooks, table, &request),
    }
}

#[inline(always)]
fn give_back_once<H: Hooks, T: Table>(hooks: H, table: &T, request: &BucketRequest<'_>) -> BucketResult {
    if table::undo(table, request, hooks.now()) { BucketResult::ALLOWED } else { BucketResult::DISTURBED }
}

/// `new` is the answer if the key had no bucket.
#[inline(always)]
fn answer(attempt: Option<Attempt>, new: BucketResult) -> BucketResult {
    match attempt {
        Some(Attempt::Done { allowed: true, is_new: false, .. }) => BucketResult::ALLOWED,
        Some(Attempt::Done { allowed: true, is_new: true, .. }) => new,
        Some(Attempt::Done { allowed: false, .. }) => BucketResult::DENIED,
        Some(Attempt::Again) => BucketResult::DISTURBED,
        None => BucketResult::ALLOWED_NEW,
    }
}
