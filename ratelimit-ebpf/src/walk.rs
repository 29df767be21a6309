//! Loops that the verifier checks once, not once for each turn.

use core::{ffi::c_void, ptr};

use aya_ebpf::helpers::generated::bpf_loop;

/// One turn: its index below the count, and what the loop carries along.
pub type Turn<T> = extern "C" fn(u64, *mut T) -> i64;

/// What a turn returns to go on.
pub const GO_ON: i64 = 0;

/// What a turn returns to end the loop.
pub const STOP: i64 = 1;

/// Calls `turn` up to `count` times.
#[inline(always)]
pub fn repeat<T>(count: u32, turn: Turn<T>, carried: &mut T) {
    // SAFETY: the helper calls `turn` with an index below `count` and what is carried, and keeps neither.
    unsafe { bpf_loop(count, turn as *mut c_void, ptr::from_mut(carried).cast(), 0) };
}

/// What a turn got as a reference.
#[inline(always)]
pub fn carried<'c, T>(pointer: *mut T) -> &'c mut T {
    // SAFETY: `repeat` passes a reference that nobody else uses meanwhile.
    unsafe { &mut *pointer }
}
