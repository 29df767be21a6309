//! Servers with rules of a test's own, and a client that shows every byte.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ratelimit::{
    application::Service,
    clock::FakeClock,
    config,
    limiter::Nanos,
    policy::{Application, application::ListenAddress},
    server::{LayerError, Servers, unjudged::Unjudged},
};
use tempfile::TempDir;

pub use self::http::{Answer, request};

#[path = "../support/http.rs"]
mod http;

/// Long enough for a slow machine; nothing waits for it unless it fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A Thursday at midnight, so that every window begins.
pub const START: Nanos = Nanos::from_secs(1_700_092_800 / 604_800 * 604_800);

/// Rules that most tests use.
pub const RULES: &str = "
domain: edge
descriptors:
  - key: user
    rate_limit: {name: per-user, unit: hour, requests_per_unit: 2}
  - key: path
    value: /login
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: bucket
    rate_limit: {name: 'a \"quoted\" näme', algorithm: token_bucket, unit: second, requests_per_unit: 1, burst: 3}
  - key: quarter
    rate_limit: {per: 15m, requests_per_unit: 256}
  - key: none
    rate_limit: {unit: day, requests_per_unit: 0}
  - key: watched
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: soft
    rate_limit: {unit: hour, requests_per_unit: 3, soft_limit: 1, soft_for: 30s}
  - key: tagged
    metadata: {team: payments, tiers: [1, 2]}
    rate_limit: {unit: hour, requests_per_unit: 5}
  - key: client
    rate_limit: {unit: hour, requests_per_unit: 2}
";

/// Running servers and what belongs to them.
pub struct Fixture {
    pub servers: Servers,
    pub service: Arc<Service>,
    pub clock: FakeClock,
    pub directory: TempDir,
}

impl Fixture {
    /// With the usual rules, and these lines below `application:`.
    pub fn new(lines: &str) -> Self {
        Self::with_rules(RULES, lines)
    }

    pub fn with_rules(rules: &str, lines: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("rules.yaml"), rules).unwrap();
        Self::in_directory(directory, lines)
    }

    pub fn in_directory(directory: TempDir, lines: &str) -> Self {
        let application = application(directory.path(), lines);
        let clock = FakeClock::new(START);
        let service =
            Arc::new(Service::with_clock(&application.service_policy(), Arc::new(clock.clone())).unwrap());
        let servers = Servers::start(&application, Arc::clone(&service)).unwrap();
        Self { servers, service, clock, directory }
    }

    /// As a daemon does it.
    pub fn reload(&self, policy: &Application) -> Result<(), LayerError> {
        let certificates = self.servers.read_certificates(policy)?;
        self.service.reload(&policy.service_policy())?;
        certificates.put_in_force();
        Ok(())
    }

    pub fn http(&self) -> SocketAddr {
        tcp(&self.servers.addresses().http[0])
    }

    pub fn grpc(&self) -> SocketAddr {
        tcp(&self.servers.addresses().grpc[0])
    }

    pub fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Answer {
        self.send("POST", path, &[], body)
    }

    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", path, headers, "")
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Answer {
        Answer::read(TcpStream::connect(self.http()).unwrap(), &request(method, path, headers, body.as_ref()))
    }

    /// Asks about one descriptor of one entry.
    pub fn check(&self, key: &str, value: &str) -> Answer {
        self.post("/v1/check", question(key, value))
    }
}

/// How many questions were denied for this reason.
pub fn unjudged(fixture: &Fixture, why: Unjudged) -> u64 {
    fixture.servers.stats().denied_unjudged().into_iter().find(|(reason, _)| *reason == why).unwrap().1
}

pub fn question(key: &str, value: &str) -> String {
    let entries = serde_json::json!([{"entries": [{"key": key, "value": value}]}]);
    serde_json::json!({"domain": "edge", "descriptors": entries}).to_string()
}

/// The policy of a configuration with `rules.yaml` beside it. It listens on loopback unless the lines say otherwise.
pub fn application(directory: &Path, lines: &str) -> Application {
    let mut text = "application:\n  rules: [rules.yaml]\n".to_owned();
    if !lines.contains("listen:") {
        text += "  listen: {grpc: '127.0.0.1:0', http: '127.0.0.1:0'}\n";
    }
    for line in lines.lines() {
        text += &format!("  {line}\n");
    }
    let file = directory.join("ratelimit.yaml");
    fs::write(&file, text).unwrap();
    config::check(&file).unwrap().policy.application.unwrap()
}

pub fn tcp(address: &ListenAddress) -> SocketAddr {
    match address {
        ListenAddress::Tcp(address) => *address,
        ListenAddress::Unix(path) => panic!("{} is no port", path.display()),
    }
}

pub fn unix(address: &ListenAddress) -> PathBuf {
    match address {
        ListenAddress::Unix(path) => path.clone(),
        ListenAddress::Tcp(address) => panic!("{address} is no path"),
    }
}
