//! One packet against one rule's bucket: asking, charging, giving back.

use ratelimit_common::{
    packet::{Address, Packet, Ports},
    table::{self, Attempt, Request},
    time::{Nanos, Now},
    verifier::opaque,
    wire::{Rule, TAKES_BYTES, TAKES_ONE},
};

use crate::{
    clock,
    globals::{self, globals},
    size::Size,
    stats,
    table::Buckets,
    walk::{self, GO_ON, STOP, Turn},
};

/// What the rules are asked about. Only numbers, so that it can be passed to functions that are verified by themselves.
#[repr(C)]
pub struct Subject {
    source: [u64; 2],
    destination: [u64; 2],
    ports: Ports,
    now: Now,
    pub size: Size,
}

impl Subject {
    /// Of a packet of which nothing is known but its size.
    #[inline(always)]
    pub const fn of_size(size: Size) -> Self {
        Self { source: [0; 2], destination: [0; 2], ports: Ports(0), now: Now(Nanos(0)), size }
    }

    /// Notes what the packet says; the time and its size are noted elsewhere.
    #[inline(always)]
    pub fn describe(&mut self, packet: &Packet, source: [u64; 2]) {
        self.source = source;
        self.destination = packet.destination.bits;
        self.ports = packet.ports();
    }

    #[inline(always)]
    pub fn read_clock(&mut self) {
        self.now = clock::now();
    }

    #[inline(always)]
    pub const fn now(&self) -> Now {
        self.now
    }

    #[inline(always)]
    pub const fn source(&self) -> Address {
        Address { bits: self.source, family: self.ports.family() }
    }

    #[inline(always)]
    fn request<'l>(&self, rule: &'l Rule) -> Request<'l> {
        self.request_for(rule, self.cost(rule))
    }

    #[inline(always)]
    fn cost(&self, rule: &Rule) -> u32 {
        match rule.takes {
            TAKES_BYTES => self.size.bytes() as u32,
            TAKES_ONE => 1,
            _ if globals().joins == 0 => 1,
            // More than the capacity would never pass.
            _ => self.size.packets().min(rule.limit.capacity()) as u32,
        }
    }

    #[inline(always)]
    fn request_for<'l>(&self, rule: &'l Rule, cost: u32) -> Request<'l> {
        let mask = globals::key_mask(rule, self.ports.family());
        let key = mask.key(&globals().secret, self.source, self.destination, self.ports);
        Request { key, limit: &rule.limit, now: self.now, cost }
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
/// There is no bucket; it would allow.
const ALLOWED_NEW: u64 = 3;
/// No answer yet, and if there is no bucket, it must be paid for before it is made.
const UNPAID: u64 = 4;

/// What a loop of tries carries along.
struct Tries<'s> {
    subject: &'s Subject,
    index: u64,
    answer: u64,
}

#[inline(always)]
fn repeat<'s>(subject: &'s Subject, index: u64, turn: Turn<Tries<'s>>) -> u64 {
    let answer = if globals::rule(index).new_sources == 0 { DISTURBED } else { UNPAID };
    let mut tries = Tries { subject, index, answer };
    walk::repeat(TRIES, turn, &mut tries);
    if tries.answer == DISTURBED || tries.answer == UNPAID {
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
    // Most have a bucket, and that is the shorter way.
    let answer = try_charge_known(tries.subject, tries.index);
    if opaque(answer) == DISTURBED {
        return GO_ON;
    }
    if opaque(answer) != ALLOWED_NEW {
        return tries.answer(answer);
    }
    if tries.answer != UNPAID {
        return tries.answer(try_charge(tries.subject, tries.index));
    }
    let rule = globals::rule(tries.index);
    // What even a new bucket denies makes none, unless it counts.
    if !rule.limit.counts_denied() && !rule.limit.can_hold(tries.subject.cost(rule)) {
        return tries.answer(DENIED);
    }
    // Paid for once, however often the bucket itself takes.
    let new_sources = rule.new_sources as u64;
    match try_charge(tries.subject, new_sources) {
        ALLOWED => tries.answer(DISTURBED),
        DISTURBED => GO_ON,
        answer => tries.answer(answer),
    }
}

extern "C" fn ask_turn(_: u64, tries: *mut Tries<'_>) -> i64 {
    let tries = walk::carried(tries);
    let mut answer = try_ask(tries.subject, tries.index);
    if opaque(answer) == ALLOWED_NEW {
        answer = ALLOWED;
        if tries.answer == UNPAID {
            answer = try_ask(tries.subject, globals::rule(tries.index).new_sources as u64);
            // The bucket of all new sources may itself be new.
            if opaque(answer) == ALLOWED_NEW {
                answer = ALLOWED;
            }
        }
    }
    if opaque(answer) == DISTURBED {
        return GO_ON;
    }
    tries.answer(answer)
}

extern "C" fn undo_turn(_: u64, tries: *mut Tries<'_>) -> i64 {
    let tries = walk::carried(tries);
    tries.answer(try_undo(tries.subject, tries.index))
}

// Functions with a symbol are verified once, whatever calls them; others once for each way to get there.

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn try_charge(subject: *const Subject, index: u64) -> u64 {
    attempt(subject, index, |request| Some(table::charge(&Buckets(index), request)), ALLOWED)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn try_charge_known(subject: *const Subject, index: u64) -> u64 {
    attempt(subject, index, |request| table::charge_known(&Buckets(index), request), ALLOWED)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn try_ask(subject: *const Subject, index: u64) -> u64 {
    attempt(subject, index, |request| Some(table::peek(&Buckets(index), request)), ALLOWED_NEW)
}

/// `new` is the answer if the key had no bucket.
#[inline(always)]
fn attempt(
    subject: *const Subject,
    index: u64,
    attempt: impl Fn(&Request<'_>) -> Option<Attempt>,
    new: u64,
) -> u64 {
    // SAFETY: a subject, or null, which no caller passes.
    let Some(subject) = (unsafe { subject.as_ref() }) else { return DISTURBED };
    match attempt(&subject.request(globals::rule(index))) {
        Some(Attempt::Done { allowed: true, is_new: false, .. }) => ALLOWED,
        Some(Attempt::Done { allowed: true, is_new: true, .. }) => new,
        Some(Attempt::Done { allowed: false, .. }) => DENIED,
        Some(Attempt::Again) => DISTURBED,
        None => ALLOWED_NEW,
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn try_undo(subject: *const Subject, index: u64) -> u64 {
    // SAFETY: as above.
    let Some(subject) = (unsafe { subject.as_ref() }) else { return DISTURBED };
    let request = subject.request(globals::rule(index));
    if table::undo(&Buckets(index), &request, clock::now()) { ALLOWED } else { DISTURBED }
}
