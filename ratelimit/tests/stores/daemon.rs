//! A running daemon whose store goes and comes back: what it answers, and what it says of itself.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use ratelimit_redis_testing::{Engine, Relay, Server, Way, until};
use tempfile::TempDir;

const RULES: [(&str, &str); 3] = [("open", "allow"), ("shut", "deny"), ("own", "local")];

/// A daemon; it ends with its handle.
struct Daemon {
    child: Child,
    directory: TempDir,
    http: SocketAddr,
    metrics: SocketAddr,
}

impl Daemon {
    fn start(store: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (domain, on_store_error) in RULES {
            let rules = format!(
                "domain: {domain}\non_store_error: {on_store_error}\ndescriptors:\n  - key: user\n    \
                 rate_limit: {{unit: week, requests_per_unit: 4}}\n"
            );
            fs::write(directory.path().join(format!("{domain}.yaml")), rules).unwrap();
        }
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [http, metrics] = listeners.map(|listener| listener.local_addr().unwrap());
        let configuration = format!(
            "control: control.sock\nmetrics: {{listen: '{metrics}'}}\napplication:\n  \
             rules: [open.yaml, shut.yaml, own.yaml]\n  \
             store: {{redis: {{url: '{store}', timeout: 100ms, local_share: 2}}}}\n  listen: {{http: '{http}'}}\n"
        );
        fs::write(directory.path().join("ratelimit.yaml"), configuration).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
        command.args(["run", "--config", "ratelimit.yaml"]).current_dir(directory.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let daemon = Self { child, directory, http, metrics };
        until("the start", || TcpStream::connect(http).is_ok() && TcpStream::connect(metrics).is_ok());
        until("the store's connection", || daemon.command("status").contains("answers\n"));
        daemon
    }

    /// Status and body.
    fn get(&self, address: SocketAddr, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer[9..12].parse().unwrap(), answer)
    }

    /// How many of so many are allowed.
    fn passing(&self, count: usize, domain: &str, user: &str) -> usize {
        (0..count).filter(|_| self.check(domain, user).starts_with("allowed")).count()
    }

    fn check(&self, domain: &str, user: &str) -> String {
        let url = format!("http://{}", self.http);
        let descriptor = format!("user={user}");
        self.run(&["check", "--url", &url, "--domain", domain, "--descriptor", &descriptor])
    }

    fn command(&self, name: &str) -> String {
        self.run(&[name, "--control", "control.sock"])
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
        let output = command.args(arguments).current_dir(self.directory.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    }

    /// The value of a line of the metrics.
    fn metric(&self, line: &str) -> f64 {
        let (_, text) = self.get(self.metrics, "/metrics");
        let found = text.lines().find_map(|other| other.strip_prefix(line));
        found.unwrap_or_else(|| panic!("no {line}")).trim().parse().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_daemon_without_its_store_is_healthy_and_says_what_it_does() {
    let mut server = Server::start(Engine::Redis);
    let daemon = Daemon::start(&server.url());
    assert_eq!(daemon.passing(5, "open", "before"), 4);
    assert_eq!(daemon.metric("ratelimit_store_breaker{state=\"closed\"}"), 1.0);
    server.kill();
    assert_eq!(daemon.passing(6, "open", "x"), 6);
    assert_eq!(daemon.passing(6, "shut", "x"), 0);
    // Half of four, whatever was counted in the store.
    assert_eq!(daemon.passing(6, "own", "x"), 2);
    let (status, answer) = daemon.get(daemon.http, "/healthcheck");
    assert_eq!(status, 200, "{answer}");
    let status = daemon.command("status");
    assert!(status.contains("does not answer"), "{status}");
    let denied = daemon.check("shut", "x");
    assert!(denied.starts_with("denied") && !denied.contains("remaining="), "no number is made up: {denied}");
    for decision in ["allow", "deny", "local"] {
        assert!(daemon.metric(&format!("ratelimit_store_fallback_total{{decision=\"{decision}\"}}")) >= 6.0);
    }
    server.start_again();
    until("recovery", || daemon.passing(1, "shut", "again") == 1);
    assert_eq!(daemon.passing(6, "shut", "after"), 4);
    assert!(daemon.command("status").contains("answers\n"));
    assert_eq!(daemon.metric("ratelimit_store_breaker{state=\"closed\"}"), 1.0);
    // What was judged here stays, so that a store that comes and goes gives nobody another burst.
    server.kill();
    assert_eq!(daemon.passing(6, "own", "x"), 0);
}

/// A request that waits for the store holds nothing that a reload needs.
#[test]
fn a_reload_does_not_wait_for_a_store_that_stands_still() {
    let server = Server::start(Engine::Valkey);
    let relay = Relay::before(server.address());
    let daemon = Daemon::start(&relay.url());
    relay.set(Way::Hold);
    for _ in 0..3 {
        let reloaded = daemon.command("reload");
        assert!(!reloaded.contains("error"), "{reloaded}");
        assert_eq!(daemon.get(daemon.http, "/healthcheck").0, 200);
        assert_eq!(daemon.passing(2, "shut", "x"), 0);
    }
    relay.set(Way::Open);
    until("recovery", || daemon.passing(1, "shut", "again") == 1);
}
