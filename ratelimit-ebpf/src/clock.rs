//! The time of a packet. Reading the clock costs more than judging by it, so it is read once, and only if needed.

use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use ratelimit_common::time::{Nanos, Now};

use crate::{dry_run, globals::globals};

#[inline(always)]
pub fn now() -> Now {
    let time = match dry_run::clock() {
        Some(time) => time,
        // SAFETY: the helper takes nothing.
        None => unsafe { bpf_ktime_get_ns() },
    };
    Now(Nanos(time.wrapping_sub(globals().epoch)))
}
