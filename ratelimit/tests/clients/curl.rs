//! curl, as a person would use it.

use std::process::Command;

use crate::{
    http::Answer,
    process::{Daemon, program},
};

const RULES: &str = "
domain: edge
descriptors:
  - key: user
    rate_limit: {name: per-user, unit: day, requests_per_unit: 1}
";

fn curl(arguments: &[&str]) -> Answer {
    let output = Command::new(program("RATELIMIT_CURL")).args(["-s", "-i"]).args(arguments).output().unwrap();
    Answer::parse(&output.stdout)
}

fn question(user: &str) -> String {
    format!(r#"{{"domain": "edge", "descriptors": [{{"entries": [{{"key": "user", "value": "{user}"}}]}}]}}"#)
}

#[test]
fn questions_are_answered_over_both_versions_of_http() {
    let daemon = Daemon::start(RULES, "");
    let url = format!("http://{}/v1/check", daemon.http);
    for (user, version) in [("a", "--http1.1"), ("b", "--http2-prior-knowledge")] {
        let ask = || curl(&[version, &url, "--json", &question(user)]);
        let (first, second) = (ask(), ask());
        assert_eq!((first.status, first.header("x-ratelimit-remaining")), (200, Some("0")), "{version}");
        assert_eq!(second.status, 429, "{version}");
        assert!(second.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1, "{second:?}");
        assert_eq!(second.json()["violated-policies"], serde_json::json!(["per-user"]));
    }
    let health = curl(&[&format!("http://{}/healthcheck", daemon.http)]);
    assert_eq!((health.status, health.body.as_str()), (200, "OK"));
}

#[test]
fn a_unix_socket_is_as_good() {
    let socket = tempfile::tempdir().unwrap();
    let path = socket.path().join("http.sock").display().to_string();
    let daemon = Daemon::start_at(RULES, "", &format!("unix:{path}"));
    let answer = curl(&["--unix-socket", &path, "http://x/json", "-d", &question("u")]);
    assert_eq!((answer.status, &answer.json()["overallCode"]), (200, &"OK".into()));
    drop(daemon);
}
