//! Where the present lies in its epoch-aligned window, and window ends as states keep them.
//!
//! A state's high bits hold the end of a window, rounded up to a multiple of 2^`count_bits` ticks, which is at most one
//! window long: so two windows never look the same, and a state as a number is never below the end that it stands for.

use crate::{
    limit::Limit,
    time::{Nanos, Now, Ticks},
};

/// The present window.
#[derive(Clone, Copy)]
pub(super) struct Window {
    /// Time until it ends, at least 1 ns.
    pub left: Nanos,
    /// When it ends.
    pub end: Ticks,
}

impl Window {
    #[inline(always)]
    pub(super) fn at(limit: &Limit, now: Now) -> Self {
        let into = limit.window.divide(now.0.0.wrapping_add(limit.phase.0)).1;
        let left = Nanos(limit.window.get().wrapping_sub(into));
        Self { left, end: Ticks(now.ticks().0.wrapping_add(left.to_ticks().0)) }
    }

    /// The end of the window `count` later (or earlier, as a wrapped number).
    #[inline(always)]
    pub(super) fn end_after(&self, limit: &Limit, count: u64) -> Ticks {
        Ticks(self.end.0.wrapping_add(count.wrapping_mul(limit.window.get() << Ticks::SHIFT)))
    }
}

/// The high bits of a state for a window end; the low bits are zero.
#[inline(always)]
pub(super) const fn code(limit: &Limit, end: Ticks) -> u64 {
    let low = low_bits(limit.count_bits);
    end.0.wrapping_add(low) & !low
}

/// The high bits of `state`.
#[inline(always)]
pub(super) const fn code_of(limit: &Limit, state: u64) -> u64 {
    state & !low_bits(limit.count_bits)
}

/// A mask of the lowest `count` bits.
#[inline(always)]
pub(crate) const fn low_bits(count: u8) -> u64 {
    (1_u64 << (count & 63)) - 1
}

/// Keeps a state below the reserved [`crate::table::BUSY`].
#[inline(always)]
pub(super) const fn not_busy(state: u64) -> u64 {
    if state >= crate::table::BUSY { crate::table::BUSY - 1 } else { state }
}

/// How many windows lie between the window that ends at `end` and the one whose end has the code `code`, which lies
/// ahead.
///
/// A code is less than a window above the end that it stands for, so the quotient is exact.
#[inline(always)]
pub(super) fn windows_between(limit: &Limit, now: Now, end: Ticks, code: u64) -> u64 {
    let distance = now.ahead_of(end, Ticks(code), limit.far_of_intervals());
    limit.window.divide(distance.0 >> Ticks::SHIFT).0
}
