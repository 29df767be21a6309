//! HAProxy with the Lua action in `config/haproxy`, configured as the file beside it says.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use crate::process::{Daemon, Process, accepts, free_address, get, program, until};

fn config(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/haproxy").join(name)).unwrap()
}

struct HaProxy {
    daemon: Daemon,
    address: SocketAddr,
    _process: Process,
}

impl HaProxy {
    fn start(fails: &str) -> Self {
        let rules = "domain: web
descriptors:
  - {key: client, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: agent, value: forbidden, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: facts, value: example.org/loginPUT, rate_limit: {unit: day, requests_per_unit: 0}}
";
        let lines = "  trusted_hops: 1
  auth: {domain: web, deny_status: 429, descriptors: [{client: '{client_address}'}, {agent: '{header:user-agent}'}, {facts: '{host}{path}{method}'}]}
";
        let daemon = Daemon::start(rules, lines);
        let (address, app) = (free_address(), free_address());
        let lua: PathBuf = daemon.write("ratelimit.lua", &config("ratelimit.lua"));
        let mut text = config("haproxy.cfg");
        for (part, with) in [
            ("/etc/haproxy/ratelimit.lua", lua.display().to_string()),
            ("URL http://127.0.0.1:8080", format!("URL http://{}", daemon.http)),
            ("FAILS open", format!("FAILS {fails}")),
            ("daemon 127.0.0.1:8080", format!("daemon {}", daemon.http)),
            ("bind 127.0.0.1:10000", format!("bind {address}")),
            ("127.0.0.1:3000", app.to_string()),
        ] {
            assert!(text.contains(part), "{part}: {text}");
            text = text.replace(part, &with);
        }
        text += &format!(
            "\nfrontend application\n    bind {app}\n    http-request return status 200 content-type text/plain string \"the application\"\n"
        );
        let file = daemon.write("haproxy.cfg", &text);
        let process =
            Process::start(Command::new(program("RATELIMIT_HAPROXY")).arg("-db").arg("-f").arg(file));
        until("the start of HAProxy", || accepts(address) && accepts(app));
        Self { daemon, address, _process: process }
    }

    fn status(&self, path: &str, headers: &[(&str, &str)]) -> u16 {
        get(self.address, path, headers).status
    }
}

#[test]
fn limits_and_their_headers_reach_the_client() {
    let haproxy = HaProxy::start("open");
    for left in ["4", "3", "2", "1", "0"] {
        // What clients write themselves makes no other client of them.
        let own = [("X-Forwarded-For", format!("192.0.2.{left}"))];
        let answer = get(haproxy.address, "/page?x=1", &[(own[0].0, &own[0].1)]);
        assert_eq!((answer.status, answer.body.as_str()), (200, "the application"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left), "{answer:?}");
    }
    let denied = get(haproxy.address, "/", &[]);
    assert_eq!((denied.status, denied.header("x-ratelimit-limit")), (429, Some("5")), "{denied:?}");
    assert!(denied.header("retry-after").unwrap().parse::<u64>().unwrap() > 0, "{denied:?}");
    assert_eq!(denied.header("cache-control"), Some("no-store"));
}

#[test]
fn facts_are_those_of_the_request_and_named_headers_are_passed_on() {
    let haproxy = HaProxy::start("open");
    assert_eq!(haproxy.status("/", &[("User-Agent", "forbidden")]), 429);
    assert_eq!(haproxy.status("/", &[("User-Agent", "other"), ("X-Forwarded-Uri", "/login")]), 200);
    let put = |path: &str, host: &str| {
        let mut curl = Command::new(program("RATELIMIT_CURL"));
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "PUT", "-H"]);
        let done = curl
            .arg(format!("Host: {host}"))
            .arg(format!("http://{}{path}", haproxy.address))
            .output()
            .unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    assert_eq!(put("//%6cogin?next=1", "example.org"), "429");
    assert_eq!(put("/other", "example.org"), "200");
}

#[test]
fn without_the_daemon_requests_pass_or_not_as_configured() {
    for (fails, status) in [("open", 200), ("closed", 503)] {
        let mut haproxy = HaProxy::start(fails);
        haproxy.daemon.kill();
        // The first may be asked about before the health check notices.
        for _ in 0..10 {
            assert_eq!(haproxy.status("/", &[]), status, "{fails}");
        }
        haproxy.daemon.start_again();
        let is_asked = || get(haproxy.address, "/", &[]).header("x-ratelimit-remaining").is_some();
        until("the daemon is asked again", is_asked);
        while haproxy.status("/", &[]) == 200 {}
        assert_eq!(haproxy.status("/", &[]), 429);
    }
}
