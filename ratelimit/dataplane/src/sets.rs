//! A table's memory, shared with the XDP program by mmap: looked at and changed without a system call a slot.

use std::{
    os::fd::{AsFd as _, AsRawFd as _},
    sync::atomic::{AtomicU64, Ordering},
};

use aya::maps::Map;
use memmap2::{MmapOptions, MmapRaw};
use ratelimit_common::{
    table::{self, SLOTS},
    wire::SetWords,
};

use super::Error;

/// The memory of an array map as words.
#[derive(Debug)]
pub(super) struct Words {
    memory: MmapRaw,
    count: usize,
}

impl Words {
    pub(super) fn map(map: &Map, count: usize) -> Result<Self, Error> {
        let Map::Array(data) = map else { return Err(Error::Object("an array that can be mapped")) };
        let memory = MmapOptions::new()
            .len(count * size_of::<u64>())
            .map_raw(data.fd().as_fd().as_raw_fd())
            .map_err(|source| Error::System { what: "mapping a table", source })?;
        Ok(Self { memory, count })
    }

    pub(super) fn all(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this many aligned words, lives as long as `self`, and everybody who writes there does
        // so with whole words.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.count) }
    }
}

/// The sets of a table.
#[derive(Debug)]
pub(super) struct Sets(Words);

impl Sets {
    /// `count` is a power of two.
    pub(super) fn map(map: &Map, count: u32) -> Result<Self, Error> {
        Words::map(map, count as usize * (size_of::<SetWords>() / size_of::<u64>())).map(Self)
    }

    /// In memory of this process alone.
    #[cfg(test)]
    pub(super) fn anonymous(count: u32) -> Self {
        let count = count as usize * (size_of::<SetWords>() / size_of::<u64>());
        let memory = memmap2::MmapMut::map_anon(count * size_of::<u64>()).unwrap();
        Self(Words { memory: memory.into(), count })
    }

    /// All slots in their order, [`SLOTS`] of each set.
    pub(super) fn slots(&self) -> &[[AtomicU64; 2]] {
        self.0.all().as_chunks().0
    }

    /// The set that a number's low bits pick.
    pub(super) fn set(&self, number: u64) -> Option<MappedSet<'_>> {
        let (sets, _) = self.slots().as_chunks::<SLOTS>();
        sets.get(number as usize & sets.len().wrapping_sub(1)).map(MappedSet)
    }
}

/// Eight slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct MappedSet<'m>(&'m [[AtomicU64; 2]; SLOTS]);

impl<'m> table::Set for MappedSet<'m> {
    type Slot = MappedSlot<'m>;

    fn slot(self, index: usize) -> MappedSlot<'m> {
        MappedSlot(&self.0[index % SLOTS])
    }
}

/// A key and a state.
#[derive(Clone, Copy, Debug)]
pub(super) struct MappedSlot<'m>(&'m [AtomicU64; 2]);

impl table::Slot for MappedSlot<'_> {
    fn key(self) -> u64 {
        self.0[0].load(Ordering::SeqCst)
    }

    fn state(self) -> u64 {
        self.0[1].load(Ordering::SeqCst)
    }

    fn swap_key(self, key: u64) {
        self.0[0].swap(key, Ordering::SeqCst);
    }

    fn replace_state(self, current: u64, new: u64) -> bool {
        self.0[1].compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn release_state(self, new: u64) {
        self.0[1].swap(new, Ordering::SeqCst);
    }
}
