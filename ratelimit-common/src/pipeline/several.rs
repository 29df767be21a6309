//! Several rules that match one packet and drop: each bucket is looked up and decided once, and only if all allow the packet,
//! what was decided is put in force, bucket by bucket.
//!
//! Of many rules all sets are touched before the first bucket is searched for, so that they come from memory at the same
//! time. Two rules, which a limit by two prefix lengths is, need nothing but registers.
//!
//! That is for limits that keep arrival times, and for buckets that are there and that nobody else is at; all others are
//! asked one by one.

use super::{Evaluation, Hooks};
use crate::{
    algorithm::decide_by_arrival,
    limit::StateKind,
    table::{BucketRef, Key, Set as _, SlotAddress},
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

/// What is known of each bucket, in arrays, because the kernel has little stack.
struct Buckets {
    /// Where its rule is.
    rules: [u8; MOST],
    /// Its key; once it is decided, its states before and after the packet.
    words: [(u64, u64); MOST],
    /// Where it lies, once it is decided.
    addresses: [SlotAddress; MOST],
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
    let one = match find(hooks, evaluation, rules[0], || key(hooks, evaluation, rules[0])) {
        Ok(decided) => decided,
        Err(settled) => return settled,
    };
    let other = match find(hooks, evaluation, rules[1], || key(hooks, evaluation, rules[1])) {
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
    let mut buckets =
        Buckets { rules: [0; MOST], words: [(0, 0); MOST], addresses: [SlotAddress::default(); MOST] };
    if !touch_all(hooks, evaluation, &mut buckets) {
        return Settled::UNUSUAL;
    }
    let settled = decide_all(hooks, evaluation, &mut buckets);
    if settled == Settled::DENIED {
        return settled;
    }
    evaluation.left = rules;
    if settled == Settled::ALLOWED { take_all(hooks, evaluation, &buckets) } else { settled }
}

/// Works out the key of each bucket, and has its set on the way; `false` if there are too many, or the rule is of another
/// kind.
#[inline(always)]
fn touch_all<H: Hooks>(hooks: H, evaluation: &Evaluation, buckets: &mut Buckets) -> bool {
    let mut left = evaluation.left;
    for (place, words) in buckets.rules.iter_mut().zip(&mut buckets.words) {
        let index = hooks.index_of(left & left.wrapping_neg());
        let rule = hooks.rule(index);
        if rule.limit.kind() != StateKind::ArrivalTime {
            return false;
        }
        let key = key(hooks, evaluation, rule);
        if let Some(set) = hooks.set(key.first()) {
            set.touch();
        }
        (*place, *words) = (index as u8, key.words());
        left &= left.wrapping_sub(1);
        if left == 0 {
            return true;
        }
    }
    false
}

/// Decides about each bucket. [`Settled::ALLOWED`]: all allow the packet, and nothing is charged yet.
#[inline(always)]
fn decide_all<H: Hooks>(hooks: H, evaluation: &mut Evaluation, buckets: &mut Buckets) -> Settled {
    let all = buckets.rules.iter().zip(&mut buckets.words).zip(&mut buckets.addresses);
    for ((&place, words), address) in all {
        match find(hooks, evaluation, hooks.rule(place.into()), || Key::of_words(*words)) {
            Ok(decided) => {
                (*words, *address) = ((decided.before, decided.after), decided.bucket.address());
            }
            Err(settled) => return settled,
        }
        evaluation.left &= evaluation.left.wrapping_sub(1);
        if evaluation.left == 0 {
            break;
        }
    }
    Settled::ALLOWED
}

/// Puts what was decided in force.
#[inline(always)]
fn take_all<H: Hooks>(hooks: H, evaluation: &mut Evaluation, buckets: &Buckets) -> Settled {
    let rules = evaluation.left;
    let all = buckets.rules.iter().zip(&buckets.words).zip(&buckets.addresses);
    for ((&place, &(before, after)), address) in all {
        let is_taken = hooks.set(address.bits()).is_some_and(|set| address.replace(set, before, after));
        if !is_taken {
            return if evaluation.left == rules { Settled::UNUSUAL } else { Settled::DISTURBED };
        }
        count(hooks, evaluation, hooks.rule(place.into()));
        evaluation.left &= evaluation.left.wrapping_sub(1);
        if evaluation.left == 0 {
            break;
        }
    }
    Settled::ALLOWED
}

/// The key of a rule's bucket.
#[inline(always)]
fn key<H: Hooks>(hooks: H, evaluation: &Evaluation, rule: &CompiledRule) -> Key {
    evaluation.context.key(hooks, rule)
}

/// Finds a rule's bucket, and decides about it.
#[inline(always)]
fn find<H: Hooks>(
    hooks: H,
    evaluation: &Evaluation,
    rule: &CompiledRule,
    key: impl FnOnce() -> Key,
) -> Result<DecidedBucket<H::Set>, Settled> {
    if rule.limit.kind() != StateKind::ArrivalTime {
        return Err(Settled::UNUSUAL);
    }
    let Some(bucket) = hooks.find(&key()) else { return Err(Settled::UNUSUAL) };
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
