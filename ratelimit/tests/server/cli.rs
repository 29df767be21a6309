//! `ratelimit check` against running servers.

use std::process::{Command, Output};

use serde_json::Value;

use crate::{
    support::{Fixture, RULES, unix},
    tls,
};

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
fn a_report_is_charged_and_never_denied() {
    let fixture = Fixture::new("");
    let url = format!("http://{}", fixture.http());
    let common = ["--url", &url, "--domain", "edge", "--descriptor", "user=reports"];
    let ask = |more: &[&str]| asked(&[&common[..], more].concat());
    let (status, text, errors) = ask(&["--report", "--hits", "5"]);
    assert_eq!((status, errors.as_str()), (0, ""));
    assert!(text.starts_with("reported\n  reported  rule=per-user  limit=2  remaining=0"), "{text}");
    assert_eq!(
        (ask(&[]).0, ask(&["--report"]).0),
        (3, 0),
        "nothing is left, and that is no matter to a report"
    );
    let (status, text, _) = ask(&["--report", "--output", "json"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (status, &answer["allowed"], &answer["descriptors"][0]["remaining"]),
        (0, &true.into(), &0.into())
    );
    let grpc = format!("grpc://{}", fixture.grpc());
    let (status, _, errors) =
        asked(&["--url", &grpc, "--domain", "edge", "--descriptor", "user=reports", "--report"]);
    assert!(status == 2 && errors.contains("over HTTP alone"), "{status} {errors}");
}

/// So many wait for an answer that there is no place for another: that is no sign of what the kernel has or lacks.
#[test]
fn status_says_that_a_daemon_does_not_answer() {
    use std::os::unix::net::{UnixListener, UnixStream};

    use nix::sys::socket::{Backlog, listen};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let listener = UnixListener::bind(&path).unwrap();
    listen(&listener, Backlog::new(1).unwrap()).unwrap();
    let _waiting: Vec<UnixStream> = (0..2).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_ratelimit"))
        .args(["status", "--instance", "without-network", "--control"])
        .arg(&path)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && errors.contains("its daemon does not answer"), "{errors}");
}

#[test]
fn what_passes_by_a_soft_limit_is_flagged_over_http_and_grpc() {
    let fixture = Fixture::new("");
    for (key, url) in
        [("h", format!("http://{}", fixture.http())), ("g", format!("grpc://{}", fixture.grpc()))]
    {
        let descriptor = format!("soft={key}");
        let common = ["--url", &url, "--domain", "edge", "--descriptor", &descriptor];
        let json = || {
            let (_, text, _) = asked(&[&common[..], &["--output", "json"]].concat());
            serde_json::from_str::<Value>(&text).unwrap()["soft"].clone()
        };
        assert_eq!([json(), json()], [false, true], "{url}");
        let (status, text, _) = asked(&common);
        assert!(status == 0 && text.starts_with("allowed  soft\n  allowed  "), "{url}: {text}");
        let (status, text, _) = asked(&common);
        assert!(status == 3 && text.starts_with("denied\n"), "{url}: {text}");
    }
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

/// Files for TLS, and servers that ask clients for certificates; what a daemon's clients get comes from the same
/// authority.
fn with_client_ca() -> (Fixture, impl Fn(&str) -> String) {
    let authority = tls::authority();
    let directory = tls::directory(&authority);
    let at = directory.path().to_owned();
    tls::issue(&authority, &at.join("own.pem"), &at.join("own.key"));
    tls::issue(&tls::authority(), &at.join("foreign.pem"), &at.join("foreign.key"));
    let lines = tls::listen(&at, true);
    (Fixture::in_directory(directory, &lines), move |name: &str| at.join(name).display().to_string())
}

#[test]
fn a_client_certificate_is_shown_where_one_is_asked_for() {
    let (fixture, file) = with_client_ca();
    let (http, grpc) = (fixture.http().port(), fixture.grpc().port());
    for url in [format!("https://localhost:{http}"), format!("grpcs://localhost:{grpc}")] {
        let ask = |more: &[&str]| {
            let common = [
                "--url",
                &url,
                "--cacert",
                &file("ca.pem"),
                "--domain",
                "edge",
                "--descriptor",
                "user=x",
                "--hits",
                "0",
            ];
            asked(&[&common[..], more].concat())
        };
        let (status, _, errors) = ask(&["--cert", &file("own.pem"), "--key", &file("own.key")]);
        assert_eq!((status, errors.as_str()), (0, ""), "{url}");
        for (own, expected) in [
            (&[][..], "the daemon asks for a certificate: name one that its `client_ca` has signed"),
            (&["foreign.pem", "foreign.key"], "refuses the certificate of `--cert` ("),
            (&["none.pem", "own.key"], "`--cert`: "),
            (&["own.pem", "none.key"], "`--key`: "),
            (&["own.key", "own.key"], "`--cert`: "),
            (&["own.key", "own.key"], "holds a private key where a certificate is expected"),
            (&["own.pem", "own.pem"], "holds a certificate where a private key is expected"),
            (&["own.pem", "foreign.key"], "KeyMismatch: name the key that "),
        ] {
            let files: Vec<String> = own.iter().map(|name| file(name)).collect();
            let (status, _, errors) = match &files[..] {
                [cert, key] => ask(&["--cert", cert, "--key", key]),
                _ => ask(&[]),
            };
            assert!(status == 1 && errors.contains(expected), "{url} {own:?}: {status} {errors}");
        }
        let (status, _, errors) = ask(&["--cert", &file("own.pem")]);
        assert!(status == 2 && errors.contains("--key <FILE>"), "{status} {errors}");
    }
    let plain = ["--url", "http://localhost:1", "--domain", "edge", "--descriptor", "user=x"];
    let (status, _, errors) =
        asked(&[&plain[..], &["--cert", &file("own.pem"), "--key", &file("own.key")]].concat());
    assert!(status == 2 && errors.contains("over TLS alone"), "{status} {errors}");
}

#[test]
fn what_tls_breaks_off_for_is_said() {
    let authority = tls::authority();
    let directory = tls::directory(&authority);
    let ca = directory.path().join("ca.pem").display().to_string();
    let lines = tls::listen(directory.path(), false);
    let fixture = Fixture::in_directory(directory, &lines);
    let (http, grpc) = (fixture.http().port(), fixture.grpc().port());
    for (url, expected) in [
        (format!("https://localhost:{grpc}"), "https:// for HTTP and grpcs:// for gRPC"),
        (format!("grpcs://localhost:{http}"), "https://"),
        (format!("https://127.0.0.1:{http}"), "ask by a name that the certificate is for"),
        (format!("grpcs://127.0.0.1:{grpc}"), "ask by a name that the certificate is for"),
        (
            format!("http://127.0.0.1:{http}"),
            "with TLS or without, so check that `--url` names the right one",
        ),
        (
            format!("grpc://127.0.0.1:{grpc}"),
            "with TLS or without, so check that `--url` names the right one",
        ),
    ] {
        let (status, _, errors) =
            asked(&["--url", &url, "--ca", &ca, "--domain", "edge", "--descriptor", "user=x"]);
        assert!(status == 1 && errors.contains(expected), "{url}: {status} {errors}");
    }
}

#[test]
fn what_is_wrong_with_the_daemons_certificate_is_said() {
    type Change = fn(&mut rcgen::CertificateParams);
    let cases: [(Change, &str); 3] = [
        (
            |params| params.not_after = rcgen::date_time_ymd(2021, 1, 1),
            "expired on 2021-01-01T00:00:00Z: renew it",
        ),
        (
            |params| params.not_before = rcgen::date_time_ymd(4000, 1, 1),
            "is not valid before 4000-01-01T00:00:00Z",
        ),
        (
            |params| params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained),
            "shows the certificate of a CA, not one for a server",
        ),
    ];
    for (change, expected) in cases {
        let directory = tls::directory(&tls::authority());
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        change(&mut params);
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(directory.path().join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(directory.path().join("key.pem"), key.serialize_pem()).unwrap();
        let ca = directory.path().join("cert.pem").display().to_string();
        let lines = tls::listen(directory.path(), false);
        let fixture = Fixture::in_directory(directory, &lines);
        let (http, grpc) = (fixture.http().port(), fixture.grpc().port());
        for url in [format!("https://localhost:{http}"), format!("grpcs://localhost:{grpc}")] {
            let (status, _, errors) =
                asked(&["--url", &url, "--ca", &ca, "--domain", "edge", "--descriptor", "user=x"]);
            assert!(status == 1 && errors.contains(expected), "{url}: {status} {errors}");
        }
    }
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
