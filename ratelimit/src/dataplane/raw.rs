//! Requests to the kernel that aya lacks: a pinned link is taken off its interface at once, whoever holds it open; and a
//! wait until no processor runs a program that has been replaced.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use nix::libc;

const OBJ_GET: i64 = 7;
const LINK_DETACH: i64 = 34;

/// Detaches the link that is pinned at `pin`. The pin stays.
pub(super) fn detach_link(pin: &Path) -> io::Result<()> {
    let path = CString::new(pin.as_os_str().as_bytes())?;
    // `pathname`, then `bpf_fd` and `file_flags`.
    let link = bpf(OBJ_GET, [path.as_ptr() as u64, 0])?;
    // SAFETY: a new descriptor, which nobody else owns.
    let link = unsafe { OwnedFd::from_raw_fd(link) };
    bpf(LINK_DETACH, [link_fd(&link), 0]).map(drop)
}

/// Returns when every processor has come to the end of the program that it may have run when this was called.
pub(super) fn wait_for_running_programs() {
    // It waits for a grace period of RCU. A kernel that can't do it has none left out: then the time until the next
    // generation is loaded must do, which is many times as long.
    // SAFETY: numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
}

/// `link_fd` in the first four bytes, whatever their order.
fn link_fd(link: &OwnedFd) -> u64 {
    let mut word = [0; 8];
    word[..4].copy_from_slice(&link.as_raw_fd().to_ne_bytes());
    u64::from_ne_bytes(word)
}

/// The call, with the first two words of `union bpf_attr`; the kernel takes the others for zero.
fn bpf(command: i64, attributes: [u64; 2]) -> io::Result<i32> {
    // SAFETY: the attributes, and the path that they may point to, live during the call.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(&attributes)) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as i32) }
}
