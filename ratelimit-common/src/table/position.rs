//! Where a slot lies in the two sets of a key.

use super::SLOTS;

/// Where a slot lies among the 16 of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub(super) second: bool,
    pub(super) index: usize,
}

impl Position {
    /// The slot's number, below twice [`SLOTS`].
    #[must_use]
    #[inline(always)]
    pub const fn rank(self) -> usize {
        if self.second { SLOTS + self.index } else { self.index }
    }

    /// The slot with a number.
    #[must_use]
    #[inline(always)]
    pub const fn of_rank(rank: usize) -> Self {
        Self { second: rank >= SLOTS, index: rank % SLOTS }
    }
}
