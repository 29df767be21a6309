//! Several rules that match one packet and drop: each bucket is looked up and decided once, and only if all allow the
//! packet, what was decided is put in force, bucket by bucket.
//!
//! With many rules, all sets are touched before the first bucket is searched for, so that they come from memory at the
//! same time. Two rules, which a limit by two prefix lengths is, need nothing but registers.
//!
//! That is for limits that keep arrival times, and for buckets that are there and that nobody else is at; all others
//! are asked one by one.

use super::{Evaluation, Hooks};
use crate::{
    algorithm::decide_by_arrival,
    limit::StateKind,
    table::{BucketRef, Set as _, SlotAddress},
    wire::CompiledRule,
};

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

/// What was decided about a bucket: where it lies, and its states before and after the packet.
struct DecidedBucket<S> {
    bucket: BucketRef<S>,
    before: u64,
    after: u64,
}

/// What was decided about buckets, in arrays, because the kernel has little stack.
struct DecidedBuckets {
    addresses: [SlotAddress; MOST],
    states: [(u64, u64); MOST],
}

/// Whether these are the bits of two rules.
#[must_use]
#[inline(always)]
pub const fn are_two(rules: u64) -> bool {
    let second = rules & rules.wrapping_sub(1);
    second != 0 && second & second.wrapping_sub(1) == 0
}

/// Asks the two rules that are left, and charges them if both allow the packet.
#[inline(always)]
pub fn charge_two<H: Hooks>(hooks: H, evaluation: &mut Evaluation) -> Settled {
    let second = evaluation.left & evaluation.left.wrapping_sub(1);
    let rules = [evaluation.left ^ second, second].map(|bit| hooks.rule(hooks.index_of(bit)));
    let one = match find(hooks, evaluation, rules[0]) {
        Ok(decided) => decided,
        Err(settled) => return settled,
    };
    let other = match find(hooks, evaluation, rules[1]) {
        Ok(decided) => decided,
        Err(settled) => {
            if settled == Settled::DENIED {
                evaluation.left = second;
            }
            return settled;
        }
    };
    if !one.bucket.replace(one.before, one.after) {
        return Settled::UNUSUAL;
    }
    count(hooks, evaluation, rules[0]);
    if !other.bucket.replace(other.before, other.after) {
        evaluation.left = second;
        return Settled::DISTURBED;
    }
    count(hooks, evaluation, rules[1]);
    Settled::ALLOWED
}

/// Asks all rules that are left, up to [`MOST`], and charges them if all of them allow the packet.
#[inline(always)]
pub fn charge<H: Hooks>(hooks: H, evaluation: &mut Evaluation) -> Settled {
    let rules = evaluation.left;
    touch_all(hooks, evaluation);
    let mut decided = DecidedBuckets { addresses: [SlotAddress::default(); MOST], states: [(0, 0); MOST] };
    let mut count = 0;
    while let (Some(address), Some(states)) =
        (decided.addresses.get_mut(count), decided.states.get_mut(count))
    {
        match find(hooks, evaluation, next(hooks, evaluation)) {
            Ok(one) => (*address, *states) = (one.bucket.address(), (one.before, one.after)),
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

/// Has the set of each bucket on its way. Keys are worked out once more when the buckets are searched for: kept until
/// then, they would have old kernels verify three times as many instructions.
#[inline(always)]
fn touch_all<H: Hooks>(hooks: H, evaluation: &Evaluation) {
    let mut left = evaluation.left;
    for _ in 0..MOST {
        if left == 0 {
            break;
        }
        let rule = hooks.rule(hooks.index_of(left & left.wrapping_neg()));
        if let Some(set) = hooks.set(evaluation.context.key(hooks, rule).first()) {
            set.touch();
        }
        left &= left.wrapping_sub(1);
    }
}

/// Puts what was decided in force.
#[inline(always)]
fn take_all<H: Hooks>(hooks: H, evaluation: &mut Evaluation, decided: &DecidedBuckets) -> Settled {
    let rules = evaluation.left;
    for (address, &(before, after)) in decided.addresses.iter().zip(&decided.states) {
        let is_taken = hooks.set(address.bits()).is_some_and(|set| address.replace(set, before, after));
        if !is_taken {
            return if evaluation.left == rules { Settled::UNUSUAL } else { Settled::DISTURBED };
        }
        count(hooks, evaluation, next(hooks, evaluation));
        evaluation.left &= evaluation.left.wrapping_sub(1);
        if evaluation.left == 0 {
            break;
        }
    }
    Settled::ALLOWED
}

/// Finds a rule's bucket, and decides about it.
#[inline(always)]
fn find<H: Hooks>(
    hooks: H,
    evaluation: &Evaluation,
    rule: &CompiledRule,
) -> Result<DecidedBucket<H::Set>, Settled> {
    if rule.limit.kind() != StateKind::ArrivalTime {
        return Err(Settled::UNUSUAL);
    }
    let Some(bucket) = hooks.find(&evaluation.context.key(hooks, rule)) else { return Err(Settled::UNUSUAL) };
    let Some(before) = bucket.state() else { return Err(Settled::UNUSUAL) };
    let context = &evaluation.context;
    match decide_by_arrival(&rule.limit, before, context.now, context.cost(hooks, rule)) {
        (true, after) => Ok(DecidedBucket { bucket, before, after }),
        (false, _) => Err(Settled::DENIED),
    }
}

/// Counts a packet under a rule that allowed it, once for all its parts.
#[inline(always)]
fn count<H: Hooks>(hooks: H, evaluation: &Evaluation, rule: &CompiledRule) {
    if rule.is_first != 0 {
        hooks.count_rule(rule, false, evaluation.context.size);
    }
}
