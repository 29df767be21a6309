//! Which of the rules that a packet matches denies it.
//!
//! All dropping rules are asked first and charged only if each of them allows it, so a packet that is dropped takes nothing
//! from the others. If another processor took the last token between asking and charging, what was charged is given
//! back. Rules that observe are asked last, and only about packets that pass.

use ratelimit_common::{verifier::opaque, wire::Rule};

use crate::{
    bucket, dry_run,
    globals::{self, globals},
    pipeline::Found,
    stats,
    walk::{self, GO_ON, STOP, index_of},
};

/// No rule denies it.
pub const NONE: u64 = u64::MAX;

/// Asks, charges and counts; notes the bits of those that deny, whether they drop or observe. Returns where the rule is that
/// denies the packet, or [`NONE`].
#[inline(always)]
pub fn denying(found: &mut Found) -> u64 {
    let matching = found.left;
    if matching == 0 {
        return NONE;
    }
    let enforced = globals().enforced;
    found.subject.read_clock();
    if matching & (matching - 1) == 0 {
        return one(found, matching);
    }
    if !enforce(found, matching & enforced) {
        return index_of(found.denied);
    }
    let observed = matching & !enforced;
    if observed != 0 {
        observe_all(found, observed);
    }
    NONE
}

/// The only rule that matches.
#[inline(always)]
fn one(found: &mut Found, bit: u64) -> u64 {
    let index = if globals().rules == 1 { 0 } else { index_of(bit) };
    let allowed = bucket::charge(&found.subject, index);
    stats::count_rule(globals::rule(index).counters, !allowed, found.subject.size);
    if allowed {
        return NONE;
    }
    found.denied = bit;
    dry_run::note_denied(bit);
    if bit & globals().enforced == 0 { NONE } else { index }
}

/// The rules that drop: asks all, then charges all.
#[inline(always)]
fn enforce(found: &mut Found, rules: u64) -> bool {
    if rules == 0 {
        return true;
    }
    found.over(rules, ask);
    let mut done = 0;
    if found.denied == 0 {
        found.over(rules, take);
        if found.denied == 0 {
            return true;
        }
        done = rules & !found.left;
        found.over(done & !found.denied, give_back);
    }
    found.over(rules & globals().counts_denied & !done, take_denied);
    false
}

/// The rules that observe. One with several parts allows a packet only if all of them do, so these are asked first.
#[inline(always)]
fn observe_all(found: &mut Found, rules: u64) {
    if globals().observes_groups != 0 {
        found.over(rules, ask_group);
    }
    found.over(rules, observe);
}

impl Found {
    /// Calls `turn` for each of these rules, until it stops.
    #[inline(always)]
    fn over(&mut self, rules: u64, turn: walk::Turn<Self>) {
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

extern "C" fn ask(_: u64, found: *mut Found) -> i64 {
    let found = walk::carried(found);
    let (bit, index, rule) = found.next();
    if bucket::ask(&found.subject, index) {
        return found.go_on();
    }
    found.count_dropped(rule);
    found.denied = bit;
    STOP
}

extern "C" fn take(_: u64, found: *mut Found) -> i64 {
    let found = walk::carried(found);
    let (bit, index, rule) = found.next();
    if bucket::charge(&found.subject, index) {
        found.count_passed(rule);
        return found.go_on();
    }
    found.count_dropped(rule);
    found.denied = bit;
    STOP
}

extern "C" fn give_back(_: u64, found: *mut Found) -> i64 {
    let found = walk::carried(found);
    let (_, index, rule) = found.next();
    if rule.is_first != 0 {
        stats::discount_rule(rule.counters, found.subject.size);
    }
    if !rule.limit.counts_denied() {
        bucket::give_back(&found.subject, index);
    }
    found.go_on()
}

extern "C" fn take_denied(_: u64, found: *mut Found) -> i64 {
    let found = walk::carried(found);
    let (_, index, _) = found.next();
    bucket::charge(&found.subject, index);
    found.go_on()
}

extern "C" fn ask_group(_: u64, found: *mut Found) -> i64 {
    let found = walk::carried(found);
    let (_, index, rule) = found.next();
    if !bucket::ask(&found.subject, index) {
        found.denied |= rule.group;
    }
    found.go_on()
}

extern "C" fn observe(_: u64, found: *mut Found) -> i64 {
    let found = walk::carried(found);
    let (bit, index, rule) = found.next();
    if found.denied & bit != 0 {
        if rule.is_first != 0 {
            found.count_dropped(rule);
        }
        if rule.limit.counts_denied() {
            bucket::charge(&found.subject, index);
        }
    } else if bucket::charge(&found.subject, index) {
        found.count_passed(rule);
    } else {
        // Another processor came in between if the first part has counted the packet as passed.
        if rule.is_first == 0 {
            stats::discount_rule(rule.counters, found.subject.size);
        }
        found.count_dropped(rule);
        found.denied |= rule.group;
    }
    found.go_on()
}
