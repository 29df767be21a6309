//! The time of a packet. Reading the clock costs more than judging by it, so it is read once, and only if needed.

use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use ratelimit_common::time::{Nanos, Now};

use crate::{dry_run, globals::globals};

#[inline(always)]
pub fn now() -> Now {
    Now(Nanos(monotonic().wrapping_sub(globals().epoch)))
}

/// CLOCK_MONOTONIC in nanoseconds.
#[inline(always)]
pub fn monotonic() -> u64 {
    match dry_run::clock() {
        Some(time) => time,
        // SAFETY: the helper takes nothing.
        None => unsafe { bpf_ktime_get_ns() },
    }
}
