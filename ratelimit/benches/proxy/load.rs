//! Requests of h2load: as many as can be, or so many a second.

use std::{env, fs, net::SocketAddr, process::Command, time::Duration};

/// Connections over HTTP/1.1, each with one request at a time.
const CONNECTIONS: u32 = 32;
/// Connections over HTTP/2, and requests at once on each.
const SHARED: (u32, u32) = (4, 8);
/// Connections among which a rate is divided.
const TIMED: u32 = 10;

/// The version of HTTP that clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
        }
    }
}

/// How many are answered in that time by whoever gets as many as it can take.
pub fn at_most(address: SocketAddr, protocol: Protocol, time: Duration) -> u64 {
    let mut command = h2load(protocol, time);
    match protocol {
        Protocol::Http1 => command.arg("--clients").arg(CONNECTIONS.to_string()),
        Protocol::Http2 => command
            .args(["--clients", &SHARED.0.to_string()])
            .args(["--max-concurrent-streams", &SHARED.1.to_string()]),
    };
    let said = output(command, address);
    // "status codes: 14675 2xx, 0 3xx, 0 4xx, 0 5xx"
    let line = said.lines().find_map(|line| line.strip_prefix("status codes: ")).expect("status codes");
    let counts: Vec<u64> = line
        .split(", ")
        .map(|part| part.split(' ').next().and_then(|n| n.parse().ok()).expect("a count"))
        .collect();
    assert!(counts[0] > 0 && counts[1..].iter().all(|count| *count == 0), "{said}");
    counts[0]
}

/// How long each answer took, in microseconds, at so many requests a second.
pub fn at_rate(address: SocketAddr, protocol: Protocol, time: Duration, rate: u32) -> Vec<u32> {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let mut command = h2load(protocol, time);
    command.args(["--clients", &TIMED.to_string(), "--rps", &(rate / TIMED).to_string()]);
    output_of(command.arg("--log-file").arg(&log), address);
    let text = fs::read_to_string(&log).expect("h2load's log");
    // "1795942689681256	200	341"
    let times: Vec<u32> = text
        .lines()
        .map(|line| {
            let mut parts = line.split('\t').skip(1);
            assert_eq!(parts.next(), Some("200"), "{line}");
            parts.next().and_then(|time| time.parse().ok()).expect("a time")
        })
        .collect();
    assert!(!times.is_empty(), "nothing was answered");
    times
}

fn h2load(protocol: Protocol, time: Duration) -> Command {
    let program = env::var_os("RATELIMIT_H2LOAD").expect("RATELIMIT_H2LOAD, which `cargo xtask bench` sets");
    let mut command = Command::new(program);
    command.args(["--threads", "1", "--duration", &time.as_secs().to_string()]);
    if protocol == Protocol::Http1 {
        command.arg("--h1");
    }
    command
}

fn output(mut command: Command, address: SocketAddr) -> String {
    output_of(&mut command, address)
}

fn output_of(command: &mut Command, address: SocketAddr) -> String {
    let output = command.arg(format!("http://{address}/")).output().expect("h2load");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
