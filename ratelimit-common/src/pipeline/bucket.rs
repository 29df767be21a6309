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
const TRIES: u32 = 8;

/// Charges the bucket of the rule at `index`.
#[inline(always)]
pub fn charge<H: Hooks>(hooks: H, subject: &Subject, index: u64) -> bool {
    repeat(hooks, subject, index, move |tries| charge_turn(hooks, tries)) == Answer::ALLOWED
}

/// Asks it without charging.
#[inline(always)]
pub(super) fn ask<H: Hooks>(hooks: H, subject: &Subject, index: u64) -> bool {
    repeat(hooks, subject, index, move |tries| ask_turn(hooks, tries)) == Answer::ALLOWED
}

/// Gives back what [`charge`] took.
#[inline(always)]
pub(super) fn give_back<H: Hooks>(hooks: H, subject: &Subject, index: u64) {
    repeat(hooks, subject, index, move |tries| {
        let answer = hooks.attempt(Try::GiveBack, tries.subject, tries.index);
        tries.answer(answer)
    });
}

/// What a loop of tries carries along.
struct Tries<'s> {
    subject: &'s Subject,
    index: u64,
    answer: Answer,
}

#[inline(always)]
fn repeat<'s, H: Hooks>(
    hooks: H,
    subject: &'s Subject,
    index: u64,
    turn: impl Fn(&mut Tries<'s>) -> bool + Copy,
) -> Answer {
    let is_capped = hooks.rule(index).new_sources != 0;
    let answer = if is_capped { Answer::UNPAID } else { Answer::DISTURBED };
    let mut tries = Tries { subject, index, answer };
    hooks.repeat(TRIES, &mut tries, turn);
    if tries.answer == Answer::DISTURBED || tries.answer == Answer::UNPAID {
        hooks.on_exhausted_tries();
    }
    tries.answer
}

impl Tries<'_> {
    /// Notes an answer; whether there is to be another try.
    #[inline(always)]
    fn answer(&mut self, answer: Answer) -> bool {
        self.answer = answer;
        answer.is(Answer::DISTURBED)
    }
}

#[inline(always)]
fn charge_turn<H: Hooks>(hooks: H, tries: &mut Tries<'_>) -> bool {
    // Most have a bucket, and that is the shorter way.
    let answer = hooks.attempt(Try::ChargeKnown, tries.subject, tries.index);
    if answer.is(Answer::DISTURBED) {
        return true;
    }
    if !answer.is(Answer::ALLOWED_NEW) {
        return tries.answer(answer);
    }
    if tries.answer != Answer::UNPAID {
        return tries.answer(hooks.attempt(Try::Charge, tries.subject, tries.index));
    }
    let rule = hooks.rule(tries.index);
    // What even a new bucket denies makes none, unless it counts.
    if !rule.limit.counts_denied() && !rule.limit.can_hold(tries.subject.cost(hooks, rule)) {
        return tries.answer(Answer::DENIED);
    }
    // Paid for once, however often the bucket itself takes.
    let new_sources = rule.new_sources as u64;
    match hooks.attempt(Try::Charge, tries.subject, new_sources) {
        Answer::ALLOWED => tries.answer(Answer::DISTURBED),
        Answer::DISTURBED => true,
        answer => tries.answer(answer),
    }
}

#[inline(always)]
fn ask_turn<H: Hooks>(hooks: H, tries: &mut Tries<'_>) -> bool {
    let mut answer = hooks.attempt(Try::Ask, tries.subject, tries.index);
    if answer.is(Answer::ALLOWED_NEW) {
        answer = Answer::ALLOWED;
        if tries.answer == Answer::UNPAID {
            answer = hooks.attempt(Try::Ask, tries.subject, hooks.rule(tries.index).new_sources as u64);
            // The bucket of all new sources may itself be new.
            if answer.is(Answer::ALLOWED_NEW) {
                answer = Answer::ALLOWED;
            }
        }
    }
    if answer.is(Answer::DISTURBED) {
        return true;
    }
    tries.answer(answer)
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
