//! Requests to the kernel that aya lacks: a pinned link is taken off its interface at once, whoever holds it open; a
//! wait until no processor runs a program that has been replaced; and requests that only tell whether a kernel knows
//! them.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use nix::libc;

// From the kernel's interface: what bpf(2) is asked to do, and numbers of what it is about.
const MAP_CREATE: i64 = 0;
const MAP_LOOKUP_ELEM: i64 = 1;
const PROG_LOAD: i64 = 5;
const OBJ_GET: i64 = 7;
pub(super) const LINK_UPDATE: i64 = 29;
pub(super) const LINK_DETACH: i64 = 34;
const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_XDP: u32 = 6;

/// A hash takes memory only for what is in it.
pub(super) const NO_PREALLOC: u32 = 1;

/// User space may map an array's memory.
pub(super) const MMAPABLE: u32 = 1 << 10;

/// Detaches the link that is pinned at `pin`. The pin stays.
pub(super) fn detach_link(pin: &Path) -> io::Result<()> {
    let path = CString::new(pin.as_os_str().as_bytes())?;
    // `pathname`, then `bpf_fd` and `file_flags`.
    let link = new_descriptor(OBJ_GET, &[path.as_ptr() as u64, 0])?;
    bpf(LINK_DETACH, &[pair(link.as_raw_fd().cast_unsigned(), 0), 0]).map(drop)
}

/// Loads an XDP program that goes away again with what is returned.
pub(super) fn load_xdp(instructions: &[u64], flags: u32) -> io::Result<OwnedFd> {
    let kind = pair(PROG_TYPE_XDP, instructions.len() as u32);
    // No log is asked for; the flags follow `kern_version`.
    let pointers = [instructions.as_ptr() as u64, c"GPL".as_ptr() as u64];
    new_descriptor(PROG_LOAD, &[kind, pointers[0], pointers[1], 0, 0, pair(0, flags)])
}

/// Makes an array of one word, which goes away again with what is returned.
pub(super) fn make_array(flags: u32) -> io::Result<OwnedFd> {
    new_descriptor(MAP_CREATE, &[pair(MAP_TYPE_ARRAY, 4), pair(8, 1), pair(flags, 0)])
}

/// Reads the first value of an array, which fills `value`.
pub(super) fn read_first(array: BorrowedFd<'_>, value: &mut [u8]) -> io::Result<()> {
    let key = 0_u32;
    let array = pair(array.as_raw_fd().cast_unsigned(), 0);
    bpf(MAP_LOOKUP_ELEM, &[array, (&raw const key) as u64, value.as_mut_ptr() as u64, 0]).map(drop)
}

/// Asks for something to be done with a link that there is not.
pub(super) fn ask_about_no_link(command: i64) -> io::Result<i32> {
    bpf(command, &[pair(u32::MAX, 0), 0])
}

/// Returns when every processor has come to the end of the program that it may have run when this was called.
pub(super) fn wait_for_running_programs() {
    // It waits for a grace period of RCU. A kernel that can't do it has none left out: then the time until the next
    // generation is loaded must do, which is many times as long.
    // SAFETY: numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
}

/// Two numbers as they lie in memory, whatever their order.
fn pair(first: u32, second: u32) -> u64 {
    let mut word = [0; 8];
    word[..4].copy_from_slice(&first.to_ne_bytes());
    word[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(word)
}

fn new_descriptor(command: i64, attributes: &[u64]) -> io::Result<OwnedFd> {
    let descriptor = bpf(command, attributes)?;
    // SAFETY: a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The call, with the first words of `union bpf_attr`; the kernel takes the others for zero.
fn bpf(command: i64, attributes: &[u64]) -> io::Result<i32> {
    // SAFETY: the attributes, and what they may point to, live during the call.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes)) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as i32) }
}
