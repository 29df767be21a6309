//! Debian's Prometheus, which reads the metrics of a daemon under load: each expression of the dashboard and of the
//! alert rules has a series. `tests/clients/alerts.yml` says when alerts fire.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
    sync::atomic::AtomicBool,
    thread,
};

use serde_json::Value;

use super::{Running, example, program};
use crate::{
    daemon::{Daemon, config_at, run},
    flood,
    net::{Link, client_interface, ip, isolated},
    packets::{self, PORTS},
    stops::StopsAtEnd,
    wait,
};

const PROMETHEUS: &str = "127.0.0.1:9090";
const TOP: &str = "metrics: {listen: 127.0.0.1:9102}
application:
  rules: [rules.yaml]
  listen: {http: 127.0.0.1:8080, grpc: 127.0.0.1:8081}
  auth: {domain: edge, descriptors: [{client: '{client_address}'}]}
";

fn exchange(address: &str, request: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(address) else { return String::new() };
    stream.set_read_timeout(Some(wait::LONGEST)).unwrap();
    let _ = stream.write_all(format!("{request}\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// How many series an expression has.
fn series(expression: &str) -> Result<usize, String> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let encode =
        |byte: u8| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let query: String = expression.bytes().map(encode).collect();
    let answer = exchange(PROMETHEUS, &format!("GET /api/v1/query?query={query} HTTP/1.0"));
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let answer: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {answer}"))?;
    let found = answer["data"]["result"].as_array();
    found.map(Vec::len).ok_or_else(|| answer.to_string())
}

/// What the panels of the dashboard show.
fn of_the_dashboard() -> Vec<String> {
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(example("grafana/ratelimit.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    expressions.map(|text| text.replace("$instance", ".*").replace("$__rate_interval", "5s")).collect()
}

/// What alerts are about, whether it is too much or not.
fn of_the_alerts() -> Vec<String> {
    let rules = fs::read_to_string(example("prometheus/ratelimit.rules.yml")).unwrap();
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let compared = |text: &str| {
        let (what, _) = text.rsplit_once(" == ").or_else(|| text.rsplit_once(" > ")).expect(text);
        what.to_owned()
    };
    expressions.map(compared).collect()
}

fn start_prometheus() -> Running {
    let rules = example("prometheus/ratelimit.rules.yml").canonicalize().unwrap();
    let configuration = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs:\n  \
         - {{job_name: ratelimit, static_configs: [{{targets: ['127.0.0.1:9102']}}]}}\n",
        rules.display()
    );
    fs::write("/run/prometheus.yml", configuration).unwrap();
    let mut prometheus = Command::new(program("RATELIMIT_PROMETHEUS"));
    prometheus.args([
        "--config.file=/run/prometheus.yml",
        "--storage.tsdb.path=/run/prometheus",
        "--log.level=error",
    ]);
    prometheus.arg(format!("--web.listen-address={PROMETHEUS}")).stdin(Stdio::null());
    Running(prometheus.spawn().unwrap())
}

#[test]
fn each_expression_of_dashboard_and_alerts_has_a_series() {
    isolated(|| {
        let link = Link::silent();
        link.add_wire(("server1", "02:00:00:00:00:03"), ("client1", "02:00:00:00:00:04"));
        fs::write("/run/denied.txt", "192.0.2.0/24\n").unwrap();
        fs::write(
            "/run/rules.yaml",
            "domain: edge\ndescriptors: [{key: client, rate_limit: {unit: second, requests_per_unit: 1}}]\n",
        )
        .unwrap();
        let config = config_at(
            "/run/ratelimit.yaml",
            TOP,
            &["deny: [{file: denied.txt}]"],
            &["{name: every, rate: 1k/s}"],
        );
        let text = fs::read_to_string(&config).unwrap().replace("[server0]", "[server0, server1]");
        fs::write(&config, text).unwrap();
        let _daemon = Daemon::start(&config);
        // One that is missed.
        ip("link del server1");
        let _prometheus = start_prometheus();
        let (stop, frame) = (AtomicBool::new(false), packets::v4(packets::UDP, &PORTS));
        thread::scope(|scope| {
            let at_end = StopsAtEnd(&stop);
            scope.spawn(|| flood::send(&link, client_interface(), &frame, &stop));
            let mut open: BTreeSet<String> = of_the_dashboard().into_iter().chain(of_the_alerts()).collect();
            assert!(open.len() > 35, "{open:#?}");
            wait::until("each expression has a series", || {
                (0..20).for_each(|_| drop(exchange("127.0.0.1:8080", "GET /v1/auth HTTP/1.0")));
                open.retain(|expression| !series(expression).is_ok_and(|count| count > 0));
                println!("without a series: {open:#?}");
                open.is_empty().then_some(())
            });
            drop(at_end);
        });
        // Nor does anybody ask in vain for what is no expression.
        assert!(series("rate(").is_err());
        run(&["detach"]);
    });
}
