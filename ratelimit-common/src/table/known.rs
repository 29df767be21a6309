//! Buckets that are there, which is most of the time: found once, then charged in place.

use super::{Key, Set, Slot, find_in, read};

/// The slot that a bucket was found in, and what it holds as its key.
#[derive(Clone, Copy, Debug)]
pub struct Known<S> {
    slot: S,
    word: u64,
}

impl<S: Slot> Known<S> {
    /// The bucket with this key, if there is one. The second set is only computed if the first does not have it, as most do.
    #[inline(always)]
    pub fn find<T: Set<Slot = S>>(first: T, second: impl FnOnce() -> Option<T>, key: &Key) -> Option<Self> {
        if let Some(slot) = find_in(first, key.first_word()) {
            return Some(Self { slot, word: key.first_word() });
        }
        find_in(second()?, key.second_word()).map(|slot| Self { slot, word: key.second_word() })
    }

    /// Its state; `None` if somebody is taking the slot.
    #[inline(always)]
    pub fn state(&self) -> Option<u64> {
        read(self.slot, self.word)
    }

    /// Gives it another state, if it is still in the one that [`Self::state`] has said: then it is the same bucket, too.
    #[inline(always)]
    #[must_use]
    pub fn replace(&self, before: u64, after: u64) -> bool {
        self.slot.replace_state(before, after)
    }
}
