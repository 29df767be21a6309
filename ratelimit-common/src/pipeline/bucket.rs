//! One packet against one rule's bucket: asking, charging, giving back, with a bounded number of tries.

use super::{Hooks, Subject};
use crate::{
    table::{self, Attempt, Request, Table},
    verifier::opaque,
};

/// What one try came to. A number, because functions that the kernel verifies once return nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Answer(u64);

impl Answer {
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
pub enum Try {
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
pub fn charge<H: Hooks>(hooks: H, subject: &Subject, index: u64) -> bool {
    repeat(hooks, index, |answer| charge_once(hooks, subject, index, answer)) == Answer::ALLOWED
}

/// Asks it without charging.
#[inline(always)]
pub(super) fn ask<H: Hooks>(hooks: H, subject: &Subject, index: u64) -> bool {
    repeat(hooks, index, |answer| ask_once(hooks, subject, index, answer)) == Answer::ALLOWED
}

/// Gives back what [`charge`] took.
#[inline(always)]
pub(super) fn give_back<H: Hooks>(hooks: H, subject: &Subject, index: u64) {
    repeat(hooks, index, |_| hooks.attempt(Try::GiveBack, subject, index));
}

/// Tries until there is an answer. Each try is told what the one before came to.
#[inline(always)]
fn repeat<H: Hooks>(hooks: H, index: u64, attempt: impl Fn(Answer) -> Answer) -> Answer {
    let is_capped = hooks.rule(index).new_sources != 0;
    let mut answer = if is_capped { Answer::UNPAID } else { Answer::DISTURBED };
    // Hidden, so that it stays a loop.
    let mut left = opaque(TRIES);
    while left != 0 {
        answer = attempt(answer);
        if !answer.is(Answer::DISTURBED) && !answer.is(Answer::UNPAID) {
            return answer;
        }
        left -= 1;
    }
    hooks.on_exhausted_tries();
    answer
}

#[inline(always)]
fn charge_once<H: Hooks>(hooks: H, subject: &Subject, index: u64, before: Answer) -> Answer {
    if !before.is(Answer::UNPAID) {
        return hooks.attempt(Try::Charge, subject, index);
    }
    let answer = hooks.attempt(Try::ChargeKnown, subject, index);
    if answer.is(Answer::DISTURBED) {
        return Answer::UNPAID;
    }
    if !answer.is(Answer::ALLOWED_NEW) {
        return answer;
    }
    let rule = hooks.rule(index);
    // What even a new bucket denies makes none, unless it counts.
    if !rule.limit.counts_denied() && !rule.limit.can_hold(subject.cost(hooks, rule)) {
        return Answer::DENIED;
    }
    // Paid for once, however often the bucket itself takes.
    match hooks.attempt(Try::Charge, subject, rule.new_sources as u64) {
        Answer::ALLOWED => Answer::DISTURBED,
        Answer::DISTURBED => Answer::UNPAID,
        answer => answer,
    }
}

#[inline(always)]
fn ask_once<H: Hooks>(hooks: H, subject: &Subject, index: u64, before: Answer) -> Answer {
    let mut answer = hooks.attempt(Try::Ask, subject, index);
    if answer.is(Answer::ALLOWED_NEW) && before.is(Answer::UNPAID) {
        answer = hooks.attempt(Try::Ask, subject, hooks.rule(index).new_sources as u64);
    }
    if answer.is(Answer::DISTURBED) {
        return before;
    }
    // The bucket of all new sources may itself be new.
    if answer.is(Answer::ALLOWED_NEW) { Answer::ALLOWED } else { answer }
}

/// One try at the bucket of the rule at `index`, in a table.
#[inline(always)]
pub fn attempt<H: Hooks, T: Table>(hooks: H, table: &T, what: Try, subject: &Subject, index: u64) -> Answer {
    let request = subject.request(hooks, hooks.rule(index));
    match what {
        Try::Charge => answer(Some(table::charge(table, &request)), Answer::ALLOWED),
        Try::ChargeKnown => answer(table::charge_known(table, &request), Answer::ALLOWED),
        Try::Ask => answer(Some(table::peek(table, &request)), Answer::ALLOWED_NEW),
        Try::GiveBack => give_back_once(hooks, table, &request),
    }
}

#[inline(always)]
fn give_back_once<H: Hooks, T: Table>(hooks: H, table: &T, request: &Request<'_>) -> Answer {
    if table::undo(table, request, hooks.now()) { Answer::ALLOWED } else { Answer::DISTURBED }
}

/// `new` is the answer if the key had no bucket.
#[inline(always)]
fn answer(attempt: Option<Attempt>, new: Answer) -> Answer {
    match attempt {
        Some(Attempt::Done { allowed: true, is_new: false, .. }) => Answer::ALLOWED,
        Some(Attempt::Done { allowed: true, is_new: true, .. }) => new,
        Some(Attempt::Done { allowed: false, .. }) => Answer::DENIED,
        Some(Attempt::Again) => Answer::DISTURBED,
        None => Answer::ALLOWED_NEW,
    }
}
