//! nginx with `auth_request`, configured as docs/nginx.md says.

use std::{net::SocketAddr, process::Command};

use crate::{
    blocks,
    process::{Daemon, Process, accepts, free_address, from_document, get, program, until},
};

/// What a test leaves out of the document's configuration.
const LISTEN_ON_IPV6: &str = "listen [::]:80;";

/// What the document's configuration needs around it: an application, and files where this user may write them.
fn around(server: &str, app: SocketAddr) -> String {
    format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr crit;
events {{}}
http {{
access_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;
server {{ listen {app}; location / {{ return 200 \"the application\"; }} location /own {{ return 403; }} }}
{server}
}}
"
    )
}

/// As Debian's own site: it gets every request that is for no other host.
const DEFAULT_SITE: &str = "server { listen ADDRESS default_server; server_name _; return 404; }\n";

struct Nginx {
    daemon: Daemon,
    address: SocketAddr,
    _process: Process,
}

impl Nginx {
    fn start() -> Self {
        Self::start_beside("")
    }

    fn start_beside(beside: &str) -> Self {
        let rules = from_document("docs/nginx.md", "yaml", "# /etc/web.yaml");
        let config = from_document("docs/nginx.md", "yaml", "# /etc/ratelimit.yaml\napplication");
        // All but where things are, which is each test's own.
        let is_kept =
            |line: &&str| ["trusted_hops:", "auth:"].iter().any(|key| line.trim_start().starts_with(key));
        let lines: String = config.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect();
        Self::start_with(&rules, &lines, beside)
    }

    /// `beside` are servers at the same address, whose place is ADDRESS.
    fn start_with(rules: &str, lines: &str, beside: &str) -> Self {
        let daemon = Daemon::start(rules, lines);
        let (address, app) = (free_address(), free_address());
        let server = from_document("docs/nginx.md", "nginx", "location = /_ratelimit");
        for part in ["listen 80;", LISTEN_ON_IPV6, "127.0.0.1:8080", "127.0.0.1:3000"] {
            assert!(server.contains(part), "{part}: {server}");
        }
        let server = server
            .replace("listen 80;", &format!("listen {address};"))
            .replace(LISTEN_ON_IPV6, "")
            .replace("127.0.0.1:8080", &daemon.http.to_string())
            .replace("127.0.0.1:3000", &app.to_string());
        daemon
            .write("nginx.conf", &around(&(server + &beside.replace("ADDRESS", &address.to_string())), app));
        let mut command = Command::new(program("RATELIMIT_NGINX"));
        let prefix = format!("{}/", daemon.directory.path().display());
        let process = Process::start(command.args(["-p", &prefix, "-c", "nginx.conf", "-e", "stderr"]));
        until("the start of nginx", || accepts(address));
        Self { daemon, address, _process: process }
    }
}

#[test]
fn limits_and_their_headers_reach_the_client() {
    let nginx = Nginx::start();
    let first = get(nginx.address, "/", &[]);
    assert_eq!((first.status, first.body.as_str()), (200, "the application"));
    let limit: u64 = first.header("x-ratelimit-limit").unwrap().parse().unwrap();
    assert_eq!(first.header("x-ratelimit-remaining"), Some((limit - 1).to_string().as_str()));
    assert_eq!(first.header("retry-after"), None);
    for left in (0..limit - 1).rev() {
        // What clients write themselves makes no other client of them.
        let answer = get(nginx.address, "/page?x=1", &[("X-Forwarded-For", &format!("192.0.2.{left}"))]);
        assert_eq!(
            (answer.status, answer.header("x-ratelimit-remaining")),
            (200, Some(left.to_string().as_str()))
        );
    }
    let denied = get(nginx.address, "/", &[]);
    assert_eq!(denied.status, 429);
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("0"));
    let wait: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3600).contains(&wait), "{denied:?}");
}

#[test]
fn what_the_document_tries_is_limited_beside_another_site() {
    let nginx = Nginx::start_beside(DEFAULT_SITE);
    let shown = blocks::find("docs/nginx.md", "nginx -t");
    let ask = shown.lines().last().unwrap();
    assert!(ask.contains("curl ") && ask.contains(" 127.0.0.1;"), "{ask}");
    let curl = format!("{} ", program("RATELIMIT_CURL").display());
    let ask = ask.replace("curl ", &curl).replace(" 127.0.0.1;", &format!(" {};", nginx.address));
    let output = Command::new("sh").args(["-c", &ask]).output().unwrap();
    let counts = String::from_utf8(output.stdout).unwrap();
    assert_eq!(counts.split_whitespace().collect::<Vec<_>>(), ["100", "200", "1", "429"]);
}

#[test]
fn what_clients_write_themselves_is_no_fact() {
    let facts = "{host}{path}{method}";
    let auth = format!("  auth: {{domain: web, descriptors: [{{facts: '{facts}'}}]}}\n");
    let rules = "domain: web\ndescriptors: [{key: facts, value: test/loginGET, rate_limit: {unit: day, requests_per_unit: 0}}]\n";
    let nginx = Nginx::start_with(rules, &auth, "");
    for name in ["Host", "Uri", "Method"].map(|name| format!("X-Forwarded-{name}")) {
        assert_eq!(get(nginx.address, "/login?next=http://x/", &[(&name, "/other")]).status, 429, "{name}");
    }
    for name in ["X-Original-URI", "X-Original-URL", "X-Original-Method"] {
        assert_eq!(get(nginx.address, "//./%6cogin", &[(name, "/other")]).status, 429, "{name}");
    }
    assert_eq!(get(nginx.address, "/other", &[]).status, 200);
}

#[test]
fn headers_that_the_daemon_refuses_are_no_error_of_the_client() {
    let nginx = Nginx::start();
    let names: Vec<String> = (0..150).map(|number| format!("x-{number}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    for headers in [&many[..], &[("x", "a\u{1}b")], &[("Forwarded", "for=192.0.2.1")]] {
        let answer = get(nginx.address, "/", headers);
        assert_eq!((answer.status, answer.body.as_str()), (200, "the application"));
        assert!(answer.header("x-ratelimit-remaining").is_some(), "{answer:?}");
    }
}

#[test]
fn an_answer_of_the_application_stays_its_own() {
    let nginx = Nginx::start();
    assert_eq!(get(nginx.address, "/own", &[]).status, 403);
}

#[test]
fn requests_pass_while_the_daemon_is_dead_and_are_limited_when_it_is_back() {
    let mut nginx = Nginx::start();
    while get(nginx.address, "/", &[]).status == 200 {}
    nginx.daemon.kill();
    for _ in 0..20 {
        let answer = get(nginx.address, "/", &[]);
        assert_eq!((answer.status, answer.body.as_str()), (200, "the application"));
        assert_eq!(answer.header("x-ratelimit-limit"), None);
    }
    nginx.daemon.start_again();
    assert!(get(nginx.address, "/", &[]).header("x-ratelimit-limit").is_some());
    while get(nginx.address, "/", &[]).status == 200 {}
    assert_eq!(get(nginx.address, "/", &[]).status, 429);
}

#[test]
fn what_coming_from_nginx_shows_is_a_configuration_of_nginx() {
    let shown = from_document("docs/coming-from.md", "nginx", "limit_req_zone");
    let directory = tempfile::tempdir().unwrap();
    let around = "access_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; \
                  scgi_temp_path e;";
    let whole = format!("pid nginx.pid; events {{}} http {{ {around} {shown} }}");
    std::fs::write(directory.path().join("nginx.conf"), whole).unwrap();
    let prefix = format!("{}/", directory.path().display());
    let mut command = Command::new(program("RATELIMIT_NGINX"));
    let output = command.args(["-t", "-p", &prefix, "-c", "nginx.conf", "-e", "stderr"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
