//! Whether two slots hold the same key, after both were taken at once.

use super::{BUSY, Home, Position, SLOTS, Set, Slot as _, bits::is_zero, key::SECOND};
use crate::verifier::in_order;

/// How often the claim that goes on looks whether the other has given way.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 16 };

/// Whether another slot holds the same key, which then is the bucket.
///
/// Two that claim at once may see each other. Then the one in the later slot gives way, and the other waits for that;
/// without this rule both could give way again and again.
#[inline(always)]
pub fn is_elsewhere<S: Set>(home: &Home<S>, word: u64, mine: Position) -> bool {
    let mine = 1 << mine.rank();
    // As good as always nobody else has it.
    if same(home, word) & !mine == 0 {
        return false;
    }
    for _ in 0..LOOKS {
        let (held, busy) = holders(home, word);
        let others = held & !mine;
        if others == 0 {
            return false;
        }
        if others & !busy != 0 || others & (mine - 1) != 0 {
            return true;
        }
    }
    true
}

/// Which slots hold a key, as bits by rank.
#[inline(always)]
fn same<S: Set>(home: &Home<S>, word: u64) -> u64 {
    let mut bits = 0;
    for index in 0..SLOTS {
        bits |= is_zero(home.first.slot(index).key() ^ word) << index;
        bits = in_order(bits | is_zero(home.second.slot(index).key() ^ (word | SECOND)) << (SLOTS + index));
    }
    bits
}

/// Which slots hold a key, and which of all are being taken, as bits by rank.
#[inline(always)]
fn holders<S: Set>(home: &Home<S>, word: u64) -> (u64, u64) {
    let (first, second) = (home.first.holders(word), home.second.holders(word | SECOND));
    (first & LOW | (second & LOW) << SLOTS, first >> 32 | second >> 32 << SLOTS)
}

const LOW: u64 = 0xffff_ffff;

/// The same for one set in one number: who is being taken in the high half.
#[inline(always)]
pub fn holders_in<S: Set>(set: S, word: u64) -> u64 {
    let mut bits = 0;
    for index in 0..SLOTS {
        let slot = set.slot(index);
        bits |= is_zero(slot.key() ^ word) << index;
        bits = in_order(bits | is_zero(slot.state() ^ BUSY) << (32 + index));
    }
    bits
}
