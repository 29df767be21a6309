//! Whether the rules allow a packet.
//!
//! All dropping rules are asked first and charged only if each of them allows it, so a packet that is dropped takes nothing
//! from the others. If another processor took the last token between asking and charging, what was charged is given
//! back. Rules that observe are asked last, and only about packets that pass.

use ratelimit_common::{packet::Address, wire::Rule};

use crate::{
    bench,
    bucket::{self, Subject},
    clock,
    globals::{self, globals},
    stats,
    walk::{self, GO_ON, STOP},
};

/// Asks, charges and counts.
#[inline(always)]
pub fn allow(source: Address, bytes: u64) -> bool {
    let (rules, enforced) = (globals().rules, globals().enforced);
    if rules == 0 {
        return true;
    }
    let subject = Subject { source: bench::source(source), now: clock::now() };
    if rules == 1 {
        let allowed = bucket::charge_first(subject);
        stats::count_rule(globals::rule(0).number, !allowed, bytes);
        return allowed || enforced == 0;
    }
    let mut walk = Walk { subject, bytes, first: 0, stopped_at: NOWHERE };
    let allowed = enforce(&mut walk, enforced);
    if allowed && rules > enforced {
        walk.first = enforced;
        walk::repeat(rules - enforced, observe, &mut walk);
    }
    allowed
}

/// The rules that drop: asks all, then charges all.
#[inline(always)]
fn enforce(walk: &mut Walk, enforced: u32) -> bool {
    walk::repeat(enforced, ask, walk);
    if walk.stopped_at == NOWHERE {
        walk::repeat(enforced, take, walk);
        if walk.stopped_at == NOWHERE {
            return true;
        }
        walk::repeat(walk.stopped_at, give_back, walk);
        walk.first = walk.stopped_at + 1;
    }
    if globals().counts_denied != 0 {
        walk::repeat(enforced - walk.first, take_denied, walk);
    }
    false
}

const NOWHERE: u32 = u32::MAX;

/// What a walk over rules carries along.
struct Walk {
    subject: Subject,
    bytes: u64,
    /// The rule to begin with.
    first: u32,
    /// The rule that ended the walk.
    stopped_at: u32,
}

impl Walk {
    /// The rule of a turn, and where it is.
    #[inline(always)]
    fn rule(&self, turn: u64) -> (u64, &'static Rule) {
        let index = turn + self.first as u64;
        (index, globals::rule(index))
    }
}

extern "C" fn ask(turn: u64, walk: *mut Walk) -> i64 {
    let walk = walk::carried(walk);
    let (index, rule) = walk.rule(turn);
    if bucket::ask(&walk.subject, index) {
        return GO_ON;
    }
    stats::count_rule(rule.number, true, walk.bytes);
    walk.stopped_at = turn as u32;
    STOP
}

extern "C" fn take(turn: u64, walk: *mut Walk) -> i64 {
    let walk = walk::carried(walk);
    let (index, rule) = walk.rule(turn);
    let allowed = bucket::charge(&walk.subject, index);
    stats::count_rule(rule.number, !allowed, walk.bytes);
    if allowed {
        return GO_ON;
    }
    walk.stopped_at = turn as u32;
    STOP
}

extern "C" fn give_back(turn: u64, walk: *mut Walk) -> i64 {
    let walk = walk::carried(walk);
    let (index, rule) = walk.rule(turn);
    stats::discount_rule(rule.number, walk.bytes);
    if !rule.limit.counts_denied() {
        bucket::give_back(&walk.subject, index);
    }
    GO_ON
}

extern "C" fn take_denied(turn: u64, walk: *mut Walk) -> i64 {
    let walk = walk::carried(walk);
    let (index, rule) = walk.rule(turn);
    if rule.limit.counts_denied() {
        bucket::charge(&walk.subject, index);
    }
    GO_ON
}

extern "C" fn observe(turn: u64, walk: *mut Walk) -> i64 {
    let walk = walk::carried(walk);
    let (index, rule) = walk.rule(turn);
    let allowed = bucket::charge(&walk.subject, index);
    stats::count_rule(rule.number, !allowed, walk.bytes);
    GO_ON
}
