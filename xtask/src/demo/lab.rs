//! The demo's machine: a server's interface with the daemon on it, joined by a virtual cable to a namespace for
//! clients.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sched::{CloneFlags, setns};
use serde_json::Value;

use super::traffic::CLIENTS;
use super::{BURST, RATE};
use crate::command;

/// Addresses that are reserved for documentation.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

const INTERFACE: &str = "server0";
const CLIENTS_NAMESPACE: &str = "clients";
const CONFIG: &str = "/run/demo.yaml";
const LOG: &str = "/run/demo.log";

/// How long the daemon may take until it limits.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the kernel's own counters say of the UDP packets.
pub struct Counted {
    /// Packets that the rule let through.
    pub passed: u64,
    /// Packets that it dropped.
    pub dropped: u64,
}

/// The machine; dropping it ends the daemon.
pub struct Lab {
    binary: PathBuf,
    daemon: Child,
}

impl Lab {
    /// Lays the cable and starts the daemon.
    pub fn build(binary: &Path) -> Result<Self> {
        lay_cable()?;
        let config = format!(
            "network:\n  interfaces: [{INTERFACE}]\n  table_size: 32768\n  rules:\n    \
             - {{name: every-source, rate: {RATE}/s, burst: {BURST}}}\n"
        );
        fs::write(CONFIG, config).with_context(|| format!("writing {CONFIG}"))?;
        let log = File::create(LOG).with_context(|| format!("writing {LOG}"))?;
        let mut daemon = Command::new(binary);
        daemon.args(["run", "--config", CONFIG]).env("RUST_LOG", "info");
        daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // In a group of its own, which Ctrl-C does not reach: it has to go on until its counters are read.
        std::os::unix::process::CommandExt::process_group(&mut daemon, 0);
        let child = daemon.spawn().with_context(|| format!("starting {}", command::render(&daemon)))?;
        let mut lab = Self { binary: binary.to_owned(), daemon: child };
        lab.wait_until_attached()?;
        Ok(lab)
    }

    fn wait_until_attached(&mut self) -> Result<()> {
        let started = Instant::now();
        loop {
            if self.mode().is_ok() {
                return Ok(());
            }
            let ended = self.daemon.try_wait().context("looking after the daemon")?;
            if ended.is_some() || started.elapsed() > PATIENCE {
                let said = fs::read_to_string(LOG).unwrap_or_default();
                bail!("the daemon did not attach to the demo's interface; it says:\n{}", said.trim_end());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// How the program is attached; an error as long as it is not.
    pub fn mode(&self) -> Result<String> {
        let status = self.status()?;
        let mode = status["interfaces"][0]["mode"].as_str();
        mode.map(str::to_owned).context("the program is not attached")
    }

    /// Kills the daemon as `kill -9` does.
    pub fn kill_daemon(&mut self) -> Result<()> {
        self.daemon.kill().context("killing the daemon")?;
        self.daemon.wait().context("waiting for the daemon's end").map(drop)
    }

    /// Reads the counters of the only rule.
    pub fn counted(&self) -> Result<Counted> {
        let rule = &self.status()?["rules"][0];
        let packets =
            |what: &str| rule[what]["packets"].as_u64().with_context(|| format!("no counter `{what}`"));
        Ok(Counted { passed: packets("passed")?, dropped: packets("dropped")? })
    }

    fn status(&self) -> Result<Value> {
        let mut status = Command::new(&self.binary);
        status.args(["status", "--output", "json"]);
        let output = status.output().with_context(|| format!("starting {}", command::render(&status)))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} failed: {}", command::render(&status), said.trim_end());
        serde_json::from_slice(&output.stdout).context("reading the answer of `ratelimit status`")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // It may be dead; its pins and links vanish with the namespaces.
        let _ = self.kill_daemon();
    }
}

/// Moves the calling thread, and no other, to where the clients are.
pub fn enter_clients_namespace() -> Result<()> {
    let path = Path::new("/run/netns").join(CLIENTS_NAMESPACE);
    let namespace = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
    setns(namespace, CloneFlags::CLONE_NEWNET).context("entering the clients' namespace")
}

/// Without IPv6 addresses, so that the only packets are the clients' and ARP.
fn lay_cable() -> Result<()> {
    ip(&format!("netns add {CLIENTS_NAMESPACE}"))?;
    ip(&format!("link add {INTERFACE} type veth peer name client0 netns {CLIENTS_NAMESPACE}"))?;
    ip(&format!("address add {SERVER}/24 dev {INTERFACE}"))?;
    ip(&format!("link set {INTERFACE} addrgenmode none up"))?;
    for client in &CLIENTS {
        ip(&format!("-n {CLIENTS_NAMESPACE} address add {}/24 dev client0", client.address))?;
    }
    ip(&format!("-n {CLIENTS_NAMESPACE} link set client0 addrgenmode none up"))
}

fn ip(arguments: &str) -> Result<()> {
    let program = command::find_program("ip").context("there is no `ip`: run `cargo xtask setup`")?;
    let mut ip = Command::new(program);
    ip.args(arguments.split(' '));
    let output = ip.output().with_context(|| format!("starting {}", command::render(&ip)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}", command::render(&ip), said.trim_end());
    Ok(())
}
