//! Servers as processes of their own, each with ports that are free.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::bound::bound;

/// Rules under which nothing is ever denied, so that all answers are alike. Buckets of the second stay in use for the
/// day.
const RULES: &str = "
domain: bench
descriptors:
  - key: key
    rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 1000000}
  - key: kept
    rate_limit: {unit: day, requests_per_unit: 1000000}
";

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This project's, with a rule for all that is asked.
    Limiter,
    /// The same without a rule.
    Empty,
    /// throttlecrab-server.
    Throttlecrab,
}

/// A running server; it ends with this, and with the benchmark.
pub struct Server {
    child: Child,
    _directory: TempDir,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    pub unix: PathBuf,
}

impl Server {
    pub fn start(kind: Kind) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (grpc, http) = (free_address(), free_address());
        let unix = directory.path().join("http.sock");
        let mut command = match kind {
            Kind::Throttlecrab => throttlecrab(grpc, http),
            Kind::Limiter | Kind::Empty => {
                let rules = if kind == Kind::Limiter { RULES } else { "domain: other\n" };
                fs::write(directory.path().join("rules.yaml"), rules).expect("a file");
                let config = format!(
                    "control: control.sock\napplication:\n  rules: [rules.yaml]\n  store: {{memory: {{max_keys: 2M}}}}\n  \
                     listen: {{grpc: '{grpc}', http: ['{http}', 'unix:{}']}}\n",
                    unix.display()
                );
                let file = directory.path().join("ratelimit.yaml");
                fs::write(&file, config).expect("a file");
                let mut command = bound(env!("CARGO_BIN_EXE_ratelimit"));
                command.arg("run").arg("--config").arg(file);
                command
            }
        };
        command.env("RUST_LOG", "error").stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().expect("a server");
        let server = Self { child, _directory: directory, grpc, http, unix };
        let start = Instant::now();
        while TcpStream::connect(http).is_err() || TcpStream::connect(grpc).is_err() {
            assert!(start.elapsed() < Duration::from_secs(30), "the server does not start");
            thread::sleep(Duration::from_millis(20)); // tidy: sleep, another program's start can only be polled
        }
        server
    }

    /// Bytes of its resident set.
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its resident set");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("kilobytes") * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where `cargo xtask bench` has put it.
pub fn throttlecrab_path() -> Option<PathBuf> {
    std::env::var_os("THROTTLECRAB_SERVER").map(PathBuf::from)
}

fn throttlecrab(grpc: SocketAddr, http: SocketAddr) -> Command {
    let mut command = bound(throttlecrab_path().expect("THROTTLECRAB_SERVER"));
    command.args(["--log-level", "error", "--store-capacity", "200000"]);
    for (name, address) in [("grpc", grpc), ("http", http)] {
        command.arg(format!("--{name}")).arg(format!("--{name}-host")).arg(address.ip().to_string());
        command.arg(format!("--{name}-port")).arg(address.port().to_string());
    }
    command
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port")
}
