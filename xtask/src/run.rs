//! `run`: builds, then becomes `ratelimit run`, as root.

use std::os::unix::process::CommandExt as _;

use anyhow::{Context as _, Result, bail};

use crate::{build, command};

/// Builds and starts the daemon in this process's place; returns only if that fails.
pub fn run(arguments: &[String]) -> Result<()> {
    let binary = build::release()?;
    if let Some(reason) = command::no_root_reason() {
        bail!("`ratelimit run` {reason}: run `{} run ...` as root", binary.display());
    }
    let mut daemon = command::as_root(&binary);
    daemon.arg("run").args(arguments);
    command::announce(&daemon);
    Err(daemon.exec()).with_context(|| format!("starting {}", command::render(&daemon)))
}
