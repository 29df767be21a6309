//! Memory that the daemon no longer needs goes back to the system.
//!
//! Reading, compiling and loading a policy takes megabytes for a moment, each time on another thread. The allocator
//! keeps an arena for each of them, and by default raises the size of what it keeps at the end of an arena to twice the
//! largest buffer that was freed: one reload could leave 9 MB.

/// What the allocator may keep at the end of each of its arenas: enough for the buffers of connections.
#[cfg(target_env = "gnu")]
const KEPT_FOR_AN_ARENA: libc::c_int = 1 << 20;

/// Makes the allocator keep little of what is freed. It is to be called before there are other threads.
pub fn keep_little() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and any number is a valid threshold.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_FOR_AN_ARENA);
    }
}

/// Gives back what is free between the things that are in use.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and may be called while other threads allocate.
    unsafe {
        libc::malloc_trim(0);
    }
}
