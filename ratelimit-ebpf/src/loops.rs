//! Loops that the verifier checks once, not once for each turn, and walks over the bits of a set.

use core::{ffi::c_void, mem::MaybeUninit, ptr};

use aya_ebpf::helpers::generated::bpf_loop;
use ratelimit_common::verifier::opaque;

/// What the helper wants to hear to go on.
const GO_ON: i64 = 0;

/// What it wants to hear to end the loop.
const STOP: i64 = 1;

/// Takes up to `count` turns, each with what is carried along, until one says that it was the last. A turn may hold
/// nothing of its own, since only its code gets to the kernel.
#[inline(always)]
pub fn repeat<T, F: Fn(&mut T) -> bool + Copy>(count: u32, carried: &mut T, _turn: F) {
    const { assert!(size_of::<F>() == 0) };
    let turn: unsafe extern "C" fn(u64, *mut T) -> i64 = take_turn::<T, F>;
    // SAFETY: the helper calls it with what is carried, and keeps neither; and here is a turn.
    unsafe { bpf_loop(count, turn as *mut c_void, ptr::from_mut(carried).cast(), 0) };
}

/// # Safety
/// The caller must have a turn, which has no size, and what is carried, which nobody else may use meanwhile.
unsafe extern "C" fn take_turn<T, F: Fn(&mut T) -> bool + Copy>(_: u64, carried: *mut T) -> i64 {
    // SAFETY: a value without a size has no bytes that could be wrong, and the caller has one.
    let turn = unsafe { MaybeUninit::<F>::uninit().assume_init() };
    // SAFETY: the caller's.
    if turn(unsafe { &mut *carried }) { GO_ON } else { STOP }
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
