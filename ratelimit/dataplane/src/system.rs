//! Whether this process may do something about limits in the kernel at all; asked before anything is changed. What the
//! kernel can do is asked in [`super::features`].

use std::{fs, os::unix::fs::MetadataExt as _};

use nix::sys::utsname::uname;

use super::Error;

const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// What a process needs that is not root.
const NEEDED: [(u64, &str); 3] =
    [(CAP_BPF, "CAP_BPF"), (CAP_NET_ADMIN, "CAP_NET_ADMIN"), (CAP_PERFMON, "CAP_PERFMON")];

/// Whether this process can do something with limits in the kernel here; `what` is for the error.
///
/// # Errors
/// A capability is missing.
pub fn check(what: &'static str) -> Result<(), Error> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = effective_capabilities(&status).map(missing).unwrap_or_default();
    if missing.is_empty() { Ok(()) } else { Err(Error::NoPermission { what, missing: missing.join(", ") }) }
}

/// The number of the network namespace that this thread is in; `None` if `/proc` does not say.
pub(super) fn network_namespace() -> Option<u64> {
    fs::metadata("/proc/thread-self/ns/net").ok().map(|namespace| namespace.ino())
}

/// The kernel's release, for those who read an error.
pub fn release() -> String {
    uname().map_or_else(|_| "unknown".to_owned(), |system| system.release().to_string_lossy().into_owned())
}

/// What is missing; CAP_SYS_ADMIN is as good as the two that are about BPF.
fn missing(mut have: u64) -> Vec<&'static str> {
    if have & CAP_SYS_ADMIN != 0 {
        have |= CAP_BPF | CAP_PERFMON;
    }
    NEEDED.iter().filter(|(wanted, _)| have & wanted == 0).map(|(_, name)| *name).collect()
}

fn effective_capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_named() {
        let none: [&str; 0] = [];
        assert_eq!(missing(u64::MAX), none);
        assert_eq!(missing(CAP_SYS_ADMIN | CAP_NET_ADMIN), none);
        assert_eq!(missing(CAP_BPF | CAP_PERFMON), ["CAP_NET_ADMIN"]);
        assert_eq!(missing(CAP_NET_ADMIN | CAP_BPF), ["CAP_PERFMON"]);
        assert_eq!(missing(0), ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"]);
    }

    #[test]
    fn capabilities_are_read_from_the_status_file() {
        assert_eq!(effective_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n"), Some(0x1ff_ffff_ffff));
        assert_eq!(effective_capabilities("Name:\tx\n"), None);
    }
}
