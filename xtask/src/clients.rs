//! Tiers with programs of other people, which tests start on ports of their own: real clients of the application layer
//! (Envoy, nginx, HAProxy, curl and h2load), readers of what the program writes (shells, `mandoc`, Prometheus), and the
//! stores that several daemons share (Redis and Valkey).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::command;
use crate::test::tier::{TierOutcome, run_timed_tests};

/// A program of other people that tests start.
struct Client {
    name: &'static str,
    find: fn(&str) -> Option<PathBuf>,
}

/// Clients, and the variable that tells each test where the program is.
const CLIENTS: &[(Client, &str)] = &[
    (Client { name: "envoy", find: |name| private(&format!("{name}/envoy/_bin/{name}")) }, "RATELIMIT_ENVOY"),
    (
        Client {
            name: "nginx",
            find: |name| command::find_program(name).or_else(|| private(&format!("{name}/usr/sbin/{name}"))),
        },
        "RATELIMIT_NGINX",
    ),
    (Client { name: "curl", find: command::find_program }, "RATELIMIT_CURL"),
    (Client { name: "h2load", find: in_its_directory }, "RATELIMIT_H2LOAD"),
    (Client { name: "haproxy", find: in_its_directory }, "RATELIMIT_HAPROXY"),
    (Client { name: "prometheus", find: unpacked }, "RATELIMIT_PROMETHEUS"),
    (
        Client { name: "kubernetes-validate", find: |name| private(&format!("{name}/bin/{name}")) },
        "RATELIMIT_KUBERNETES_VALIDATE",
    ),
    (Client { name: "mandoc", find: command::find_program }, "RATELIMIT_MANDOC"),
    (Client { name: "zsh", find: command::find_program }, "RATELIMIT_ZSH"),
    (Client { name: "fish", find: command::find_program }, "RATELIMIT_FISH"),
];

/// Programs that the kernel tier starts, likewise.
const OF_KERNEL_TESTS: &[(Client, &str)] = &[
    (
        Client { name: "fail2ban-server", find: |_| private("fail2ban/usr/bin/fail2ban-server") },
        "RATELIMIT_FAIL2BAN",
    ),
    (Client { name: "prometheus", find: unpacked }, "RATELIMIT_PROMETHEUS"),
];

/// Stores, which tests look for themselves (`ratelimit-redis-testing`), so that they run without this tier too. Those
/// of the machine are not taken: their versions differ.
const STORES: &[Client] = &[
    Client { name: "redis-server", find: in_its_directory },
    Client { name: "valkey-server", find: in_its_directory },
    Client { name: "libfaketime", find: in_its_directory },
];

/// Where programs are that only these tests use: nothing on the machine changes for them.
pub fn directory() -> Result<PathBuf> {
    Ok(command::target_dir()?.join("clients"))
}

/// A file below that directory.
fn private(path: &str) -> Option<PathBuf> {
    directory().ok().map(|directory| directory.join(path)).filter(|path| path.is_file())
}

fn in_its_directory(name: &str) -> Option<PathBuf> {
    private(&format!("{name}/{name}"))
}

/// As its package has it.
fn unpacked(name: &str) -> Option<PathBuf> {
    private(&format!("{name}/usr/bin/{name}"))
}

/// What tells the kernel tier's tests where programs are, or why those that need them can't run.
pub fn of_kernel_tests() -> Result<Vec<String>, String> {
    let variable = |(client, variable): &(Client, &str)| {
        let path = (client.find)(client.name).and_then(|path| absolute(&path).ok());
        let missing = || format!("needs {}, which set-up could not get", client.name);
        Ok(format!("{variable}={}", path.ok_or_else(missing)?.display()))
    };
    OF_KERNEL_TESTS.iter().map(variable).collect()
}

/// Where set-up finds it, or has put it.
pub fn find(name: &str) -> Option<PathBuf> {
    let mut all = CLIENTS.iter().chain(OF_KERNEL_TESTS).map(|(client, _)| client).chain(STORES);
    all.find(|client| client.name == name).and_then(|client| (client.find)(client.name))
}

/// Runs the tests with clients whose names contain the filter.
pub fn run(filter: Option<&str>) -> Result<TierOutcome> {
    let mut cargo = command::cargo();
    cargo.args(["test", "--test", "clients"]);
    for (client, variable) in CLIENTS {
        match (client.find)(client.name) {
            Some(path) => drop(cargo.env(variable, absolute(&path)?)),
            None => return Ok(not_run(client)),
        }
    }
    run_timed_tests(&mut cargo, filter)
}

/// Runs the tests with stores whose names contain the filter.
pub fn stores(filter: Option<&str>) -> Result<TierOutcome> {
    if let Some(missing) = STORES.iter().find(|client| (client.find)(client.name).is_none()) {
        return Ok(not_run(missing));
    }
    let mut cargo = command::cargo();
    cargo.args(["test", "--no-fail-fast", "--test", "stores"]);
    run_timed_tests(&mut cargo, filter)
}

fn not_run(client: &Client) -> TierOutcome {
    TierOutcome::not_run(format!("needs {}, which set-up could not get", client.name))
}

/// Tests run in another directory.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("finding {}", path.display()))
}
