//! State words from the numbers that another store keeps of a bucket: times in full, and counts beside them.
//!
//! Times are nanoseconds since the zero that the present counts from too; what lies further back does not matter any
//! more.

use super::{
    fresh, sliding_window_counter,
    window::{code, low_bits, not_busy},
};
use crate::{
    limit::Limit,
    time::{Nanos, Now, Ticks},
};

/// The state of a bucket that is full again after so long.
#[must_use]
pub const fn arrival(now: Now, ahead: Ticks) -> u64 {
    now.plus(ahead).0
}

/// The state of a window that ends at `end` and has counted so much; of a bucket with `refill: interval`, that of one
/// whose last refill comes then and brings so much.
#[must_use]
pub fn window(limit: &Limit, now: Now, end: Nanos, count: u64) -> u64 {
    if end <= now.0 {
        return fresh(now);
    }
    not_busy(code(limit, end.to_ticks()) | count.min(low_bits(limit.count_bits)))
}

/// The state of a sliding counter whose current window ends at `end`, with the counts of the window before and its own.
#[must_use]
pub fn sliding(limit: &Limit, end: Nanos, previous: u64, current: u64) -> u64 {
    sliding_window_counter::word(limit, end.to_ticks(), previous, current)
}
