//! What can go wrong between the daemon and the kernel, said so that the reader knows what to do next.

use std::{io, path::PathBuf};

use thiserror::Error;

/// An error of the data plane.
#[derive(Debug, Error)]
pub enum Error {
    /// The process may not load BPF programs.
    #[error(
        "no permission to load BPF programs: run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
    )]
    NoPermission,
    /// The kernel is older than what the XDP program needs.
    #[error("this kernel is {found}, but Linux 5.18 or newer is needed (multi-buffer XDP)")]
    KernelTooOld {
        /// Its release.
        found: String,
    },
    /// There is nowhere to pin maps and links.
    #[error("{path} is not a BPF file system: mount it with `mount -t bpf bpf {path}`", path = path.display())]
    NoBpffs {
        /// Where it was expected.
        path: PathBuf,
    },
    /// Another daemon serves the instance.
    #[error(
        "instance `{instance}` is already served by another daemon: stop it first, or choose another name with `instance:`"
    )]
    Running {
        /// The instance.
        instance: String,
    },
    /// Nothing is attached and nothing is pinned.
    #[error("instance `{instance}` is not attached: start it with `ratelimit run --config FILE`")]
    NotAttached {
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
    /// An interface has an XDP program that is not this instance's.
    #[error(
        "{interface} already has an XDP program, `{program}` (id {id}), which is left alone: detach it where it came from, \
         or with `ip link set dev {interface} xdp off`"
    )]
    Foreign {
        /// The interface.
        interface: String,
        /// The program's name.
        program: String,
        /// The program's id.
        id: u32,
    },
    /// The driver or the kernel refuses to attach.
    #[error("{interface}: can't attach in {mode} mode: {source}")]
    Attach {
        /// The interface.
        interface: String,
        /// The mode that was tried.
        mode: &'static str,
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
    /// The kernel refuses the program or a map.
    #[error("the kernel refuses the XDP program: {0}")]
    Load(String),
    /// Something with a file, mostly a pin.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What.
        source: io::Error,
    },
    /// Reading or writing a map.
    #[error("a map: {0}")]
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

impl Error {
    /// A refusal by the kernel with all its causes, in one line.
    pub(super) fn load(error: &dyn std::error::Error) -> Self {
        Self::Load(in_one_line(error))
    }

    pub(super) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}

/// An error with its causes, as far as it does not tell them itself.
pub(crate) fn in_one_line(error: &dyn std::error::Error) -> String {
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
