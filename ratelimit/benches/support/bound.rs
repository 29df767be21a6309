//! Programs that end with the benchmark, however that ends.

use std::{ffi::OsStr, process::Command};

/// A program that is killed when the thread ends that starts it: the main thread, which ends with the process.
pub fn bound(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}
