//! `ratelimit check` against running servers.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Fixture, RULES, unix};

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ratelimit")).arg("check").args(arguments).output().unwrap()
}

fn asked(arguments: &[&str]) -> (i32, String, String) {
    let output = check(arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_exit_status_is_the_decision_over_http_and_grpc() {
    let fixture = Fixture::new("");
    for (user, url) in
        [("h", format!("http://{}", fixture.http())), ("g", format!("grpc://{}", fixture.grpc()))]
    {
        let descriptor = format!("user={user}");
        let ask = |hits: &str| {
            let common = ["--url", &url, "--domain", "edge", "--descriptor", &descriptor, "--hits", hits];
            asked(&common)
        };
        let (status, text, errors) = ask("1");
        assert_eq!((status, errors.as_str()), (0, ""), "{url}");
        assert!(text.starts_with("allowed\n  allowed  rule=per-user  limit=2  remaining=1"), "{text}");
        let statuses: Vec<i32> = ["0", "1", "0", "1"].iter().map(|hits| ask(hits).0).collect();
        // To ask alone is denied only if more was taken than there is.
        assert_eq!(statuses, [0, 0, 0, 3], "{url}");
    }
}

#[test]
fn programs_get_json_and_several_descriptors_are_asked_at_once() {
    let fixture = Fixture::new("");
    let url = format!("http://{}", fixture.http());
    let output = ["--output", "json", "--url", &url];
    let (status, text, _) = asked(
        &[&output[..], &["--domain", "edge", "--descriptor", "none=x", "--descriptor", "a=b,c=d"]].concat(),
    );
    assert_eq!(status, 3);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&answer["allowed"], answer["descriptors"].as_array().unwrap().len()), (&false.into(), 2));
}

#[test]
fn a_configuration_says_where() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("rules.yaml"), RULES).unwrap();
    let path = directory.path().join("rl.sock").display().to_string();
    let lines = format!("listen: {{http: 'unix:{path}', grpc: 'unix:{path}-grpc'}}");
    let fixture = Fixture::in_directory(directory, &lines);
    let config = fixture.directory.path().join("ratelimit.yaml").display().to_string();
    let (status, text, errors) = asked(&["--config", &config, "--domain", "edge", "--descriptor", "user=x"]);
    assert_eq!(status, 0, "{text}{errors}");
    let url = format!("unix:{}", unix(&fixture.servers.addresses().http[0]).display());
    assert_eq!(asked(&["--url", &url, "--domain", "edge", "--descriptor", "user=x"]).0, 0);
    let url = format!("grpc+{url}-grpc");
    assert_eq!(asked(&["--url", &url, "--domain", "edge", "--descriptor", "user=x"]).0, 3);
}

#[test]
fn failures_say_what_to_do() {
    let fixture = Fixture::new("");
    let url = format!("http://{}", fixture.http());
    let (status, _, errors) = asked(&["--url", &url, "--domain", "", "--descriptor", "user=x"]);
    assert!(status == 1 && errors.contains("domain must not be empty"), "{status} {errors}");
    for wrong in [format!("http://{}", fixture.grpc()), format!("grpc://{}", fixture.http())] {
        let (status, _, errors) = asked(&["--url", &wrong, "--domain", "edge", "--descriptor", "user=x"]);
        assert!(status == 1 && errors.contains("grpc:// or grpcs://"), "{wrong} {status} {errors}");
    }
    let wrong = format!("https://{}", fixture.http());
    let (status, _, errors) = asked(&["--url", &wrong, "--domain", "edge", "--descriptor", "user=x"]);
    assert!(status == 1 && errors.contains("--ca"), "{status} {errors}");
    drop(fixture);
    let (status, _, errors) = asked(&["--url", &url, "--domain", "edge", "--descriptor", "user=x"]);
    assert!(status == 1 && errors.contains("--url"), "{status} {errors}");
    for wrong in [&["--descriptor", "user"][..], &["--descriptor", "a=b", "--url", "nowhere"], &[]] {
        assert_eq!(asked(&[&["--domain", "edge"], wrong].concat()).0, 2, "{wrong:?}");
    }
}
