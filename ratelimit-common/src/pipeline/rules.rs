//! Which of the rules that a packet matches denies it.
//!
//! All dropping rules are asked first and charged only if each of them allows it, so a packet that is dropped takes nothing
//! from the others. If another processor took the last token between asking and charging, what was charged is given
//! back. Rules that observe are asked last, and only about packets that pass.

use super::{Found, Hooks, bucket, several::Settled};
use crate::{
    time::{Nanos, Now},
    verifier::opaque,
    wire::{MOST_RULES, Rule},
};

/// No rule denies it.
pub(super) const NONE: u64 = u64::MAX;

/// Asks, charges and counts; notes the bits of those that deny, whether they drop or observe. Returns where the rule is that
/// denies the packet, or [`NONE`].
#[inline(always)]
pub(super) fn denying<H: Hooks>(hooks: H, found: &mut Found) -> u64 {
    let matching = found.left;
    if matching == 0 {
        return NONE;
    }
    let enforced = hooks.globals().enforced;
    // The short way may have read the clock.
    if found.subject.now == Now(Nanos(0)) {
        found.subject.now = hooks.now();
    }
    if matching & (matching - 1) == 0 {
        return one(hooks, found, matching);
    }
    if !enforce(hooks, found, matching & enforced) {
        return hooks.index_of(found.denied);
    }
    let observed = matching & !enforced;
    if observed != 0 {
        observe_all(hooks, found, observed);
    }
    NONE
}

/// The only rule that matches.
#[inline(always)]
fn one<H: Hooks>(hooks: H, found: &mut Found, bit: u64) -> u64 {
    let index = if hooks.globals().matches.rules == 1 { 0 } else { hooks.index_of(bit) };
    let allowed = bucket::charge(hooks, &found.subject, index);
    hooks.count_rule(hooks.rule(index), !allowed, found.subject.size);
    if allowed {
        return NONE;
    }
    found.denied = bit;
    hooks.note_denied(bit);
    if bit & hooks.globals().enforced == 0 { NONE } else { index }
}

/// The rules that drop: all at once if nothing about their buckets is unusual, else asks all, then charges all.
#[inline(always)]
fn enforce<H: Hooks>(hooks: H, found: &mut Found, rules: u64) -> bool {
    if rules == 0 {
        return true;
    }
    found.left = rules;
    let settled = hooks.charge_several(found);
    if settled == Settled::ALLOWED {
        return true;
    }
    let mut done = 0;
    if settled == Settled::DENIED {
        let index = next(hooks, found);
        count_dropped(hooks, found, hooks.rule(index));
        found.denied = bit_of(index);
    } else {
        if settled != Settled::DISTURBED {
            over(hooks, found, rules, move |found| ask(hooks, found));
            found.left = rules;
        }
        if found.denied == 0 {
            let left = found.left;
            over(hooks, found, left, move |found| take(hooks, found));
            if found.denied == 0 {
                return true;
            }
            done = rules & !found.left;
            let given = done & !found.denied;
            over(hooks, found, given, move |found| give_back(hooks, found));
        }
    }
    let counting = rules & hooks.globals().counts_denied & !done;
    over(hooks, found, counting, move |found| take_denied(hooks, found));
    false
}

/// The rules that observe. One with several parts allows a packet only if all of them do, so these are asked first.
#[inline(always)]
fn observe_all<H: Hooks>(hooks: H, found: &mut Found, rules: u64) {
    if hooks.globals().observes_groups != 0 {
        over(hooks, found, rules, move |found| ask_group(hooks, found));
    }
    over(hooks, found, rules, move |found| observe(hooks, found));
}

/// Takes a turn for each of these rules, until one says that it is the last.
#[inline(always)]
fn over<H: Hooks>(hooks: H, found: &mut Found, rules: u64, turn: impl Fn(&mut Found) -> bool + Copy) {
    found.left = rules;
    if rules != 0 {
        hooks.repeat(MOST_RULES as u32, found, turn);
    }
}

/// Where the next rule is. It is asked for again where it is needed, because to keep it over a call would need stack.
#[inline(always)]
fn next<H: Hooks>(hooks: H, found: &mut Found) -> u64 {
    let bit = found.left & found.left.wrapping_neg();
    found.left ^= bit;
    hooks.index_of(bit)
}

/// The bit of the rule at `index`.
#[inline(always)]
const fn bit_of(index: u64) -> u64 {
    1 << (index & 63)
}

#[inline(always)]
fn go_on(found: &Found) -> bool {
    opaque(found.left) != 0
}

/// Counts a packet under a rule that allowed it, once for all its parts.
#[inline(always)]
fn count_passed<H: Hooks>(hooks: H, found: &Found, rule: &Rule) {
    if rule.is_first != 0 {
        hooks.count_rule(rule, false, found.subject.size);
    }
}

#[inline(always)]
fn count_dropped<H: Hooks>(hooks: H, found: &Found, rule: &Rule) {
    hooks.note_denied(rule.group);
    hooks.count_rule(rule, true, found.subject.size);
}

#[inline(always)]
fn ask<H: Hooks>(hooks: H, found: &mut Found) -> bool {
    let index = next(hooks, found);
    if bucket::ask(hooks, &found.subject, index) {
        return go_on(found);
    }
    count_dropped(hooks, found, hooks.rule(index));
    found.denied = bit_of(index);
    false
}

#[inline(always)]
fn take<H: Hooks>(hooks: H, found: &mut Found) -> bool {
    let index = next(hooks, found);
    if bucket::charge(hooks, &found.subject, index) {
        count_passed(hooks, found, hooks.rule(index));
        return go_on(found);
    }
    count_dropped(hooks, found, hooks.rule(index));
    found.denied = bit_of(index);
    false
}

#[inline(always)]
fn give_back<H: Hooks>(hooks: H, found: &mut Found) -> bool {
    let index = next(hooks, found);
    let rule = hooks.rule(index);
    if rule.is_first != 0 {
        hooks.discount_rule(rule, found.subject.size);
    }
    if !rule.limit.counts_denied() {
        bucket::give_back(hooks, &found.subject, index);
    }
    go_on(found)
}

#[inline(always)]
fn take_denied<H: Hooks>(hooks: H, found: &mut Found) -> bool {
    let index = next(hooks, found);
    bucket::charge(hooks, &found.subject, index);
    go_on(found)
}

#[inline(always)]
fn ask_group<H: Hooks>(hooks: H, found: &mut Found) -> bool {
    let index = next(hooks, found);
    if !bucket::ask(hooks, &found.subject, index) {
        found.denied |= hooks.rule(index).group;
    }
    go_on(found)
}

#[inline(always)]
fn observe<H: Hooks>(hooks: H, found: &mut Found) -> bool {
    let index = next(hooks, found);
    if found.denied & bit_of(index) != 0 {
        let rule = hooks.rule(index);
        if rule.is_first != 0 {
            count_dropped(hooks, found, rule);
        }
        if rule.limit.counts_denied() {
            bucket::charge(hooks, &found.subject, index);
        }
    } else if bucket::charge(hooks, &found.subject, index) {
        count_passed(hooks, found, hooks.rule(index));
    } else {
        let rule = hooks.rule(index);
        // Another processor came in between if the first part has counted the packet as passed.
        if rule.is_first == 0 {
            hooks.discount_rule(rule, found.subject.size);
        }
        count_dropped(hooks, found, rule);
        found.denied |= rule.group;
    }
    go_on(found)
}
