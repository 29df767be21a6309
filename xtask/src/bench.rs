//! `bench`: builds a benchmark and runs it, with the machine it ran on written above the figures.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::{clients, command, setup};

/// What can be measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Bench {
    /// Where the sliding window counter differs from the log.
    Counter,
    /// Decisions in a process, beside governor and throttlecrab, and memory for a key.
    Table,
    /// What a packet costs in the XDP program; as root.
    Xdp,
    /// Decisions a second over gRPC and HTTP, beside throttlecrab-server, and the daemon's memory.
    Server,
    /// Decisions by a store that several daemons share, beside a bare script and what Envoy's service does.
    Store,
    /// What the reverse proxy costs, beside nginx, HAProxy and bare hyper.
    Proxy,
    /// Packets a second over veth, beside nftables and iptables; as root, on two cores.
    Network,
}

/// Runs one benchmark with its arguments.
pub fn run(bench: Bench, arguments: &[String]) -> Result<()> {
    setup::all()?;
    let name = match bench {
        Bench::Counter => "counter",
        Bench::Table => "table",
        Bench::Xdp => "xdp",
        Bench::Network => "network",
        Bench::Server => "server",
        Bench::Store => "store",
        Bench::Proxy => "proxy",
    };
    let binary = build(name)?;
    println!("{}", machine());
    match bench {
        Bench::Counter | Bench::Table | Bench::Store => command::run(Command::new(binary).args(arguments)),
        Bench::Server => {
            command::run(Command::new(binary).args(arguments).env("THROTTLECRAB_SERVER", throttlecrab()?))
        }
        Bench::Proxy => {
            let mut command = Command::new(binary);
            for (name, variable) in [
                ("nginx", "RATELIMIT_NGINX"),
                ("haproxy", "RATELIMIT_HAPROXY"),
                ("h2load", "RATELIMIT_H2LOAD"),
            ] {
                let missing = || format!("it needs {name}, which set-up could not get");
                let path = clients::find(name).with_context(missing)?;
                command.env(variable, std::path::absolute(path)?);
            }
            command::run(command.args(arguments))
        }
        Bench::Xdp | Bench::Network => command::run(command::as_root(binary).args(arguments)),
    }
}

/// The path of the built benchmark, which only cargo knows.
fn build(name: &str) -> Result<PathBuf> {
    let mut cargo = command::cargo();
    cargo.args(["bench", "--package", "ratelimit", "--bench", name, "--no-run"]);
    cargo.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    command::announce(&cargo);
    let output = cargo.output().context("starting cargo")?;
    if !output.status.success() {
        bail!("building the benchmark failed");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| {
            let is_wanted = message["target"]["name"] == name;
            message["executable"].as_str().filter(|_| is_wanted).map(PathBuf::from)
        });
    executable.context("cargo built no benchmark")
}

/// The server to compare with, in a directory of its own; it is built once.
fn throttlecrab() -> Result<PathBuf> {
    let root = command::target_dir()?.join("throttlecrab");
    let program = root.join("bin/throttlecrab-server");
    if !program.is_file() {
        let mut cargo = command::cargo();
        cargo.args(["install", "--locked", "throttlecrab-server", "--root"]).arg(&root);
        command::run(cargo.env("CARGO_TARGET_DIR", root.join("target")))?;
    }
    Ok(program)
}

/// Processor and kernel: a figure without them says little.
fn machine() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models: Vec<&str> =
        processors.lines().filter_map(|line| line.strip_prefix("model name\t: ")).collect();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} x {}, Linux {}", models.len(), models.first().unwrap_or(&"?"), kernel.trim())
}
