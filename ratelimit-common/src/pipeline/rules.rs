//! Which of the rules that a packet matches denies it.
//!
//! All dropping rules are asked first and charged only if each of them allows it, so a packet that is dropped takes
//! nothing from the others. If another processor took the last token between asking and charging, what was charged is
//! given back. Rules that observe are asked last, and only about packets that pass.

use super::{Evaluation, Hooks, bucket, several::Settled};
use crate::{
    time::{Nanos, Now},
    verifier::opaque,
    wire::{CompiledRule, MOST_RULES},
};

/// No rule denies it.
pub(super) const NONE: u64 = u64::MAX;

/// Asks, charges and counts; notes the bits of those that deny, whether they drop or observe. Returns where the rule is
/// that denies the packet, or [`NONE`].
#[inline(always)]
pub(super) fn denying<H: Hooks>(hooks: H, evaluation: &mut Evaluation) -> u64 {
    let matching = evaluation.left;
    if matching == 0 {
        return NONE;
    }
    let enforced = hooks.globals().enforced;
    // The fast path may have read the clock.
    if evaluation.context.now == Now(Nanos(0)) {
        evaluation.context.now = hooks.now();
    }
    if matching & (matching - 1) == 0 {
        return one(hooks, evaluation, matching);
    }
    if !enforce(hooks, evaluation, matching & enforced) {
        return hooks.index_of(evaluation.denied);
    }
    let observed = matching & !enforced;
    if observed != 0 {
        observe_all(hooks, evaluation, observed);
    }
    NONE
}

/// The only rule that matches.
#[inline(always)]
fn one<H: Hooks>(hooks: H, evaluation: &mut Evaluation, bit: u64) -> u64 {
    let index = if hooks.globals().matches.rules == 1 { 0 } else { hooks.index_of(bit) };
    if bucket::charge(hooks, &evaluation.context, index) {
        hooks.count_rule(hooks.rule(index), false, evaluation.context.size);
        return NONE;
    }
    evaluation.denied = bit;
    hooks.note_denied(bit);
    if bit & hooks.globals().enforced == 0 {
        hooks.count_observed(hooks.rule(index), evaluation.context.size);
        return NONE;
    }
    hooks.count_rule(hooks.rule(index), true, evaluation.context.size);
    index
}

/// The rules that drop: all at once if nothing about their buckets is unusual, else asks all, then charges all.
#[inline(always)]
fn enforce<H: Hooks>(hooks: H, evaluation: &mut Evaluation, rules: u64) -> bool {
    if rules == 0 {
        return true;
    }
    evaluation.left = rules;
    let settled = hooks.charge_several(evaluation);
    if settled == Settled::ALLOWED {
        return true;
    }
    let mut done = 0;
    if settled == Settled::DENIED {
        let index = next(hooks, evaluation);
        count_dropped(hooks, evaluation, hooks.rule(index));
        evaluation.denied = bit_of(index);
    } else {
        if settled != Settled::DISTURBED {
            over(hooks, evaluation, rules, move |evaluation| ask(hooks, evaluation));
            evaluation.left = rules;
        }
        if evaluation.denied == 0 {
            let left = evaluation.left;
            over(hooks, evaluation, left, move |evaluation| take(hooks, evaluation));
            if evaluation.denied == 0 {
                return true;
            }
            done = rules & !evaluation.left;
            let given = done & !evaluation.denied;
            over(hooks, evaluation, given, move |evaluation| give_back(hooks, evaluation));
        }
    }
    let counting = rules & hooks.globals().counts_denied & !done;
    over(hooks, evaluation, counting, move |evaluation| take_denied(hooks, evaluation));
    false
}

/// The rules that observe. One with several parts allows a packet only if all of them do, so these are asked first.
#[inline(always)]
fn observe_all<H: Hooks>(hooks: H, evaluation: &mut Evaluation, rules: u64) {
    if hooks.globals().observes_groups != 0 {
        over(hooks, evaluation, rules, move |evaluation| ask_group(hooks, evaluation));
    }
    over(hooks, evaluation, rules, move |evaluation| observe(hooks, evaluation));
}

/// Takes a turn for each of these rules, until one says that it is the last.
#[inline(always)]
fn over<H: Hooks>(
    hooks: H,
    evaluation: &mut Evaluation,
    rules: u64,
    turn: impl Fn(&mut Evaluation) -> bool + Copy,
) {
    evaluation.left = rules;
    if rules != 0 {
        hooks.repeat(MOST_RULES as u32, evaluation, turn);
    }
}

/// Where the next rule is. It is asked for again where it is needed, because to keep it over a call would need stack.
#[inline(always)]
fn next<H: Hooks>(hooks: H, evaluation: &mut Evaluation) -> u64 {
    let bit = evaluation.left & evaluation.left.wrapping_neg();
    evaluation.left ^= bit;
    hooks.index_of(bit)
}

/// The bit of the rule at `index`.
#[inline(always)]
const fn bit_of(index: u64) -> u64 {
    1 << (index & 63)
}

#[inline(always)]
fn go_on(evaluation: &Evaluation) -> bool {
    opaque(evaluation.left) != 0
}

/// Counts a packet under a rule that allowed it, once for all its parts.
#[inline(always)]
fn count_passed<H: Hooks>(hooks: H, evaluation: &Evaluation, rule: &CompiledRule) {
    if rule.is_first != 0 {
        hooks.count_rule(rule, false, evaluation.context.size);
    }
}

#[inline(always)]
fn count_dropped<H: Hooks>(hooks: H, evaluation: &Evaluation, rule: &CompiledRule) {
    hooks.note_denied(rule.group);
    hooks.count_rule(rule, true, evaluation.context.size);
}

#[inline(always)]
fn count_observed<H: Hooks>(hooks: H, evaluation: &Evaluation, rule: &CompiledRule) {
    hooks.note_denied(rule.group);
    hooks.count_observed(rule, evaluation.context.size);
}

#[inline(always)]
fn ask<H: Hooks>(hooks: H, evaluation: &mut Evaluation) -> bool {
    let index = next(hooks, evaluation);
    if bucket::ask(hooks, &evaluation.context, index) {
        return go_on(evaluation);
    }
    count_dropped(hooks, evaluation, hooks.rule(index));
    evaluation.denied = bit_of(index);
    false
}

#[inline(always)]
fn take<H: Hooks>(hooks: H, evaluation: &mut Evaluation) -> bool {
    let index = next(hooks, evaluation);
    if bucket::charge(hooks, &evaluation.context, index) {
        count_passed(hooks, evaluation, hooks.rule(index));
        return go_on(evaluation);
    }
    count_dropped(hooks, evaluation, hooks.rule(index));
    evaluation.denied = bit_of(index);
    false
}

#[inline(always)]
fn give_back<H: Hooks>(hooks: H, evaluation: &mut Evaluation) -> bool {
    let index = next(hooks, evaluation);
    let rule = hooks.rule(index);
    if rule.is_first != 0 {
        hooks.discount_rule(rule, evaluation.context.size);
    }
    if !rule.limit.counts_denied() {
        bucket::give_back(hooks, &evaluation.context, index);
    }
    go_on(evaluation)
}

#[inline(always)]
fn take_denied<H: Hooks>(hooks: H, evaluation: &mut Evaluation) -> bool {
    let index = next(hooks, evaluation);
    bucket::charge(hooks, &evaluation.context, index);
    go_on(evaluation)
}

#[inline(always)]
fn ask_group<H: Hooks>(hooks: H, evaluation: &mut Evaluation) -> bool {
    let index = next(hooks, evaluation);
    if !bucket::ask(hooks, &evaluation.context, index) {
        evaluation.denied |= hooks.rule(index).group;
    }
    go_on(evaluation)
}

#[inline(always)]
fn observe<H: Hooks>(hooks: H, evaluation: &mut Evaluation) -> bool {
    let index = next(hooks, evaluation);
    if evaluation.denied & bit_of(index) != 0 {
        let rule = hooks.rule(index);
        if rule.is_first != 0 {
            count_observed(hooks, evaluation, rule);
        }
        if rule.limit.counts_denied() {
            bucket::charge(hooks, &evaluation.context, index);
        }
    } else if bucket::charge(hooks, &evaluation.context, index) {
        count_passed(hooks, evaluation, hooks.rule(index));
    } else {
        let rule = hooks.rule(index);
        // Another processor came in between if the first part has counted the packet as passed.
        if rule.is_first == 0 {
            hooks.discount_rule(rule, evaluation.context.size);
        }
        count_observed(hooks, evaluation, rule);
        evaluation.denied |= rule.group;
    }
    go_on(evaluation)
}
