//! Whether this process on this machine can load the XDP program at all; asked before anything is changed.

use std::fs;

use nix::sys::utsname::uname;

use super::Error;

/// The oldest kernel that has what the program needs: multi-buffer XDP.
const OLDEST: (u32, u32) = (5, 18);

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
/// The kernel is too old, or a capability is missing.
pub fn check(what: &'static str) -> Result<(), Error> {
    check_kernel()?;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = effective_capabilities(&status).map(missing).unwrap_or_default();
    if missing.is_empty() { Ok(()) } else { Err(Error::NoPermission { what, missing: missing.join(", ") }) }
}

fn check_kernel() -> Result<(), Error> {
    let system = uname().map_err(|error| Error::System { what: "uname", source: error.into() })?;
    let release = system.release().to_string_lossy();
    match version(&release) {
        Some(found) if found < OLDEST => Err(Error::KernelTooOld { found: release.into_owned() }),
        _ => Ok(()),
    }
}

/// Major and minor of `6.1.0-13-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
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
    fn releases_of_distributions() {
        for (release, expected) in [
            ("6.1.0-13-amd64", Some((6, 1))),
            ("5.18.0", Some((5, 18))),
            ("5.4.0-150-generic", Some((5, 4))),
            ("6.18.44-fc-v857", Some((6, 18))),
            ("6.12-rc1", Some((6, 12))),
            ("nonsense", None),
        ] {
            assert_eq!(version(release), expected, "{release}");
        }
    }

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
