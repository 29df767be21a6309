//! Envoy with its HTTP rate limit filter.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
};

use crate::{
    blocks,
    http::{Answer, request},
    process::{Daemon, Process, accepts, free_address, from_document, get, program, until},
    stops::StopsAtEnd,
};

mod budget;

const RULES: &str = "
domain: edge
descriptors:
  - key: user
    rate_limit: {name: per-user, unit: hour, requests_per_unit: 3}
  - key: watched
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: narrow
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: wide
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: premium
    rate_limit: {name: premium, unit: day, requests_per_unit: 4, replaces: [{name: basic}]}
  - key: basic
    rate_limit: {name: basic, unit: day, requests_per_unit: 1}
";

/// Each path asks about descriptors of its own, made from headers.
const ROUTES: &[(&str, &[&str])] = &[
    ("/user", &["user"]),
    ("/watched", &["watched"]),
    ("/quota", &["narrow", "wide"]),
    ("/tiers", &["premium", "basic"]),
];

fn config(listen: SocketAddr, rls: SocketAddr, app: SocketAddr) -> String {
    let routes: String = ROUTES.iter().map(route).collect();
    let [listen, rls, app] = [listen, rls, app].map(place);
    format!(
        "static_resources:
  listeners:
  - address: {listen}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: edge
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:
{routes}          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              '@type': type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: edge
              timeout: 5s
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {{envoy_grpc: {{cluster_name: ratelimit}}}}
          - name: envoy.filters.http.router
            typed_config:
              '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: ratelimit
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        '@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}
    load_assignment:
      cluster_name: ratelimit
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {rls}}}}}]}}]
  - name: app
    connect_timeout: 1s
    load_assignment:
      cluster_name: app
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {app}}}}}]}}]
"
    )
}

fn place(address: SocketAddr) -> String {
    format!("{{socket_address: {{address: {}, port_value: {}}}}}", address.ip(), address.port())
}

fn route((path, keys): &(&str, &[&str])) -> String {
    let limit = |key: &&str| {
        format!("{{actions: [{{request_headers: {{header_name: x-{key}, descriptor_key: {key}}}}}]}}")
    };
    let limits: Vec<String> = keys.iter().map(limit).collect();
    let limits = limits.join(", ");
    format!("              - {{match: {{path: {path}}}, route: {{cluster: app, rate_limits: [{limits}]}}}}\n")
}

/// Answers 200 to everything, as the application behind Envoy, and says that it has cost 2,000 tokens.
fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut stream = stream;
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
                    let is_end = line.trim_end().is_empty();
                    line.clear();
                    if is_end
                        && stream
                            .write_all(
                                b"HTTP/1.1 200 OK\r\nx-tokens: 2000\r\ncontent-length: 6\r\n\r\npassed",
                            )
                            .is_err()
                    {
                        break;
                    }
                }
            });
        }
    });
    address
}

struct Envoy {
    daemon: Daemon,
    address: SocketAddr,
    _process: Process,
}

impl Envoy {
    fn start(lines: &str) -> Self {
        Self::start_with(RULES, lines, |config| config)
    }

    /// With these routes instead, as a document has them.
    fn start_with_routes(rules: &str, routes: &str) -> Self {
        let (before, after) = ("              routes:\n", "          http_filters:\n");
        let routes: String = routes.lines().skip(1).map(|line| format!("              {line}\n")).collect();
        Self::start_with(rules, "", |config| {
            let (head, rest) = config.split_once(before).unwrap();
            let (_, tail) = rest.split_once(after).unwrap();
            format!("{head}{before}{}{after}{tail}", routes.replace("cluster: application", "cluster: app"))
        })
    }

    fn start_with(rules: &str, lines: &str, edit: impl Fn(String) -> String) -> Self {
        let daemon = Daemon::start(rules, lines);
        let address = free_address();
        let file = daemon.write("envoy.yaml", &edit(config(address, daemon.grpc, application())));
        let mut command = Command::new(program("RATELIMIT_ENVOY"));
        command.args([
            "--disable-hot-restart",
            "--concurrency",
            "1",
            "--log-level",
            "error",
            "--config-path",
        ]);
        let process = Process::start(command.arg(file).stdout(Stdio::null()).stderr(Stdio::null()));
        until("the start of Envoy", || accepts(address));
        let envoy = Self { daemon, address, _process: process };
        // Its connection to the daemon is made with the first question.
        until("the first question", || envoy.get("/user", &[("x-user", "first")]).header(LIMIT).is_some());
        envoy
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        get(self.address, path, headers)
    }

    fn statuses(&self, count: usize, path: &str, headers: &[(&str, &str)]) -> Vec<u16> {
        (0..count).map(|_| self.get(path, headers).status).collect()
    }
}

/// As Envoy has it, from what the daemon says of the limit.
const LIMIT: &str = "x-ratelimit-limit";

#[test]
fn limits_and_headers_reach_the_client() {
    let envoy = Envoy::start("  headers: {grpc: true, x_ratelimit: false}\n");
    let ask = || envoy.get("/user", &[("x-user", "alice")]);
    for left in [2, 1, 0] {
        let answer = ask();
        assert_eq!((answer.status, answer.body.as_str()), (200, "passed"));
        assert_eq!(answer.header(LIMIT), Some("3, 3;w=3600;name=\"per-user\""));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left.to_string().as_str()));
        let ietf = answer.header("ratelimit").unwrap();
        assert!(ietf.starts_with(&format!("\"per-user\";r={left};t=")), "{ietf}");
    }
    let denied = ask();
    assert_eq!((denied.status, denied.header("x-envoy-ratelimited")), (429, Some("true")));
    let wait: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    let reset: u64 = denied.header("x-ratelimit-reset").unwrap().parse().unwrap();
    assert!((1..=3600).contains(&wait) && wait.abs_diff(reset) <= 1, "{denied:?}");
    assert_eq!(envoy.get("/user", &[("x-user", "bob")]).status, 200);
}

#[test]
fn shadow_and_quota_mode_and_replaced_limits_count() {
    let envoy = Envoy::start("");
    assert_eq!(envoy.statuses(3, "/watched", &[("x-watched", "a")]), [200; 3]);
    // Denied only when both are over.
    let both = [("x-narrow", "a"), ("x-wide", "a")];
    assert_eq!(envoy.statuses(5, "/quota", &both), [200, 200, 200, 429, 429]);
    assert_eq!(envoy.statuses(2, "/tiers", &[("x-basic", "a")]), [200, 429]);
    // The limit of the better tier stands in place of the other, which is over already.
    let tiers = [("x-premium", "a"), ("x-basic", "a")];
    assert_eq!(envoy.statuses(5, "/tiers", &tiers), [200, 200, 200, 200, 429]);
}

#[test]
fn requests_pass_while_the_daemon_is_dead_and_are_limited_when_it_is_back() {
    let mut envoy = Envoy::start("");
    let (address, ended) = (envoy.address, AtomicBool::new(false));
    let (passed, other) = (AtomicU64::new(0), AtomicU64::new(0));
    let ask = || {
        while !ended.load(SeqCst) {
            // Nobody else is this user, so it is denied as long as the daemon lives.
            match get(address, "/user", &[("x-user", "load")]).status {
                200 => passed.fetch_add(1, SeqCst),
                429 => 0,
                _ => other.fetch_add(1, SeqCst),
            };
        }
    };
    thread::scope(|scope| {
        let at_end = StopsAtEnd(&ended);
        let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        until("the limit", || get(address, "/user", &[("x-user", "load")]).status == 429);
        let before = passed.load(SeqCst);
        envoy.daemon.kill();
        until("100 requests without the daemon", || passed.load(SeqCst) >= before + 100);
        envoy.daemon.start_again();
        until("the limit again", || get(address, "/user", &[("x-user", "load")]).status == 429);
        drop(at_end);
        asking.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(other.into_inner(), 0);
}

#[test]
fn the_configuration_that_users_start_from_works() {
    let at = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/envoy").join(name);
    let rules = fs::read_to_string(at("rules.yaml")).unwrap();
    let daemon = Daemon::start(&rules, "  headers: {grpc: true}\n");
    let (edge, application) = (free_address(), free_address());
    let mut text = fs::read_to_string(at("envoy.yaml")).unwrap();
    for (from, to) in [("10000", edge.port()), ("10001", application.port()), ("8081", daemon.grpc.port())] {
        let from = format!("port_value: {from}}}");
        assert!(text.contains(&from), "{from}");
        text = text.replace(&from, &format!("port_value: {to}}}"));
    }
    // A machine that runs all tests may be slow.
    assert!(text.contains("timeout: 0.05s"));
    let file = daemon.write("envoy.yaml", &text.replace("timeout: 0.05s", "timeout: 30s"));
    let mut command = Command::new(program("RATELIMIT_ENVOY"));
    command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "error", "--config-path"]);
    let _envoy = Process::start(command.arg(file).stdout(Stdio::null()).stderr(Stdio::null()));
    until("the start of Envoy", || accepts(edge));
    let ask = |user: &str, path: &str| get(edge, path, &[("x-user", user)]);
    until("the first question", || ask("first", "/").header("x-ratelimit-limit").is_some());
    let shown = blocks::find("docs/envoy.md", "for i in");
    assert!(
        ["config/envoy/ratelimit.yaml &", "config/envoy/envoy.yaml "].iter().all(|file| shown.contains(file))
    );
    let (_, waits_and_asks) = shown.split_at(shown.find("until curl").unwrap());
    let waits_and_asks = waits_and_asks.replace("127.0.0.1:10000", &edge.to_string());
    let waits_and_asks = waits_and_asks.replace("127.0.0.1:10001", &application.to_string());
    let curl = format!("{} ", program("RATELIMIT_CURL").display());
    let output = Command::new("sh").args(["-c", &waits_and_asks.replace("curl ", &curl)]).output().unwrap();
    let statuses = String::from_utf8(output.stdout).unwrap();
    assert_eq!(statuses.lines().collect::<Vec<_>>(), ["200", "200", "200", "200", "200", "429"]);
    assert_check_prints_what_the_document_shows(&daemon);
    assert_eq!(ask("alice", "/").header("retry-after").map(|wait| wait != "0"), Some(true));
    // Bytes that are no text, and whatever else, are a user too; none, or an empty one, is the address.
    for user in [&b"\xff"[..], b"b\xfccher", b"a\xc3", b"\xc0\xaf", b"\xed\xa0\x80"] {
        let statuses = [(); 6].map(|()| get_bytes(edge, user).status);
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429], "{}", user.escape_ascii());
    }
    let without = (0..6).map(|index| if index % 2 == 0 { get(edge, "/", &[]) } else { get_bytes(edge, b"") });
    assert_eq!(without.map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 200, 200, 200, 429]);
    assert_eq!(passes_at_once(edge, 600), 5, "more at once than a connection to the daemon takes");
    // Another user each time, so that only the limit of the path decides; it has room for ten.
    let mut users = 0..;
    let mut policy = |path: &str| {
        let user = format!("user-{}", users.next().unwrap());
        ask(&user, path).header("ratelimit-policy").unwrap().to_owned()
    };
    assert!(policy("/other?/search").starts_with("\"per-user\""));
    let paths =
        ["/search", "/search?q=1", "//search?q=2", "/x/../%73earch", "/./search?", "/x%2f..%2Fsearch"];
    // The user has four left of five, so that the path has less from the seventh request on.
    let policies: Vec<String> = paths.iter().cycle().take(12).map(|path| policy(path)).collect();
    assert!(policies.last().unwrap().starts_with("\"search\""), "{policies:?}");
}

/// How many of so many requests of one user pass that are all there before the first is answered.
fn passes_at_once(edge: SocketAddr, count: usize) -> usize {
    let request = request("GET", "/", &[("x-user", "many")], b"");
    let mut streams: Vec<TcpStream> = (0..count).map(|_| TcpStream::connect(edge).unwrap()).collect();
    streams.iter_mut().for_each(|stream| stream.write_all(&request).unwrap());
    streams.into_iter().filter(|stream| Answer::read(stream, b"").status == 200).count()
}

/// With a user that need not be text.
fn get_bytes(edge: SocketAddr, user: &[u8]) -> Answer {
    let head = b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\nx-user: ";
    Answer::read(TcpStream::connect(edge).unwrap(), &[head, user, b"\r\n\r\n"].concat())
}

/// After alice has had all of her requests.
fn assert_check_prints_what_the_document_shows(daemon: &Daemon) {
    let shown = blocks::find("docs/envoy.md", "$ ratelimit check");
    let (command, shown) = shown.split_once('\n').unwrap();
    let command = command.replace("127.0.0.1:8081", &daemon.grpc.to_string());
    let arguments = command.strip_prefix("$ ratelimit ").unwrap().split(' ');
    let output = Command::new(env!("CARGO_BIN_EXE_ratelimit")).args(arguments).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    // How long it takes until the window's end is another number each time.
    let (printed, shown) = (printed.rsplit_once('=').unwrap().0, shown.rsplit_once('=').unwrap().0);
    assert_eq!((printed, output.status.code()), (shown, Some(3)));
}

#[test]
fn a_cluster_whose_name_no_host_can_have_is_asked_by_another_one() {
    let line = from_document("docs/envoy.md", "yaml", "authority: ratelimit");
    let name = "outbound|8081||ratelimit.default.svc.cluster.local";
    assert!(line.contains(name));
    let envoy = Envoy::start_with(RULES, "", |config| {
        let renamed = config.replace("grpc_service: {envoy_grpc: {cluster_name: ratelimit}}", line.trim());
        let renamed = renamed.replace("- name: ratelimit\n", &format!("- name: '{name}'\n"));
        assert!(renamed.contains("authority") && renamed.contains(&format!("- name: '{name}'")));
        renamed.replace("cluster_name: ratelimit\n", &format!("cluster_name: '{name}'\n"))
    });
    assert_eq!(envoy.statuses(4, "/user", &[("x-user", "alice")]), [200, 200, 200, 429]);
}

#[test]
fn costs_that_envoy_would_leave_out_do_not_reach_it() {
    let routes =
        from_document("docs/envoy.md", "yaml", "routes:                           # of a virtual host");
    let rules =
        RULES.replace("requests_per_unit: 3}\n  - key: watched", "requests_per_unit: 10}\n  - key: watched");
    let envoy = Envoy::start_with_routes(&rules, &routes);
    let ask = |user: &str, cost: &str| envoy.get("/user", &[("x-user", user), ("x-cost", cost)]).status;
    assert_eq!([ask("a", "4"), ask("a", "6"), ask("a", "1")], [200, 200, 429]);
    for cost in ["1000000001", "99999999999999999999", "-1", "x", "1.5", "0", "", " ", "1,1", "0x1"] {
        assert_ne!(ask("a", cost), 200, "{cost:?}");
    }
    assert_eq!(ask("b", "999999999"), 429);
    assert_eq!(envoy.statuses(2, "/user", &[("x-user", "a")]), [429; 2]);
}
