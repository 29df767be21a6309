//! A bucket table of one thread, as large as the kernel's, over the same code.

use std::cell::Cell;

use ratelimit_common::{
    limit::Limit,
    table::{self, Home, Key, SLOTS, Tag},
    wire::{CompiledRule, RULE_NUMBERS},
};

/// The memory, and the limits in it.
#[derive(Debug)]
pub struct FixedTable {
    slots: Vec<[Cell<u64>; 2]>,
    limits: Vec<Option<Limit>>,
}

impl FixedTable {
    /// Empty, with `sets` sets, a power of two.
    pub fn new(sets: usize, rules: &[CompiledRule]) -> Self {
        let mut limits = vec![None; RULE_NUMBERS];
        for rule in rules {
            if let Some(limit) = limits.get_mut(rule.number as usize) {
                *limit = Some(rule.limit);
            }
        }
        Self { slots: vec![[Cell::new(0), Cell::new(0)]; sets * SLOTS], limits }
    }

    /// The set with the number in these bits.
    pub fn set(&self, bits: u64) -> FixedSet<'_> {
        let sets = self.slots.len() / SLOTS;
        let first = (bits as usize & (sets - 1)) * SLOTS;
        FixedSet(&self.slots[first..first + SLOTS])
    }
}

impl<'t> table::Table for &'t FixedTable {
    type Set = FixedSet<'t>;

    fn home(&self, key: &Key) -> Option<Home<FixedSet<'t>>> {
        Some(Home { first: self.set(key.first()), second: self.set(key.second()), stamp: 0 })
    }

    fn limit(&self, tag: Tag) -> Option<&Limit> {
        self.limits.get(CompiledRule::number_of(tag) as usize)?.as_ref()
    }

    fn on_live_eviction(&self) {}
}

/// Eight slots.
#[derive(Clone, Copy, Debug)]
pub struct FixedSet<'t>(&'t [[Cell<u64>; 2]]);

impl<'t> table::Set for FixedSet<'t> {
    type Slot = FixedSlot<'t>;

    fn slot(self, index: usize) -> FixedSlot<'t> {
        FixedSlot(&self.0[index])
    }
}

/// A key and a state.
#[derive(Clone, Copy)]
pub struct FixedSlot<'t>(&'t [Cell<u64>; 2]);

impl table::Slot for FixedSlot<'_> {
    fn key(self) -> u64 {
        self.0[0].get()
    }

    fn state(self) -> u64 {
        self.0[1].get()
    }

    fn swap_key(self, key: u64) {
        self.0[0].set(key);
    }

    fn replace_state(self, current: u64, new: u64) -> bool {
        let is_current = self.state() == current;
        if is_current {
            self.0[1].set(new);
        }
        is_current
    }

    fn release_state(self, new: u64) {
        self.0[1].set(new);
    }
}
