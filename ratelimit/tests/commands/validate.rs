//! `ratelimit validate`, the program: what it reads, and what it prints.

use std::{
    fs::File,
    io::Write as _,
    process::{Command, Output, Stdio},
};

const GOOD: &str = "network: {interfaces: [eth0], rules: [{name: a, rate: 1k/s}]}\n";

fn validate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    command
        .arg("validate")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_standard_input_may_be_a_pipe() {
    for name in ["-", "/dev/stdin", "/dev/fd/0"] {
        for (content, expected) in [(GOOD, 0), ("x: 1\n", 2)] {
            let mut child = validate(&[name]).stdin(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(content.as_bytes()).unwrap();
            let (code, out, err) = text(&child.wait_with_output().unwrap());
            assert_eq!(code, Some(expected), "{out}{err}");
            assert!(format!("{out}{err}").starts_with(&format!("{name}:")), "{out}{err}");
        }
    }
}

#[test]
fn interfaces_that_are_not_here_are_warnings() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.yaml");
    std::fs::write(&file, "network: {interfaces: [lo, {name: nowhere0}], rules: [{name: a, rate: 1k/s}]}\n")
        .unwrap();
    let (status, _, err) = text_of(&file);
    assert_eq!((status, err.lines().count()), (Some(0), 1), "{err}");
    let expected = ":1:35: warning: network.interfaces[1].name: no interface `nowhere0` here; there are: ";
    assert!(err.contains(expected), "{err}");
    assert!(err.ends_with("; `ratelimit run` needs it, here or where it runs\n"), "{err}");
    let output = validate(&["--output", "json", file.to_str().unwrap()]).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&answer["files"][0]["ok"], answer["files"][0]["warnings"].as_array().unwrap().len()),
        (&true.into(), 1)
    );
}

#[test]
fn an_endless_standard_input_is_refused() {
    let zeros = File::open("/dev/zero").unwrap();
    let (code, _, err) = text(&validate(&["-"]).stdin(zeros).output().unwrap());
    assert_eq!((code, err.as_str()), (Some(2), "-:1:1: larger than 8 MiB\n"));
}

#[test]
fn names_and_keys_do_nothing_to_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    for (content, code) in [(GOOD, 0), ("x: 1\n", 2), ("network: {}\n", 0)] {
        let path = directory.path().join("\u{1b}[31m\u{202e}.yaml");
        std::fs::write(&path, content).unwrap();
        let output = validate(&[path.to_str().unwrap()]).output().unwrap();
        let (status, out, err) = text(&output);
        assert_eq!(status, Some(code));
        let said = format!("{out}{err}");
        assert!(
            said.contains("\\u{1b}[31m\\u{202e}.yaml:") && !said.contains(['\u{1b}', '\u{202e}']),
            "{said}"
        );
    }
}

#[test]
fn what_a_command_can_not_do_is_json_if_answers_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.yaml");
    std::fs::write(&path, "x: 1\ny: 1\n").unwrap();
    let run = |output: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
        command.args(["run", "--output", output, "--config"]).arg(&path).stdin(Stdio::null());
        text(&command.output().unwrap())
    };
    let (status, out, err) = run("json");
    assert_eq!((status, out.as_str(), err.lines().count()), (Some(2), "", 1), "{err}");
    let answer: serde_json::Value = serde_json::from_str(&err).unwrap();
    let lines = answer["error"].as_str().unwrap();

    // For people, each line begins with its place.
    let (_, _, err) = run("text");
    assert_eq!(err, format!("{lines}\n"));
    let prefix = format!("{}:", path.display());
    assert!(err.lines().count() == 2 && err.lines().all(|line| line.starts_with(&prefix)), "{err}");
}

#[test]
fn descriptors_without_a_domain_are_a_file_of_rules() {
    let directory = tempfile::tempdir().unwrap();
    for (content, said) in [
        ("descriptors:\n", "empty domain"),
        ("domain:\ndescriptors: []\n", "empty domain"),
        ("0.25: test\ndescriptors: [{key: a}]\n", "0.25"),
        ("network:\ndescriptors:\n", "unknown key"),
    ] {
        let path = directory.path().join("file.yaml");
        std::fs::write(&path, content).unwrap();
        let (status, out, err) = text(&validate(&[path.to_str().unwrap()]).output().unwrap());
        assert_eq!(status, Some(2), "{out}");
        assert!(err.contains(said) && !err.contains("unknown key `0.25`"), "{content}: {err}");
    }
}

#[test]
fn certificates_that_can_not_be_used_are_mistakes_and_those_that_are_not_there_warnings() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["a", "b"] {
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(at(&format!("{name}.pem")), issued.cert.pem()).unwrap();
        std::fs::write(at(&format!("{name}.key")), issued.signing_key.serialize_pem()).unwrap();
    }
    std::fs::write(at("nonsense"), "nonsense").unwrap();
    let key = std::fs::read_to_string(at("a.key")).unwrap();
    std::fs::write(at("encrypted"), key.replace(" PRIVATE", " ENCRYPTED PRIVATE")).unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(at("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(at("ca.key"), key.serialize_pem()).unwrap();
    std::fs::write(
        at("rules.yaml"),
        "domain: a\ndescriptors: [{key: x, rate_limit: {unit: day, requests_per_unit: 1}}]\n",
    )
    .unwrap();
    for (cert, key, client_ca, code, said) in [
        ("a.pem", "a.key", "b.pem", 0, ""),
        ("a.pem", "b.key", "b.pem", 2, ":5:17: application.listen.http.tls.cert: "),
        ("a.pem", "b.key", "b.pem", 2, "was made for another key than "),
        ("a.pem", "nonsense", "b.pem", 2, ":6:16: application.listen.http.tls.key: "),
        ("a.pem", "a.key", "nonsense", 2, ":7:22: application.listen.http.tls.client_ca: "),
        ("a.pem", "none", "b.pem", 0, ":6:16: warning: application.listen.http.tls.key: "),
        ("a.pem", "a.pem", "b.pem", 2, ":6:16: application.listen.http.tls.key: "),
        ("a.pem", "a.key", "a.key", 2, ":7:22: application.listen.http.tls.client_ca: "),
        ("a.pem", "encrypted", "b.pem", 2, "the private key is encrypted"),
        ("ca.pem", "ca.key", "b.pem", 0, ":5:17: warning: application.listen.http.tls.cert: "),
        ("ca.pem", "ca.key", "b.pem", 0, "the certificate of a CA: "),
    ] {
        let listen = format!(
            "application:\n  rules: rules.yaml\n  listen:\n    http: {{address: \"127.0.0.1:0\", tls: {{\n          \
             cert: {cert},\n          key: {key},\n          client_ca: {client_ca}}}}}\n"
        );
        std::fs::write(at("c.yaml"), listen).unwrap();
        let (status, out, err) = text(&validate(&[at("c.yaml").to_str().unwrap()]).output().unwrap());
        assert_eq!(
            (status, err.contains(said), err.is_empty()),
            (Some(code), true, said.is_empty()),
            "{out}{err}"
        );
    }
}

#[test]
fn what_the_daemon_would_meet_at_its_start_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::create_dir(at("dir")).unwrap();
    std::fs::write(at("file"), "a file").unwrap();
    std::fs::write(
        at("rules.yaml"),
        "domain: a\ndescriptors: [{key: x, rate_limit: {unit: day, requests_per_unit: 1}}]\n",
    )
    .unwrap();
    let state = "  store: {memory: {state_file: ";
    let listen = "  listen: {http: ";
    for (top, lines, code, said) in [
        ("", format!("{state}dir}}}}"), 2, "application.store.memory.state_file: "),
        ("", format!("{state}dir}}}}"), 2, "/dir: a directory: name a file in it"),
        (
            "",
            format!("{state}none/state}}}}"),
            0,
            "its directory is not there: make it, or name another file; `ratelimit run`",
        ),
        (
            "",
            format!("{state}file}}}}"),
            0,
            "not a state file of this version; all counts would start at zero",
        ),
        ("", format!("{state}state}}}}"), 0, ""),
        ("", format!("{listen}\"unix:dir\"}}"), 2, "application.listen.http: "),
        (
            "",
            format!("{listen}\"unix:dir\"}}"),
            2,
            "(a directory is there): choose another address in the configuration",
        ),
        ("", format!("{listen}\"unix:file/s\"}}"), 2, "(not a directory)"),
        ("control: file\n", String::new(), 2, ":1:10: control: "),
        (
            "control: dir\n",
            String::new(),
            2,
            "a directory, not a socket, and left alone: give `control:` another path",
        ),
        ("control: file/s\n", String::new(), 2, "set `control:` to a path where this user may make files"),
        ("control: none/s\n", String::new(), 0, ""),
        (
            "control: s\n",
            format!("{listen}\"unix:s\"}}"),
            2,
            "can't listen at `unix:s` and at `s`, which control on line 1 has",
        ),
        (
            "metrics: {listen: '127.0.0.1:9'}\n",
            format!("{listen}\"0.0.0.0:9\"}}"),
            2,
            "which metrics.listen on line 1 has",
        ),
        (
            "",
            format!("{listen}[\"127.0.0.1:9\", \"[::]:9\"]}}"),
            2,
            "application.listen.http[1]: can't listen at `[::]:9` and at",
        ),
        (
            "",
            format!("{listen}[]}}"),
            0,
            "warning: application.listen: nowhere to listen: nobody can ask about requests",
        ),
    ] {
        let listen = if lines.contains("listen:") { "" } else { "  listen: {http: '127.0.0.1:8'}\n" };
        let text = format!("{top}application:\n  rules: rules.yaml\n{listen}{lines}\n");
        std::fs::write(at("c.yaml"), text).unwrap();
        let (status, out, err) = text_of(&at("c.yaml"));
        assert_eq!((status, err.is_empty()), (Some(code), said.is_empty()), "{lines}: {out}{err}");
        assert!(err.contains(said), "{lines}: {err}");
    }
}

#[test]
fn a_pattern_that_matches_nothing_is_told_with_the_other_mistakes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.yaml");
    std::fs::write(&file, "application:\n  near_limit_ratio: 7\n  rules: [none/*.yaml, other/*.yaml]\n")
        .unwrap();
    let (status, _, err) = text_of(&file);
    assert_eq!(
        (status, err.matches("no file matches").count(), err.contains("near_limit_ratio")),
        (Some(2), 2, true),
        "{err}"
    );
}

fn text_of(file: &std::path::Path) -> (Option<i32>, String, String) {
    text(&validate(&[file.to_str().unwrap()]).output().unwrap())
}
