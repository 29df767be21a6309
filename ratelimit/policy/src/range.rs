//! What a number in the configuration may be: said once, where its type is; the reader and the reference take it from
//! there.

use std::fmt;

/// Whole numbers from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Range {
    /// From `least` to `most`.
    #[must_use]
    pub const fn new(least: u64, most: u64) -> Self {
        Self { least, most }
    }

    /// Whether a number is in it.
    #[must_use]
    pub const fn contains(self, number: u64) -> bool {
        self.least <= number && number <= self.most
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "number from {} to {}", self.least, self.most)
    }
}
