//! What operators use the daemon with, as `config` has it: fail2ban, CrowdSec's bouncer, and Prometheus with the
//! dashboard.

mod bans;
mod crowdsec;
mod fail2ban;
mod flood;
mod prometheus;

use std::{
    env,
    path::{Path, PathBuf},
    process::{Child, Command},
};

/// A file of the examples.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config").join(name)
}

/// Where a program of other people is.
fn program(variable: &str) -> PathBuf {
    let path = env::var_os(variable);
    path.unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask test operations`")).into()
}

/// Lets a program find this `ratelimit`.
fn with_path(command: &mut Command) -> &mut Command {
    let binaries = Path::new(env!("CARGO_BIN_EXE_ratelimit")).parent().unwrap();
    command.env("PATH", format!("{}:{}", binaries.display(), env::var("PATH").unwrap()))
}

/// A program that dies with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
