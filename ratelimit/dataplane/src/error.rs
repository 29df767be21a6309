//! What can go wrong between the daemon and the kernel, said so that the reader knows what to do next.

use std::{
    io,
    path::{Path, PathBuf},
};

use aya::{VerifierLogLevel, programs::ProgramError};
use nix::libc::ENOSPC;
use thiserror::Error;
use tracing::{Level, enabled, trace};

use super::{AttachedMode, Feature, system::release};

/// An error of the data plane.
#[derive(Debug, Error)]
pub enum Error {
    /// The process lacks capabilities.
    #[error(
        "no permission to {what}: run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; missing: {missing}"
    )]
    NoPermission {
        /// What was to be done.
        what: &'static str,
        /// The capabilities that are missing.
        missing: String,
    },
    /// The kernel can't do what the XDP program needs.
    #[error(
        "this kernel, {kernel}, lacks what the XDP program needs: {}. `ratelimit` is tested on Linux 6.1 \
         and later, which have all of it; an older kernel will do if its maker has ported it back. Limits on requests \
         (`application`) alone need none of it",
        listed(missing)
    )]
    LacksFeatures {
        /// Its release.
        kernel: String,
        /// What it lacks.
        missing: Vec<Feature>,
    },
    /// There is nowhere to pin maps and links.
    #[error("{}", without_bpffs(path, why.as_ref()))]
    NoBpffs {
        /// Where it was expected.
        path: PathBuf,
        /// Why it can't be mounted, if that was tried: only who begins to serve an instance does.
        why: Option<io::Error>,
    },
    /// Another daemon serves the instance.
    #[error(
        "instance `{instance}` is already served by another daemon{}: to replace it, stop it first (`systemctl stop \
         ratelimit` if systemd started it, else `kill {}`); to keep it, have it read its file with `ratelimit reload`, or \
         give this one a name of its own with `instance:`, and interfaces that no other has",
        process.map_or_else(String::new, |process| format!(", process {process}")),
        process.map_or_else(|| "PROCESS".to_owned(), |process| process.to_string())
    )]
    Running {
        /// The instance.
        instance: String,
        /// The daemon's process, if it has said so.
        process: Option<u32>,
    },
    /// Nothing is attached and nothing is pinned.
    #[error("instance `{instance}` is not attached: {ADVICE}")]
    NotAttached {
        /// The instance.
        instance: String,
    },
    /// A daemon is about to attach it.
    #[error("instance `{instance}` is being started: ask again in a moment")]
    Starting {
        /// The instance.
        instance: String,
    },
    /// A daemon died on its way.
    #[error(
        "instance `{instance}` is attached to {interfaces}, but its daemon ended before its start was complete: \
         `ratelimit run --config FILE` completes it, `ratelimit detach --instance {instance}` removes it"
    )]
    Incomplete {
        /// The instance.
        instance: String,
        /// The names of the interfaces that it is attached to.
        interfaces: String,
    },
    /// Somebody removed all pins while the daemon made them.
    #[error("instance `{instance}` was detached while it was being started: start it again")]
    TakenOff {
        /// The instance.
        instance: String,
    },
    /// There is no such interface.
    #[error("no interface `{name}` here; there are: {known}")]
    NoInterface {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Another instance has the interface.
    #[error(
        "{interface} is already limited by instance `{instance}`: `ratelimit detach --instance {instance}` takes that off, \
         or leave {interface} out here"
    )]
    OtherInstance {
        /// The interface.
        interface: String,
        /// The instance.
        instance: String,
    },
    /// What the interface hands over can't be read.
    #[error("{interface} {what}; leave {interface} out")]
    Kind {
        /// The interface.
        interface: String,
        /// What it is, and why that can't be.
        what: String,
    },
    /// An interface has an XDP program of somebody else.
    #[error("{interface} already has an XDP program, `{program}` (id {id}), which is left alone: {how}")]
    Foreign {
        /// The interface.
        interface: String,
        /// The program's name.
        program: String,
        /// The program's id.
        id: u32,
        /// How it can be taken off.
        how: String,
    },
    /// An interface above this one has an XDP program.
    #[error("{interface}: can't attach: {above}, and the kernel takes lower interfaces first: {how}")]
    ProgramAbove {
        /// The interface.
        interface: String,
        /// The one above it, and whose program that has.
        above: String,
        /// What to do.
        how: String,
    },
    /// The driver or the kernel refuses to attach.
    #[error("{interface}: can't attach in {} mode ({source}){}", mode.name(), attach_advice(*mode, source))]
    Attach {
        /// The interface.
        interface: String,
        /// The mode that was tried.
        mode: AttachedMode,
        /// The kernel's answer.
        source: io::Error,
    },
    /// What is pinned does not fit this version or configuration.
    #[error("{path}: {what}; `ratelimit detach --instance {instance}` removes it, and with it all buckets", path = path.display())]
    Pinned {
        /// The pin.
        path: PathBuf,
        /// What does not fit.
        what: String,
        /// The instance it belongs to.
        instance: String,
    },
    /// The embedded object lacks something.
    #[error("the embedded XDP object has no {0}: this binary was built wrong")]
    Object(&'static str),
    /// The kernel's verifier refuses the program.
    #[error(
        "the kernel refuses the XDP program: {source}{}; if you report it, add the configuration, Linux {kernel}, \
         ratelimit {} and the whole log of the verifier, which `RUST_LOG=info,verifier=trace ratelimit run --config \
         FILE` prints",
        said(last_lines),
        env!("CARGO_PKG_VERSION")
    )]
    Refused {
        /// Its answer.
        source: io::Error,
        /// What its verifier said last.
        last_lines: Vec<String>,
        /// Its release.
        kernel: String,
    },
    /// The kernel refuses the program before it looks at it, or something else about it.
    #[error("the kernel refuses the XDP program: {0}")]
    Load(String),
    /// Something with a file, mostly a pin.
    #[error("{path}: {source}{advice}", path = path.display(), advice = file_advice(source))]
    File {
        /// Which.
        path: PathBuf,
        /// What.
        source: io::Error,
    },
    /// Reading or writing a map.
    #[error("a map: {}", in_one_line(.0))]
    Map(#[from] aya::maps::MapError),
    /// Asking the kernel about interfaces.
    #[error("asking the kernel about network interfaces: {0}")]
    Netlink(String),
    /// The operating system refused something else.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

/// What to do about an instance that is not there, or whose daemon is not: the same wherever that is found out.
pub const ADVICE: &str = "start it with `systemctl start ratelimit` or `ratelimit run --config FILE`, or name another with \
    `--instance NAME` or `--control PATH`";

impl Error {
    /// A refusal by the kernel: with what its verifier said last, or else with all its causes, in one line.
    pub(super) fn load(error: &(dyn std::error::Error + 'static)) -> Self {
        match error.downcast_ref() {
            Some(ProgramError::LoadError { io_error, verifier_log }) => {
                let log = verifier_log.to_string();
                log.lines().for_each(|line| trace!(target: VERIFIER, "{line}"));
                Self::Refused { source: answer(io_error), last_lines: last_lines(&log), kernel: release() }
            }
            _ => Self::Load(in_one_line(error)),
        }
    }

    pub(super) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}

/// What the kernel said about a program that it refused.
fn answer(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        // The whole log was asked for, and is longer than there is room.
        Some(ENOSPC) => {
            io::Error::other("its log has no end here; without `verifier=trace` the reason is shown")
        }
        Some(number) => io::Error::from_raw_os_error(number),
        None => error.kind().into(),
    }
}

/// What the whole log of the verifier is logged under, if anybody wants it.
const VERIFIER: &str = "verifier";

/// How much the verifier is to say about a program that it refuses: everything takes many mebibytes.
pub(super) fn verifier_log_level() -> VerifierLogLevel {
    if enabled!(target: VERIFIER, Level::TRACE) {
        VerifierLogLevel::DEBUG | VerifierLogLevel::STATS
    } else {
        VerifierLogLevel::STATS
    }
}

/// The end of the verifier's log, where the reason is: so many lines at most, of so many characters.
fn last_lines(log: &str) -> Vec<String> {
    const MOST_LINES: usize = 6;
    const MOST_CHARACTERS: usize = 160;
    let lines = log.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(MOST_LINES);
    let mut lines: Vec<String> = lines.map(|line| line.chars().take(MOST_CHARACTERS).collect()).collect();
    lines.reverse();
    lines
}

fn said(last_lines: &[String]) -> String {
    if last_lines.is_empty() {
        return String::new();
    }
    format!("; its verifier said last `{}`", last_lines.join("`, `"))
}

/// Without it nothing can be attached, and a daemon mounts it if it may.
fn without_bpffs(path: &Path, why: Option<&io::Error>) -> String {
    let path = path.display();
    match why {
        Some(why) => format!(
            "{path} is not a BPF file system, and it can't be mounted here ({why}): mount it with `mount -t bpf bpf \
             {path}`"
        ),
        None => format!("no instance is attached here, because {path} is not a BPF file system: {ADVICE}"),
    }
}

fn listed(missing: &[Feature]) -> String {
    let named = |feature: &Feature| format!("{}, in Linux since {}", feature.name, feature.since);
    missing.iter().map(named).collect::<Vec<_>>().join("; ")
}

fn attach_advice(mode: AttachedMode, source: &io::Error) -> &'static str {
    match mode {
        // No interface of this network namespace is above this one.
        _ if source.kind() == io::ErrorKind::AlreadyExists => {
            ": an interface above this one (as a VLAN is), perhaps in another network namespace, has an XDP program, or \
             for a bond in native mode one below it"
        }
        AttachedMode::Native => ": `mode: auto` or `mode: generic` works with every driver",
        AttachedMode::Generic | AttachedMode::Hardware => "",
    }
}

/// What to do about a directory of pins that can't be used.
fn file_advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "; be root or the user who started it, or let root give this user the directory of all pins: \
             `chmod o+x /sys/fs/bpf; mkdir -p /sys/fs/bpf/ratelimit; chown USER /sys/fs/bpf/ratelimit`"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; make it writable: `mount -o remount,rw /sys/fs/bpf`",
        _ => "",
    }
}

/// An error with its causes, as far as it does not tell them itself.
pub fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_log_the_end_is_shown() {
        let log: String =
            (0..100_000).map(|line| format!("{line}: (bf) r6 = r1{}\n\n", " ".repeat(line % 3))).collect();
        let log = log + &"x".repeat(1_000_000) + "\nR9 !read_ok\nprocessed 1 insns (limit 1000000)\n";
        let error = Error::Refused {
            source: io::ErrorKind::InvalidInput.into(),
            last_lines: last_lines(&log),
            kernel: "6.1".into(),
        };
        let said = error.to_string();
        assert!(said.contains("`R9 !read_ok`, `processed 1 insns (limit 1000000)`;"), "{said}");
        assert!(said.contains("`99999: (bf) r6 = r1`") && said.contains("Linux 6.1, ratelimit "), "{said}");
        assert!(said.len() < 1_500 && said.lines().count() == 1, "{said}");
        let without = Error::Refused {
            source: io::ErrorKind::OutOfMemory.into(),
            last_lines: Vec::new(),
            kernel: "6.1".into(),
        };
        assert!(
            without
                .to_string()
                .starts_with("the kernel refuses the XDP program: out of memory; if you report")
        );
    }
}
