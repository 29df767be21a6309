//! One packet against one rule's bucket: asking, charging, giving back.

use ratelimit_common::{
    limit::Kind,
    packet::Address,
    table::{self, Attempt, Request},
    time::Now,
    verifier::opaque,
    wire::Rule,
};

use crate::{
    clock,
    globals::{self, globals},
    stats,
    table::{Buckets, first_set},
    walk::{self, GO_ON, STOP, Turn},
};

/// What the rules are asked about. Only numbers, so that it can be passed to functions that are verified by themselves.
#[repr(C)]
pub struct Subject {
    pub source: Address,
    pub now: Now,
}

impl Subject {
    #[inline(always)]
    fn request<'l>(&self, rule: &'l Rule) -> Request<'l> {
        let secret = &globals().secret;
        let mask = globals::key_mask(rule, self.source.family);
        let (high, low) = (self.source.bits[0] & mask.bits[0], self.source.bits[1] & mask.bits[1]);
        let identity = if mask.bits[1] == 0 { high } else { secret.fold(high, low) };
        let key = secret.key(rule.tag(self.source.family), identity);
        Request { key, limit: &rule.limit, now: self.now, cost: 1 }
    }
}

/// Charges the bucket of the first rule, in the shortest way there is for a bucket that lies in its first set and that
/// nobody else is at.
/// The other algorithms would need more stack here than is left.
#[inline(always)]
pub fn charge_first(subject: Subject) -> bool {
    let rule = globals::rule(0);
    if !matches!(rule.limit.kind(), Kind::ArrivalTime | Kind::Window) {
        return charge(&subject, 0);
    }
    let request = subject.request(rule);
    let Some(first) = first_set(&request.key) else { return false };
    match table::charge_in_first(first, &request) {
        Attempt::Done { allowed, .. } => allowed,
        Attempt::Again => charge(&subject, 0),
    }
}

/// Charges the bucket of the rule at `index`.
#[inline(always)]
pub fn charge(subject: &Subject, index: u64) -> bool {
    repeat(subject, index, charge_turn) == ALLOWED
}

/// Asks it without charging.
#[inline(always)]
pub fn ask(subject: &Subject, index: u64) -> bool {
    repeat(subject, index, ask_turn) == ALLOWED
}

/// Gives back what [`charge`] took.
#[inline(always)]
pub fn give_back(subject: &Subject, index: u64) {
    repeat(subject, index, undo_turn);
}

/// At most this many tries: a processor that meets others at a slot more often than that denies its packet.
const TRIES: u32 = 8;

const DISTURBED: u64 = 0;
const ALLOWED: u64 = 1;
const DENIED: u64 = 2;

/// What a loop of tries carries along.
struct Tries<'s> {
    subject: &'s Subject,
    index: u64,
    answer: u64,
}

#[inline(always)]
fn repeat<'s>(subject: &'s Subject, index: u64, turn: Turn<Tries<'s>>) -> u64 {
    let mut tries = Tries { subject, index, answer: DISTURBED };
    walk::repeat(TRIES, turn, &mut tries);
    if tries.answer == DISTURBED {
        stats::count_table(|counters| counters.exhausted_tries += 1);
    }
    tries.answer
}

impl Tries<'_> {
    #[inline(always)]
    fn answer(&mut self, answer: u64) -> i64 {
        self.answer = answer;
        // Opaque: what is returned must be one of two constants, not the answer itself.
        if opaque(answer) == DISTURBED { GO_ON } else { STOP }
    }
}

extern "C" fn charge_turn(_: u64, tries: *mut Tries<'_>) -> i64 {
    let tries = walk::carried(tries);
    tries.answer(try_charge(tries.subject, tries.index))
}

extern "C" fn ask_turn(_: u64, tries: *mut Tries<'_>) -> i64 {
    let tries = walk::carried(tries);
    tries.answer(try_ask(tries.subject, tries.index))
}

extern "C" fn undo_turn(_: u64, tries: *mut Tries<'_>) -> i64 {
    let tries = walk::carried(tries);
    tries.answer(try_undo(tries.subject, tries.index))
}

// Functions with a symbol are verified once, whatever calls them; others once for each way to get there.

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn try_charge(subject: *const Subject, index: u64) -> u64 {
    attempt(subject, index, table::charge)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn try_ask(subject: *const Subject, index: u64) -> u64 {
    attempt(subject, index, table::peek)
}

#[inline(always)]
fn attempt(subject: *const Subject, index: u64, attempt: impl Fn(&Buckets, &Request<'_>) -> Attempt) -> u64 {
    // SAFETY: a subject, or null, which no caller passes.
    let Some(subject) = (unsafe { subject.as_ref() }) else { return DISTURBED };
    match attempt(&Buckets, &subject.request(globals::rule(index))) {
        Attempt::Done { allowed: true, .. } => ALLOWED,
        Attempt::Done { allowed: false, .. } => DENIED,
        Attempt::Again => DISTURBED,
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn try_undo(subject: *const Subject, index: u64) -> u64 {
    // SAFETY: as above.
    let Some(subject) = (unsafe { subject.as_ref() }) else { return DISTURBED };
    let request = subject.request(globals::rule(index));
    if table::undo(&Buckets, &request, clock::now()) { ALLOWED } else { DISTURBED }
}
