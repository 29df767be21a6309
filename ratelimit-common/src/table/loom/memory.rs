//! Slots and sets in loom's atomics, with the orderings that [`Slot`] promises and no stronger ones.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};

use loom::sync::atomic::{AtomicU64, fence};

use super::scene::FOREIGN;
use crate::table::{SLOTS, Set, Slot};

/// What a load sees. Every model runs with both, because loom does not do it in one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Loads {
    /// The newest value. As failing exchanges, for which loom tries all orders; of loads and an exchange it forgets
    /// some, if the thread that exchanges has loaded the word too.
    Newest,
    /// Any value that the memory model allows.
    Stale,
}

/// A word of shared memory.
pub(super) struct Word {
    loads: Loads,
    value: AtomicU64,
}

/// No key, no state.
const NEVER: u64 = u64::MAX;

impl Word {
    pub(super) fn new(loads: Loads, value: u64) -> Self {
        Self { loads, value: AtomicU64::new(value) }
    }

    pub(super) fn load(&self) -> u64 {
        match self.loads {
            Loads::Stale => self.value.load(Acquire),
            Loads::Newest => {
                self.value.compare_exchange(NEVER, NEVER, AcqRel, Acquire).unwrap_or_else(|newest| newest)
            }
        }
    }

    pub(super) fn store(&self, new: u64) {
        self.value.store(new, Release);
    }

    fn swap(&self, new: u64) {
        self.value.swap(new, AcqRel);
        fence(SeqCst);
    }

    fn replace(&self, current: u64, new: u64) -> bool {
        let replaced = self.value.compare_exchange(current, new, AcqRel, Acquire).is_ok();
        fence(SeqCst);
        replaced
    }
}

/// A slot.
pub(super) enum Cell {
    /// One that threads meet at.
    Shared { key: Word, state: Word },
    /// A bucket of somebody else in this state, who charges it again just before anybody can take it. Costs no steps.
    Foreign(u64),
}

/// A slot as somebody sees it.
#[derive(Clone, Copy)]
pub(super) struct View<'m> {
    cell: &'m Cell,
    splits: bool,
}

impl Slot for View<'_> {
    fn key(self) -> u64 {
        match self.cell {
            Cell::Shared { key, .. } => key.load(),
            Cell::Foreign(_) => FOREIGN,
        }
    }

    fn state(self) -> u64 {
        match self.cell {
            Cell::Shared { state, .. } => state.load(),
            Cell::Foreign(state) => *state,
        }
    }

    fn swap_key(self, new: u64) {
        match self.cell {
            Cell::Shared { key, .. } => key.swap(new),
            Cell::Foreign(_) => unreachable!("nobody takes it"),
        }
    }

    fn replace_state(self, current: u64, new: u64) -> bool {
        match self.cell {
            Cell::Shared { state, .. } => state.replace(current, new),
            Cell::Foreign(_) => self.splits,
        }
    }

    fn release_state(self, new: u64) {
        match self.cell {
            Cell::Shared { state, .. } => state.store(new),
            Cell::Foreign(state) => assert_eq!(new, *state),
        }
    }
}

/// A set as somebody sees it.
#[derive(Clone, Copy)]
pub(super) struct Row<'m> {
    pub(super) cells: &'m [Cell; SLOTS],
    /// Whether it is the thread that splits it, which everybody makes room for in the end.
    pub(super) splits: bool,
}

impl<'m> Set for Row<'m> {
    type Slot = View<'m>;

    fn slot(self, index: usize) -> View<'m> {
        View { cell: &self.cells[index], splits: self.splits }
    }
}
