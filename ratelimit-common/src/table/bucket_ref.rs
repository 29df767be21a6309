//! Buckets that are there, which is most of the time: found once, then charged in place.

use super::{Key, SLOTS, Set, Slot as _, find::find_index_in, read};
use crate::verifier::opaque;

/// A bucket that was found: where it lies, and what its slot holds as its key.
#[derive(Clone, Copy, Debug)]
pub struct BucketRef<S> {
    set: S,
    /// The bits that picked the set.
    bits: u64,
    index: usize,
    word: u64,
}

/// Where a bucket lies: the lowest bits that picked its set, and the slot's index in it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct SlotAddress(u32);

const INDEX_BITS: u32 = SLOTS.trailing_zeros();

impl<S: Set> BucketRef<S> {
    /// The bucket with this key, if there is one. The second set is only computed if the first does not have it, as
    /// most do.
    #[inline(always)]
    pub fn find(first: S, second: impl FnOnce() -> Option<S>, key: &Key) -> Option<Self> {
        if let Some(index) = find_index_in(first, key.first_word()) {
            return Some(Self { set: first, bits: key.first(), index, word: key.first_word() });
        }
        let set = second()?;
        let index = find_index_in(set, key.second_word())?;
        Some(Self { set, bits: key.second(), index, word: key.second_word() })
    }

    /// Its state; `None` if somebody is taking the slot.
    #[inline(always)]
    pub fn state(&self) -> Option<u64> {
        read(self.set.slot(self.index), self.word)
    }

    /// Gives it another state, if it is still in the one that [`Self::state`] has said: then it is the same bucket,
    /// too.
    #[inline(always)]
    #[must_use]
    pub fn replace(&self, before: u64, after: u64) -> bool {
        self.set.slot(self.index).replace_state(before, after)
    }

    /// Where it lies.
    #[inline(always)]
    pub fn address(&self) -> SlotAddress {
        SlotAddress((self.bits << INDEX_BITS) as u32 | self.index as u32)
    }
}

impl SlotAddress {
    /// The bits that pick the set; those that no table is large enough for are gone.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u64 {
        (self.0 >> INDEX_BITS) as u64
    }

    /// [`BucketRef::replace`] of the bucket that lay here in its set.
    #[inline(always)]
    pub(crate) fn replace<S: Set>(self, set: S, before: u64, after: u64) -> bool {
        set.slot(opaque(self.0.into()) as usize % SLOTS).replace_state(before, after)
    }
}
