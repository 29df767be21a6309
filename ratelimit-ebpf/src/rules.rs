//! Which of the rules that a packet matches denies it.
//!
//! All dropping rules are asked first and charged only if each of them allows it, so a packet that is dropped takes nothing
//! from the others. If another processor took the last token between asking and charging, what was charged is given
//! back. Rules that observe are asked last, and only about packets that pass.

use ratelimit_common::{verifier::opaque, wire::Rule};

use crate::{
    bucket::{self, Subject},
    dry_run,
    globals::{self, globals},
    stats,
    walk::{self, GO_ON, STOP, index_of},
};

/// No rule denies it.
pub const NONE: u64 = u64::MAX;

/// Asks, charges and counts. Of the bits of the rules that match those are left that deny, whether they drop or observe.
/// Returns where the rule is that denies the packet, or [`NONE`].
#[inline(always)]
pub fn denying(subject: &mut Subject, bits: &mut u64) -> u64 {
    let matching = *bits;
    if matching == 0 {
        return NONE;
    }
    let enforced = globals().enforced;
    subject.read_clock();
    if matching & (matching - 1) == 0 {
        let index = if globals().rules == 1 { 0 } else { index_of(matching) };
        let allowed = bucket::charge_first(subject, index);
        stats::count_rule(globals::rule(index).counters, !allowed, subject.size);
        if allowed {
            *bits = 0;
        } else {
            dry_run::note_denied(matching);
        }
        return if allowed || matching & enforced == 0 { NONE } else { index };
    }
    let mut walk = Walk { subject, left: 0, denied: 0 };
    if !enforce(&mut walk, matching & enforced) {
        *bits = walk.denied;
        return index_of(walk.denied);
    }
    let observed = matching & !enforced;
    if observed != 0 {
        observe_all(&mut walk, observed);
    }
    *bits = walk.denied;
    NONE
}

/// The rules that drop: asks all, then charges all.
#[inline(always)]
fn enforce(walk: &mut Walk<'_>, rules: u64) -> bool {
    if rules == 0 {
        return true;
    }
    walk.over(rules, ask);
    let mut done = 0;
    if walk.denied == 0 {
        walk.over(rules, take);
        if walk.denied == 0 {
            return true;
        }
        done = rules & !walk.left;
        walk.over(done & !walk.denied, give_back);
    }
    walk.over(rules & globals().counts_denied & !done, take_denied);
    false
}

/// The rules that observe. One with several parts allows a packet only if all of them do, so these are asked first.
#[inline(always)]
fn observe_all(walk: &mut Walk<'_>, rules: u64) {
    walk.denied = 0;
    if globals().observes_groups != 0 {
        walk.over(rules, ask_group);
    }
    walk.over(rules, observe);
}

/// What a walk over rules carries along.
struct Walk<'s> {
    subject: &'s Subject,
    /// Bits of the rules to come.
    left: u64,
    /// Bits of those that deny.
    denied: u64,
}

type RuleTurn = for<'s> extern "C" fn(u64, *mut Walk<'s>) -> i64;

impl Walk<'_> {
    /// Calls `turn` for each of these rules, until it stops.
    #[inline(always)]
    fn over(&mut self, rules: u64, turn: RuleTurn) {
        self.left = rules;
        if rules != 0 {
            walk::repeat(u64::BITS, turn, self);
        }
    }

    /// The next rule: its bit, where it is, and itself.
    #[inline(always)]
    fn next(&mut self) -> (u64, u64, &'static Rule) {
        let bit = self.left & self.left.wrapping_neg();
        self.left ^= bit;
        let index = index_of(bit);
        (bit, index, globals::rule(index))
    }

    #[inline(always)]
    fn go_on(&self) -> i64 {
        if opaque(self.left) == 0 { STOP } else { GO_ON }
    }

    /// Counts a packet under a rule that allowed it, once for all its parts.
    #[inline(always)]
    fn count_passed(&self, rule: &Rule) {
        if rule.is_first != 0 {
            stats::count_rule(rule.counters, false, self.subject.size);
        }
    }

    #[inline(always)]
    fn count_dropped(&self, rule: &Rule) {
        dry_run::note_denied(rule.group);
        stats::count_rule(rule.counters, true, self.subject.size);
    }
}

extern "C" fn ask(_: u64, walk: *mut Walk<'_>) -> i64 {
    let walk = walk::carried(walk);
    let (bit, index, rule) = walk.next();
    if bucket::ask(walk.subject, index) {
        return walk.go_on();
    }
    walk.count_dropped(rule);
    walk.denied = bit;
    STOP
}

extern "C" fn take(_: u64, walk: *mut Walk<'_>) -> i64 {
    let walk = walk::carried(walk);
    let (bit, index, rule) = walk.next();
    if bucket::charge(walk.subject, index) {
        walk.count_passed(rule);
        return walk.go_on();
    }
    walk.count_dropped(rule);
    walk.denied = bit;
    STOP
}

extern "C" fn give_back(_: u64, walk: *mut Walk<'_>) -> i64 {
    let walk = walk::carried(walk);
    let (_, index, rule) = walk.next();
    if rule.is_first != 0 {
        stats::discount_rule(rule.counters, walk.subject.size);
    }
    if !rule.limit.counts_denied() {
        bucket::give_back(walk.subject, index);
    }
    walk.go_on()
}

extern "C" fn take_denied(_: u64, walk: *mut Walk<'_>) -> i64 {
    let walk = walk::carried(walk);
    let (_, index, _) = walk.next();
    bucket::charge(walk.subject, index);
    walk.go_on()
}

extern "C" fn ask_group(_: u64, walk: *mut Walk<'_>) -> i64 {
    let walk = walk::carried(walk);
    let (_, index, rule) = walk.next();
    if !bucket::ask(walk.subject, index) {
        walk.denied |= rule.group;
    }
    walk.go_on()
}

extern "C" fn observe(_: u64, walk: *mut Walk<'_>) -> i64 {
    let walk = walk::carried(walk);
    let (bit, index, rule) = walk.next();
    if walk.denied & bit != 0 {
        if rule.is_first != 0 {
            walk.count_dropped(rule);
        }
        if rule.limit.counts_denied() {
            bucket::charge(walk.subject, index);
        }
    } else if bucket::charge(walk.subject, index) {
        walk.count_passed(rule);
    } else {
        // Another processor came in between if the first part has counted the packet as passed.
        if rule.is_first == 0 {
            stats::discount_rule(rule.counters, walk.subject.size);
        }
        walk.count_dropped(rule);
        walk.denied |= rule.group;
    }
    walk.go_on()
}
