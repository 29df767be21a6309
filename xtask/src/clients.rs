//! The clients tier: real clients of the application layer, Envoy, nginx and curl, which tests start on ports of their own.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::command;
use crate::test::tier::{Outcome, run_tests};

/// A program of other people that tests start, and where this tier's tests look for it.
struct Client {
    name: &'static str,
    variable: &'static str,
    find: fn(&str) -> Option<PathBuf>,
}

const CLIENTS: &[Client] = &[
    Client {
        name: "envoy",
        variable: "RATELIMIT_ENVOY",
        find: |name| private(&format!("{name}/envoy/_bin/{name}")),
    },
    Client {
        name: "nginx",
        variable: "RATELIMIT_NGINX",
        find: |name| command::find_program(name).or_else(|| private(&format!("{name}/usr/sbin/{name}"))),
    },
    Client { name: "curl", variable: "RATELIMIT_CURL", find: command::find_program },
];

/// Where programs are that only these tests use: nothing on the machine changes for them.
pub fn directory() -> Result<PathBuf> {
    Ok(command::target_dir()?.join("clients"))
}

/// A file below that directory.
fn private(path: &str) -> Option<PathBuf> {
    directory().ok().map(|directory| directory.join(path)).filter(|path| path.is_file())
}

/// Where set-up finds it, or has put it.
pub fn find(name: &str) -> Option<PathBuf> {
    CLIENTS.iter().find(|client| client.name == name).and_then(|client| (client.find)(client.name))
}

/// Runs the tests whose names contain the filter.
pub fn run(filter: Option<&str>) -> Result<Outcome> {
    let mut cargo = command::cargo();
    cargo.args(["test", "--package", "ratelimit", "--test", "clients"]);
    for client in CLIENTS {
        match (client.find)(client.name) {
            Some(path) => drop(cargo.env(client.variable, absolute(&path)?)),
            None => return Ok(Outcome::NotRun(format!("needs {}, which set-up could not get", client.name))),
        }
    }
    run_tests(cargo.args(filter))
}

/// Tests run in another directory.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("finding {}", path.display()))
}
