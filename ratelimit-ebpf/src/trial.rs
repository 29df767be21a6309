//! Rules on trial: unless somebody confirms them in time, everything passes from then on, whether or not there is a
//! daemon.

use aya_ebpf::{helpers::generated::bpf_ktime_get_ns, macros::map, maps::Array};

use crate::globals::globals;

/// When the trial ends, in nanoseconds on CLOCK_MONOTONIC; 0 if the rules are confirmed.
#[map]
static TRIAL: Array<u64> = Array::with_max_entries(1, 0);

/// Whether nobody has confirmed the rules in time.
#[inline(always)]
pub fn has_failed() -> bool {
    if globals().is_on_trial == 0 {
        return false;
    }
    match TRIAL.get(0) {
        // SAFETY: the helper takes nothing.
        Some(&end) => end != 0 && unsafe { bpf_ktime_get_ns() } >= end,
        None => false,
    }
}
