//! Values of arrays whose index lies in memory already: a copy of it would have to be made on the stack.

use core::{ffi::c_void, ptr};

use aya_ebpf::helpers::generated::bpf_map_lookup_elem;

/// The first index of any array.
pub static FIRST: u32 = 0;

/// The value of a map at the index at an address.
///
/// # Safety
/// The map must be an array of such values.
#[inline(always)]
pub unsafe fn look_up<T>(map: *const c_void, index: &u32) -> Option<*mut T> {
    // SAFETY: the helper reads the index, and gives a value of the map or null.
    let value = unsafe { bpf_map_lookup_elem(map.cast_mut(), ptr::from_ref(index).cast()) };
    if value.is_null() { None } else { Some(value.cast()) }
}
