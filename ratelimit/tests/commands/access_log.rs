//! `ratelimit simulate --access-log`, the program: requests of a log through rules, by the log's clock.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::{Value, json};
use tempfile::TempDir;

const CONFIG: &str = r#"
application:
  rules: rules.yaml
  auth:
    domain: edge
    descriptors:
      - {client: "{client_address}"}
      - {path: "{path}", agent: "{header:user-agent}"}
      - {token: "{query:token}"}
      - {user: "{header:x-user}"}
  store: {memory: {state_file: state}}
"#;

const RULES: &str = "
domain: edge
descriptors:
  - {key: client, rate_limit: {algorithm: token_bucket, unit: minute, requests_per_unit: 2}}
  - key: path
    value: /login
    descriptors: [{key: agent, value: 'bot*', rate_limit: {unit: hour, requests_per_unit: 1, soft_limit: 1, soft_for: 1h}}]
  - {key: token, value: free, rate_limit: {unlimited: true}}
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 0}}
";

struct Lab {
    directory: TempDir,
}

impl Lab {
    fn new(rules: &str, log: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in [("c.yaml", CONFIG), ("rules.yaml", rules), ("log", log)] {
            fs::write(directory.path().join(name), content).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
        command.arg("simulate").arg("--config").arg(self.path("c.yaml"));
        command.arg("--access-log").arg(self.path("log")).args(more).output().unwrap()
    }
}

fn line(client: &str, time: &str, target: &str, agent: &str) -> String {
    format!("{client} - - [10/Oct/2000:{time} +0000] \"GET {target} HTTP/1.1\" 200 5 \"-\" \"{agent}\"\n")
}

fn rules() -> String {
    RULES.replace(", soft_limit: 1, soft_for: 1h", "")
}

fn log() -> String {
    let a = |time, target| line("192.0.2.1", time, target, "cli");
    [
        a("00:00:00", "/"),
        a("00:00:00", "/?token=free"),
        a("00:00:10", "/"),
        // The log is in the order in which requests ended.
        a("00:00:05", "/"),
        a("00:00:40", "/"),
        line("2001:db8::1:2", "00:00:41", "/login", "bot/1"),
        line("2001:db8::2", "00:00:42", "/login", "bot/1"),
        line("unknown.example", "00:00:43", "/", "cli"),
        "this is not a request\n".to_owned(),
    ]
    .concat()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn requests_are_judged_by_the_clock_of_the_log() {
    let lab = Lab::new(&rules(), &log());
    let output = lab.run(&["--output", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<_> = lines
        .iter()
        .take(8)
        .map(|line| (line["allow"].as_bool().unwrap(), line["retry_after"].as_u64()))
        .collect();
    let expected = [
        (true, None),
        (true, None),
        (false, Some(20)),
        (false, Some(20)),
        (true, None),
        (true, None),
        (false, Some(3558)),
        (true, None),
    ];
    assert_eq!(found, expected);
    assert_eq!(
        lines[2],
        json!({
            "line": 3, "seconds": 971_136_010, "client": "192.0.2.1", "method": "GET", "path": "/", "allow": false, "soft": false,
            "rule": "client", "remaining": 0, "retry_after": 20, "error": null,
        })
    );
    assert_eq!(lines[7]["rule"], Value::Null);
    let summary = &lines[8]["summary"];
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(["allowed", "denied", "unlimited", "refused", "unread"].map(count), [5, 3, 1, 0, 1]);
    assert_eq!(["late", "very_late", "ahead"].map(count), [1, 0, 0]);
    assert_eq!(summary["denied_most"][0], json!({"descriptor": "client=192.0.2.1", "count": 2}));
    let expected = "log:9: not a line of the combined format; such lines were passed over (1 in all)\n";
    assert!(text(&output.stderr).ends_with(expected), "{}", text(&output.stderr));
    assert!(!lab.path("state").exists(), "nothing is saved");
}

#[test]
fn a_line_far_in_the_future_does_not_stop_the_clock_for_those_after_it() {
    let request = |time: &str| line("192.0.2.1", time, "/", "cli");
    let odd = request("00:00:01").replace("/2000:", "/2099:");
    let times = ["00:00:00", "00:00:00", "00:00:00", "00:01:00", "00:02:00", "00:03:00", "00:04:00"];
    let mut lines = times.map(request).to_vec();
    lines.insert(1, odd);
    lines.push(request("00:00:00"));
    let output = Lab::new(&rules(), &lines.concat()).run(&["--output", "json"]);
    let allowed: Vec<bool> = text(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["allow"].as_bool())
        .collect();
    assert_eq!(allowed, [true, true, false, false, true, true, true, true, true]);
    let errors: Vec<&str> = text(&output.stderr).lines().collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains("log:2: more than a minute ahead of most lines after it"), "{errors:?}");
    assert!(errors[1].contains("log:9: more than a minute before a line above it"), "{errors:?}");
    assert!(errors[1].ends_with("(1 in all)"), "{errors:?}");
}

#[test]
fn the_summary_says_what_came_of_all() {
    let lab = Lab::new(&rules(), &log());
    let output = lab.run(&[]);
    let expected = "REQUESTS           COUNT
allowed                5
  without a limit      1
denied                 3
late                   1
unread                 1

RULE                    HITS  WITHIN  NEAR  OVER  OBSERVED
client                     7       5     3     2         0
path_/login.agent_bot*     2       1     1     1         0
token_free                 1       1     0     0         0

DENIED MOST              COUNT
client=192.0.2.1             2
path=/login,agent=bot/1      1
";
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn what_can_not_be_run_says_what_to_do() {
    let status = |output: &Output| output.status.code();
    let lab = Lab::new(&rules(), "x\ny\n");
    let output = lab.run(&[]);
    assert_eq!(status(&output), Some(2));
    assert!(
        text(&output.stderr).contains("log:1: no line has the combined format"),
        "{}",
        text(&output.stderr)
    );
    let output = lab.run(&["capture.pcap"]);
    assert_eq!(status(&output), Some(2));
    fs::write(lab.path("c.yaml"), "application: {rules: rules.yaml}").unwrap();
    let output = lab.run(&[]);
    assert_eq!(status(&output), Some(2));
    assert!(text(&output.stderr).contains("no `application.auth`: add it"), "{}", text(&output.stderr));
    fs::remove_file(lab.path("log")).unwrap();
    fs::write(lab.path("c.yaml"), CONFIG).unwrap();
    assert_eq!(status(&lab.run(&[])), Some(1));
}

#[test]
fn a_log_without_lines_has_nothing_to_say() {
    let output = Lab::new(&rules(), "").run(&[]);
    assert!(output.status.success() && output.stderr.is_empty());
    assert!(text(&output.stdout).starts_with("REQUESTS  COUNT\nallowed       0\ndenied        0\n"));
}

#[test]
fn a_soft_limit_that_is_none_is_a_mistake_of_the_rules() {
    let output = Lab::new(RULES, &log()).run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("rules.yaml:7:"), "{}", text(&output.stderr));
}
