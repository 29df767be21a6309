//! curl, as a person would use it.

use std::{os::unix::net::UnixStream, process::Command};

use crate::{
    blocks,
    http::Answer,
    process::{Daemon, from_document, program, until},
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
    // The daemon binds its addresses one after the other.
    until("the socket", || UnixStream::connect(&path).is_ok());
    let answer = curl(&["--unix-socket", &path, "http://x/json", "-d", &question("u")]);
    assert_eq!((answer.status, &answer.json()["overallCode"]), (200, &"OK".into()));
    drop(daemon);
}

#[test]
fn an_answer_has_the_headers_that_its_document_shows() {
    let rules = "domain: edge\ndescriptors:\n  - key: user\n    \
                 rate_limit: {name: per-user, unit: hour, requests_per_unit: 5}\n";
    let daemon = Daemon::start(rules, "");
    let shown = blocks::find("docs/http-api.md", "$ curl -i");
    let (command, shown) = shown.split_once("}'\n").unwrap();
    let curl = format!("{} -s -i {}/", program("RATELIMIT_CURL").display(), daemon.http);
    let command = command.strip_prefix("$ ").unwrap().replace("curl -i 127.0.0.1:8080/", &curl) + "}'";
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    for line in shown.lines() {
        // The seconds to the window's end are others each time.
        let line = line.split_once(";t=").map_or(line, |(before, _)| before);
        assert!(printed.lines().any(|printed| printed.starts_with(line)), "{line}: {printed}");
    }
}

/// The commands of a document, each as it is written there.
fn commands(part: &str) -> Vec<String> {
    let block = from_document("docs/budgets.md", "sh", part);
    block.split_inclusive("}'\n").map(str::to_owned).collect()
}

/// What is answered to a command of a document: the status, and what remains.
fn answered(daemon: &Daemon, command: &str) -> (u16, Option<u64>) {
    let curl = format!("{} -s -i {}/", program("RATELIMIT_CURL").display(), daemon.http);
    let command = command.replace("curl 127.0.0.1:8080/", &curl);
    let answer = Answer::parse(&Command::new("sh").args(["-c", &command]).output().unwrap().stdout);
    (answer.status, answer.json()["remaining"].as_u64())
}

#[test]
fn a_budget_is_asked_reported_and_given_back_as_its_document_says() {
    let daemon = Daemon::start(&from_document("docs/budgets.md", "yaml", "domain: llm"), "");
    let [ask, report, refund] = commands("Before the work:").try_into().unwrap();
    assert_eq!(answered(&daemon, &ask), (200, Some(5_000)));
    assert_eq!(answered(&daemon, &report), (200, Some(0)));
    assert_eq!(answered(&daemon, &ask).0, 429);
    assert_eq!(answered(&daemon, &refund), (200, Some(5_000)));
    assert_eq!(answered(&daemon, &ask), (200, Some(5_000)));
}

#[test]
fn requests_in_flight_are_limited_as_their_document_says() {
    let limit = from_document("docs/budgets.md", "yaml", "- key: running");
    let daemon = Daemon::start(&format!("domain: llm\ndescriptors:\n{limit}"), "");
    let [begin, end] = commands("It begins:").try_into().unwrap();
    let statuses =
        |command: &str, count| -> Vec<u16> { (0..count).map(|_| answered(&daemon, command).0).collect() };
    assert_eq!(statuses(&begin, 6), [200, 200, 200, 200, 429, 429]);
    assert_eq!(statuses(&end, 1), [200]);
    assert_eq!(statuses(&begin, 2), [200, 429]);
    assert_eq!(statuses(&end, 4), [200; 4]);
    assert_eq!(statuses(&begin, 5), [200, 200, 200, 200, 429]);
}
