//! The bucket table's memory, shared with the XDP program by mmap: looked at and mended without a system call a slot.

use std::{
    os::fd::{AsFd as _, AsRawFd as _},
    sync::atomic::{AtomicU64, Ordering},
};

use aya::maps::{Map, MapData};
use memmap2::{MmapOptions, MmapRaw};
use ratelimit_common::{
    algorithm,
    table::{BUSY, Key},
    time::Now,
    wire::{Rule, SetWords},
};

use super::Error;

/// The mapped table.
#[derive(Debug)]
pub(super) struct Buckets {
    memory: MmapRaw,
    sets: usize,
}

impl Buckets {
    pub(super) fn map(map: &Map, sets: u32) -> Result<Self, Error> {
        let Map::Array(data) = map else { return Err(Error::Object("an array of buckets")) };
        Self::map_data(data, sets)
    }

    fn map_data(data: &MapData, sets: u32) -> Result<Self, Error> {
        let sets = sets as usize;
        let memory = MmapOptions::new()
            .len(sets * size_of::<SetWords>())
            .map_raw(data.fd().as_fd().as_raw_fd())
            .map_err(|source| Error::System { what: "mapping the bucket table", source })?;
        Ok(Self { memory, sets })
    }

    /// The key and state words of all slots, with their set's number.
    fn slots(&self) -> impl Iterator<Item = (u64, &[AtomicU64; 2])> {
        // SAFETY: the mapping has this many aligned words, lives as long as `self`, and everybody who writes there does so
        // with whole words.
        let words: &[AtomicU64] = unsafe {
            std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.sets * size_of::<SetWords>() / 8)
        };
        let (slots, _) = words.as_chunks::<2>();
        slots.iter().enumerate().map(|(index, slot)| ((index * 16 / size_of::<SetWords>()) as u64, slot))
    }

    /// Empties the buckets of rule numbers that no program uses.
    pub(super) fn forget(&self, numbers: &[u32]) {
        if numbers.is_empty() {
            return;
        }
        for (set, [key, state]) in self.slots() {
            let number = Key::of_slot(key.load(Ordering::Acquire), set).map(|key| Rule::number_of(key.tag()));
            if number.is_some_and(|number| numbers.iter().any(|&forgotten| u64::from(forgotten) == number)) {
                state.store(0, Ordering::Release);
            }
        }
    }

    /// Makes no bucket emptier than empty, after limits have become smaller.
    pub(super) fn clamp(&self, rules: &[Rule], now: Now) {
        for (set, [key, state]) in self.slots() {
            let before = state.load(Ordering::Acquire);
            let Some(key) = Key::of_slot(key.load(Ordering::Acquire), set) else { continue };
            let number = Rule::number_of(key.tag());
            let Some(rule) = rules.iter().find(|rule| rule.number == number) else { continue };
            if before == BUSY {
                continue;
            }
            let after = algorithm::clamp(&rule.limit, before, now);
            if after != before {
                // Whoever charged it meanwhile has judged by the new limit.
                let _ = state.compare_exchange(before, after, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}
