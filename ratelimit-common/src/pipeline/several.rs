//! Several rules that match one packet and drop: each bucket is looked up and decided once, and only if all allow the packet,
//! what was decided is put in force, bucket by bucket.
//!
//! That is for limits that keep arrival times, and for buckets that are there and that nobody else is at; all others are
//! asked one by one.

use super::{Evaluation, Hooks};
use crate::{algorithm::decide_by_arrival, limit::StateKind, table::SlotAddress, wire::CompiledRule};

/// The most rules for which there is room.
pub const MOST: usize = 8;

/// What came of it. A number, because functions that the kernel verifies once return nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Settled(u64);

impl Settled {
    /// All have allowed the packet and are charged and counted.
    pub const ALLOWED: Self = Self(0);
    /// The first of those that are left has denied it, and nothing was charged.
    pub const DENIED: Self = Self(1);
    /// Those that are left have not been charged, since somebody else was at the bucket of the first one.
    pub const DISTURBED: Self = Self(2);
    /// Nothing has changed, and the rules must be asked one by one.
    pub const UNUSUAL: Self = Self(3);

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
}

/// What was decided about buckets, and where they lie.
struct DecidedBuckets<const N: usize> {
    addresses: [SlotAddress; N],
    states: [(u64, u64); N],
}

/// Asks the rules that are left, and charges them if all of them allow the packet. `N`: for how many there is room.
#[inline(always)]
pub fn charge<const N: usize, H: Hooks>(hooks: H, evaluation: &mut Evaluation) -> Settled {
    let rules = evaluation.left;
    let mut decided = DecidedBuckets { addresses: [SlotAddress::default(); N], states: [(0, 0); N] };
    let mut count = 0;
    while let (Some(address), Some(states)) =
        (decided.addresses.get_mut(count), decided.states.get_mut(count))
    {
        match ask(hooks, evaluation, next(hooks, evaluation)) {
            Ok(what) => (*address, *states) = what,
            Err(settled) => {
                if settled == Settled::UNUSUAL {
                    evaluation.left = rules;
                }
                return settled;
            }
        }
        count += 1;
        evaluation.left &= evaluation.left.wrapping_sub(1);
        if evaluation.left == 0 {
            break;
        }
    }
    let are_all = evaluation.left == 0;
    evaluation.left = rules;
    if are_all { take_all(hooks, evaluation, &decided) } else { Settled::UNUSUAL }
}

/// The first rule that is left.
#[inline(always)]
fn next<'h, H: Hooks + 'h>(hooks: H, evaluation: &Evaluation) -> &'h CompiledRule {
    hooks.rule(hooks.index_of(evaluation.left & evaluation.left.wrapping_neg()))
}

/// Where a rule's bucket lies, and its states before and after the packet.
#[inline(always)]
fn ask<H: Hooks>(
    hooks: H,
    evaluation: &Evaluation,
    rule: &CompiledRule,
) -> Result<(SlotAddress, (u64, u64)), Settled> {
    if rule.limit.kind() != StateKind::ArrivalTime {
        return Err(Settled::UNUSUAL);
    }
    let request = evaluation.context.request(hooks, rule);
    let Some(known) = hooks.find(&request.key) else { return Err(Settled::UNUSUAL) };
    let Some(before) = known.state() else { return Err(Settled::UNUSUAL) };
    match decide_by_arrival(&rule.limit, before, request.now, request.cost) {
        (true, after) => Ok((known.address(), (before, after))),
        (false, _) => Err(Settled::DENIED),
    }
}

/// Puts what was decided in force.
#[inline(always)]
fn take_all<const N: usize, H: Hooks>(
    hooks: H,
    evaluation: &mut Evaluation,
    decided: &DecidedBuckets<N>,
) -> Settled {
    let rules = evaluation.left;
    for (address, &(before, after)) in decided.addresses.iter().zip(&decided.states) {
        let is_taken = hooks.set(address.bits()).is_some_and(|set| address.replace(set, before, after));
        if !is_taken {
            return if evaluation.left == rules { Settled::UNUSUAL } else { Settled::DISTURBED };
        }
        let rule = next(hooks, evaluation);
        if rule.is_first != 0 {
            hooks.count_rule(rule, false, evaluation.context.size);
        }
        evaluation.left &= evaluation.left.wrapping_sub(1);
        if evaluation.left == 0 {
            break;
        }
    }
    Settled::ALLOWED
}
