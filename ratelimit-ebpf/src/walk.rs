//! Loops that the verifier checks once, not once for each turn, and walks over the bits of a set.

use core::{ffi::c_void, ptr};

use aya_ebpf::helpers::generated::bpf_loop;
use ratelimit_common::verifier::opaque;

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

/// For each residue of a bit times [`SEQUENCE`], the bit's place.
static PLACES: [u8; 64] = places();

/// A de Bruijn sequence: all windows of six bits differ.
const SEQUENCE: u64 = 0x03f7_9d71_b4cb_0a89;

const fn places() -> [u8; 64] {
    let mut places = [0; 64];
    let mut place = 0;
    while place < 64 {
        places[((1_u64 << place).wrapping_mul(SEQUENCE) >> 58) as usize] = place;
        place += 1;
    }
    places
}

/// The place of a set's only bit. There is no instruction for it.
#[inline(always)]
pub fn index_of(bit: u64) -> u64 {
    let window = opaque(bit.wrapping_mul(SEQUENCE) >> 58) as usize % 64;
    // SAFETY: the index is inside.
    unsafe { *PLACES.get_unchecked(window) as u64 }
}
