//! The server and the proxies before it as processes of their own.

use std::{
    env, fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{bare, load::Protocol};

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server itself: nginx with a short answer.
    Straight,
    /// This project's proxy, with a limit for each client that nobody reaches.
    Limited,
    /// The same without limits.
    Unlimited,
    /// nginx with `limit_req`.
    Nginx,
    /// HAProxy with a stick table.
    HaProxy,
    /// A proxy of hyper alone.
    Bare,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Straight => "straight to the server",
            Self::Limited => "ratelimit",
            Self::Unlimited => "ratelimit without a limit",
            Self::Nginx => "nginx with limit_req",
            Self::HaProxy => "HAProxy with a stick table",
            Self::Bare => "bare hyper",
        }
    }
}

/// A running server; it ends with this.
pub struct Running {
    child: Child,
    _directory: TempDir,
    pub http1: SocketAddr,
    http2: SocketAddr,
}

impl Running {
    /// Before a server, unless it is that.
    pub fn start(kind: Kind, behind: Option<SocketAddr>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let http1 = free_address();
        // Those who tell versions apart by the first bytes take both at one address.
        let http2 = match kind {
            Kind::Limited | Kind::Unlimited | Kind::Bare => http1,
            _ => free_address(),
        };
        let addresses = (http1, http2, behind);
        let mut command = match kind {
            Kind::Straight | Kind::Nginx => nginx(directory.path(), addresses),
            Kind::Limited | Kind::Unlimited => limiter(directory.path(), addresses, kind == Kind::Limited),
            Kind::HaProxy => haproxy(directory.path(), addresses),
            Kind::Bare => {
                let mut command = Command::new(env::current_exe().expect("this program"));
                command.env(bare::VARIABLE, format!("{http1} {}", behind.expect("a server")));
                command
            }
        };
        // Workers of its own are found by their group.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        let running = Self { child: command.spawn().expect("a server"), _directory: directory, http1, http2 };
        let start = Instant::now();
        while TcpStream::connect(http1).is_err() || TcpStream::connect(http2).is_err() {
            assert!(start.elapsed() < Duration::from_secs(30), "{} does not start", kind.name());
            thread::sleep(Duration::from_millis(20)); // tidy: sleep, another program's start can only be polled
        }
        running
    }

    pub const fn address(&self, protocol: Protocol) -> SocketAddr {
        match protocol {
            Protocol::Http1 => self.http1,
            Protocol::Http2 => self.http2,
        }
    }

    /// What all of its processes have used so far.
    pub fn processor_time(&self) -> Duration {
        let processes = fs::read_dir("/proc").expect("processes").filter_map(Result::ok);
        let ticks: u64 = processes
            .filter_map(|process| fs::read_to_string(process.path().join("stat")).ok())
            .filter_map(|stat| ticks_of_group(&stat, self.child.id()))
            .sum();
        // There are a hundred in a second on every architecture (USER_HZ).
        Duration::from_millis(ticks * 10)
    }
}

/// The processor time of a process, if it belongs to the group (proc(5)).
fn ticks_of_group(stat: &str, group: u32) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let of_group = fields.nth(2)?.parse::<u32>().ok()? == group;
    let user: u64 = fields.nth(8)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    of_group.then_some(user + system)
}

impl Drop for Running {
    fn drop(&mut self) {
        // A master of workers ends them when it is asked to, and only then.
        if let Ok(id) = i32::try_from(self.child.id()) {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

type Addresses = (SocketAddr, SocketAddr, Option<SocketAddr>);

fn program(variable: &str) -> Command {
    let path = env::var_os(variable);
    Command::new(path.unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask bench proxy`")))
}

fn nginx(directory: &Path, (http1, http2, behind): Addresses) -> Command {
    let place = match behind {
        None => "location / { return 200 'a page'; }".to_owned(),
        Some(_) => "location / { limit_req zone=clients burst=1000000 nodelay; proxy_pass http://behind; \
                    proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $host; \
                    proxy_set_header X-Forwarded-For $remote_addr; }"
            .to_owned(),
    };
    let upstream = behind.map_or_else(String::new, |behind| {
        format!(
            "limit_req_zone $binary_remote_addr zone=clients:10m rate=1000000r/s;
upstream behind {{ server {behind}; keepalive 256; keepalive_requests 1000000000; }}"
        )
    });
    let config = format!(
        "worker_processes {}; daemon off; pid nginx.pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; http2_max_concurrent_streams 1000;
client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;
{upstream}
server {{ listen {http1}; listen {http2} http2; {place} }} }}
",
        // The server has one thread, and each proxy two.
        if behind.is_some() { 2 } else { 1 }
    );
    fs::write(directory.join("nginx.conf"), config).expect("a file");
    let mut command = program("RATELIMIT_NGINX");
    command.args(["-p", &format!("{}/", directory.display()), "-c", "nginx.conf", "-e", "stderr"]);
    command
}

fn haproxy(directory: &Path, (http1, http2, behind): Addresses) -> Command {
    let behind = behind.expect("a server");
    let config = format!(
        "global
    nbthread 2
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    option forwardfor
    http-reuse always
frontend all
    bind {http1}
    bind {http2} proto h2
    stick-table type ip size 100k expire 60s store http_req_rate(1s)
    http-request track-sc0 src
    http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000 }}
    default_backend behind
backend behind
    server one {behind} pool-max-conn 256
"
    );
    let file = directory.join("haproxy.cfg");
    fs::write(&file, config).expect("a file");
    let mut command = program("RATELIMIT_HAPROXY");
    command.arg("-db").arg("-f").arg(file);
    command
}

fn limiter(directory: &Path, (http1, _, behind): Addresses, is_limited: bool) -> Command {
    let rules = "domain: bench\ndescriptors:\n  - key: client\n    \
                 rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 1000000}\n";
    fs::write(directory.join("rules.yaml"), rules).expect("a file");
    let asks = if is_limited { "domain: bench, descriptors: [{client: '{client_address}'}], " } else { "" };
    let behind = behind.expect("a server");
    let config = format!(
        "control: control.sock\napplication:\n  rules: [rules.yaml]\n  \
         proxy: [{{listen: '{http1}', {asks}routes: [{{upstreams: 'http://{behind}'}}]}}]\n"
    );
    let file = directory.join("ratelimit.yaml");
    fs::write(&file, config).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    command.arg("run").arg("--config").arg(file).env("RUST_LOG", "error");
    command
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port")
}
