//! Which slot a new bucket takes: the one that has been idle longest of its first set, or of the second if less than
//! half of the first is idle and more of the second; if none is idle, the bucket nearest to fresh.
//!
//! The first set is where a bucket is looked for first. That it is preferred loses none: sets overflow only when most
//! are more than half full, and from there on the choice evens them out as much as one between all.
//!
//! Written without branches on the data: they would be mispredicted, and the kernel's verifier would follow each.

use super::{
    BUSY, Home, Position, SLOTS, Set, Slot as _, Table, Tag,
    bits::{is_less, is_zero},
    key,
};
use crate::{
    algorithm,
    time::{Now, Ticks},
    verifier::opaque,
};

/// The slot, and how many of the two sets' were idle at least.
#[inline(always)]
pub(super) fn slot_to_take<T: Table>(table: &T, home: &Home<T::Set>, now: Now) -> Option<(Position, u64)> {
    let base = now.order_base();
    let present = now.ticks().0.wrapping_sub(base) >> Ticks::SHIFT;
    let first = home.first.survey(base, present);
    if first >> IDLE_SHIFT > SLOTS as u64 / 2 {
        return Some((Position { second: false, index: first as usize % SLOTS }, first >> IDLE_SHIFT));
    }
    let second = home.second.survey(base, present);
    if first | second < 1 << IDLE_SHIFT {
        return table.nearest_to_fresh(home, now).map(|position| (position, 0));
    }
    let second_is_emptier = second >> IDLE_SHIFT > first >> IDLE_SHIFT;
    let survey = if second_is_emptier { second } else { first };
    let idle = (first >> IDLE_SHIFT) + (second >> IDLE_SHIFT);
    Some((Position { second: second_is_emptier, index: survey as usize % SLOTS }, idle))
}

/// Above a time in nanoseconds, which has 57 bits, and the three of an index.
const IDLE_SHIFT: u32 = 60;

/// A look at one set's states: how many are idle, in the highest four bits, and the index of the smallest, in the
/// lowest three. A state is idle if it is not above the present, and the smallest is the one that has been so for
/// longest.
#[inline(always)]
pub fn survey<S: Set>(set: S, base: u64, present: u64) -> u64 {
    let (mut idle, mut oldest) = (0, (1 << IDLE_SHIFT) - 1);
    for index in 0..SLOTS {
        let state = set.slot(index).state();
        // The present is a whole number of nanoseconds, so rounding up keeps the order.
        let time = state.wrapping_sub(base).wrapping_add((1 << Ticks::SHIFT) - 1) >> Ticks::SHIFT;
        idle += opaque(time.wrapping_sub(present + 1)) >> 63;
        let candidate = (time << 3) | index as u64;
        let difference = candidate.wrapping_sub(oldest);
        let if_smaller = opaque((difference as i64 >> 63) as u64);
        oldest = oldest.wrapping_add(difference & if_smaller);
    }
    idle << IDLE_SHIFT | oldest
}

/// The slot whose bucket has the smallest share used, of several the one that ends soonest; `None` if all are being
/// taken.
#[inline(always)]
pub fn nearest_to_fresh<T: Table>(table: &T, home: &Home<T::Set>, now: Now) -> Option<Position> {
    let (mut share, mut end, mut found) = (u64::MAX, u64::MAX, NOBODY);
    for rank in 0..2 * SLOTS {
        let position = Position::of_rank(rank);
        let slot = if position.second { home.second } else { home.first }.slot(position.index);
        let state = slot.state();
        let other = table.share_used(key::tag_of(slot.key()), state, now);
        let other_end = state.wrapping_sub(now.order_base());
        let is_nearer = is_less(other, share) | is_zero(other ^ share) & is_less(other_end, end);
        let if_nearer = (is_nearer & !is_zero(state ^ BUSY)).wrapping_neg();
        share ^= (share ^ other) & if_nearer;
        end ^= (end ^ other_end) & if_nearer;
        found ^= (found ^ rank as u64) & if_nearer;
    }
    if found == NOBODY { None } else { Some(Position::of_rank(found as usize)) }
}

/// No rank of a slot.
const NOBODY: u64 = 2 * SLOTS as u64;

/// How much of the bucket with this tag and this state is used, as [`algorithm::share_used`]; none of one that is no
/// limit's.
#[inline(always)]
pub fn share_used<T: Table>(table: &T, tag: Tag, state: u64, now: Now) -> u64 {
    table.limit(tag).map_or(0, |limit| algorithm::share_used(limit, state, now).into())
}
