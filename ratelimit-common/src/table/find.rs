//! In which slot the bucket of a key lies.

use super::{Home, Set, key::SECOND};
#[cfg(target_arch = "bpf")]
use super::{SLOTS, Slot as _};
#[cfg(target_arch = "bpf")]
use crate::verifier::opaque;

/// The slot of a key, and the key as the slot holds it.
#[inline(always)]
pub(super) fn find<S: Set>(home: &Home<S>, word: u64) -> Option<(S::Slot, u64)> {
    if let Some(slot) = find_in(home.first, word) {
        return Some((slot, word));
    }
    find_in(home.second, word | SECOND).map(|slot| (slot, word | SECOND))
}

/// The slot of a set whose key is `word`.
#[inline(always)]
pub(super) fn find_in<S: Set>(set: S, word: u64) -> Option<S::Slot> {
    find_index_in(set, word).map(|index| set.slot(index))
}

/// The index of the slot of a set whose key is `word`.
#[cfg(not(target_arch = "bpf"))]
#[inline(always)]
pub(super) fn find_index_in<S: Set>(set: S, word: u64) -> Option<usize> {
    set.find(word)
}

/// The index of the slot of a set whose key is `word`.
#[cfg(target_arch = "bpf")]
#[inline(always)]
pub(super) fn find_index_in<S: Set>(set: S, word: u64) -> Option<usize> {
    for index in 0..SLOTS {
        let key = set.slot(index).key();
        if key == word {
            return Some(some_index(index, key ^ word));
        }
    }
    None
}

/// The same index, by way of a zero that neither the compiler nor the verifier knows: what follows is then verified
/// once, not once for each slot.
#[cfg(target_arch = "bpf")]
#[inline(always)]
fn some_index(index: usize, zero: u64) -> usize {
    (index + opaque(zero) as usize) % SLOTS
}
