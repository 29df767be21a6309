//! A proxy with rules of a test's own, and a client that shows every byte.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use ratelimit_config as config;
use ratelimit_limiter::{
    Nanos,
    application::Service,
    clock::{Clock, FakeClock},
};
use ratelimit_policy::application::{Application, ListenAddress};
use ratelimit_servers::Servers;
use tempfile::TempDir;

/// Long enough for a slow machine; nothing waits for it unless it fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A limit on each client, one on a path, and one on a plan.
const RULES: &str = "
domain: web
descriptors:
  - key: client
    rate_limit: {name: per-client, unit: hour, requests_per_unit: 3}
  - key: path
    value: /login
    rate_limit: {name: login, unit: hour, requests_per_unit: 0}
  - key: host
    value: closed.example
    rate_limit: {name: closed, unit: hour, requests_per_unit: 0}
  - key: network
    value_in: [192.0.2.0/24, {file: office.txt}]
    rate_limit: {name: office, unit: hour, requests_per_unit: 0}
  - key: plan
    value: free
    rate_limit: {name: free, unit: hour, requests_per_unit: 0}
  - key: plan
    value: (several)
    rate_limit: {name: several, unit: hour, requests_per_unit: 0}
";

/// A running proxy.
pub struct Proxy {
    pub servers: Servers,
    pub service: Arc<Service>,
    pub directory: TempDir,
}

impl Proxy {
    /// Whose only listener has these keys.
    pub fn new(keys: &str) -> Self {
        Self::with_clock(keys, "", Arc::new(FakeClock::new(Nanos::from_secs(1_700_092_800))))
    }

    /// In front of one server, without limits.
    pub fn before(server: SocketAddr) -> Self {
        Self::new(&format!("routes: [{{upstreams: 'http://{server}'}}]"))
    }

    /// The same with a clock, and with keys of `application`.
    pub fn with_clock(keys: &str, application: &str, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let policy = policy(&directory, keys, application);
        let service = Arc::new(Service::with_clock(&policy.service_policy(), clock).unwrap());
        let servers = Servers::start(&policy, Arc::clone(&service)).unwrap();
        Self { servers, service, directory }
    }

    /// As a daemon does it.
    pub fn reload(&self, keys: &str) {
        let policy = policy(&self.directory, keys, "");
        let routes = self.servers.read_routes(&policy).unwrap();
        self.service.reload(&policy.service_policy()).unwrap();
        self.servers.proxy().put_in_force(routes);
    }

    pub fn address(&self) -> SocketAddr {
        let ListenAddress::Tcp(address) = &self.servers.addresses().proxy[0] else { panic!("a port") };
        *address
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends these bytes, and returns what comes until the proxy closes.
    pub fn send(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        // One that refuses may stop reading before it has all.
        let _ = stream.write_all(bytes.as_ref());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Asks for a path; the proxy closes afterwards.
    pub fn get(&self, path: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n"))
    }
}

/// The policy of a configuration with rules beside it.
fn policy(directory: &TempDir, keys: &str, application: &str) -> Application {
    fs::write(directory.path().join("rules.yaml"), RULES).unwrap();
    fs::write(directory.path().join("office.txt"), "198.51.100.0/24\n").unwrap();
    let keys: String = keys.lines().map(|line| format!("      {line}\n")).collect();
    let text = format!(
        "application:\n  rules: [rules.yaml]\n  {application}\n  proxy:\n    - listen: 127.0.0.1:0\n{keys}"
    );
    let file = directory.path().join("ratelimit.yaml");
    fs::write(&file, text).unwrap();
    config::load(&file).unwrap_or_else(|errors| panic!("{errors}")).application.unwrap()
}

/// The status of an answer.
pub fn status(answer: &str) -> u16 {
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

/// A header of an answer.
pub fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next()?;
    let mut lines = head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
    lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// What comes behind the headers.
pub fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// Waits for something that has to happen.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(2)); // tidy: sleep, nothing tells when it happens
    }
}
