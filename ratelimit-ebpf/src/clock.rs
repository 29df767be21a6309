//! The time of a packet. Reading the clock costs more than judging by it, so it is read once, and only if needed.

use aya_ebpf::{helpers::generated::bpf_ktime_get_ns, macros::map, maps::Array};
use ratelimit_common::time::{Nanos, Now};

use crate::globals::globals;

/// CLOCK_MONOTONIC as a test wants it.
#[map]
static TEST_CLOCK: Array<u64> = Array::with_max_entries(1, 0);

#[inline(always)]
pub fn now() -> Now {
    let time = if globals().test_clock == 0 {
        // SAFETY: the helper takes nothing.
        unsafe { bpf_ktime_get_ns() }
    } else {
        TEST_CLOCK.get(0).copied().unwrap_or(0)
    };
    Now(Nanos(time.wrapping_sub(globals().epoch)))
}
