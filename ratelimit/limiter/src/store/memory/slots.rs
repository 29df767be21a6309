//! Sets and slots of the table, as the shared code of `ratelimit-common::table` uses them.

use std::{
    hint::select_unpredictable,
    sync::atomic::{AtomicU64, Ordering},
};

use ratelimit_common::table::{self, BUSY, SLOTS};

use super::reserve::{ReservedSet, SlotWords};

/// A set, as it was at the time of `stamp`.
#[derive(Clone, Copy, Debug)]
pub struct MemorySet<'g> {
    /// The memory.
    pub words: &'g ReservedSet,
    /// The control word.
    pub control: &'g AtomicU64,
    /// What it was.
    pub stamp: u64,
}

impl<'g> table::Set for MemorySet<'g> {
    type Slot = MemorySlot<'g>;

    #[inline]
    fn slot(self, index: usize) -> MemorySlot<'g> {
        MemorySlot { words: &self.words.0[index % SLOTS], control: self.control, stamp: self.stamp }
    }

    /// Looks at all eight: where a key lies can't be predicted, and a wrong guess takes longer.
    #[inline]
    fn find(self, word: u64) -> Option<usize> {
        let mut found = SLOTS;
        for (index, slot) in self.words.0.iter().enumerate().rev() {
            found = select_unpredictable(slot.key.load(Ordering::SeqCst) == word, index, found);
        }
        if found == SLOTS { None } else { Some(found) }
    }
}

/// A slot, as it was at the time of `stamp`.
#[derive(Clone, Copy, Debug)]
pub struct MemorySlot<'g> {
    words: &'g SlotWords,
    control: &'g AtomicU64,
    stamp: u64,
}

impl table::Slot for MemorySlot<'_> {
    #[inline]
    fn key(self) -> u64 {
        self.words.key.load(Ordering::SeqCst)
    }

    #[inline]
    fn state(self) -> u64 {
        self.words.state.load(Ordering::SeqCst)
    }

    #[inline]
    fn swap_key(self, key: u64) {
        self.words.key.swap(key, Ordering::SeqCst);
    }

    /// Makes the slot busy first, so that it can't be moved while the control word is looked at. Comparing states alone
    /// would not do: the bucket may have moved away, and another come here that has the same state.
    #[inline]
    fn replace_state(self, current: u64, new: u64) -> bool {
        if self.words.state.compare_exchange(current, BUSY, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        let holds = self.control.load(Ordering::SeqCst) == self.stamp;
        if !holds || new != BUSY {
            self.release_state(if holds { new } else { current });
        }
        holds
    }

    #[inline]
    fn release_state(self, new: u64) {
        self.words.state.store(new, Ordering::Release);
    }
}
