//! A daemon that limits packets and requests: what `status` and `rules` say of both, and of what is left when it is
//! killed.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    daemon::{Daemon, command, config_at, run},
    net::{Link, isolated},
    wait,
};

fn asked(command: &str) -> Value {
    serde_json::from_str(&run(&[command, "--output", "json"])).unwrap()
}

#[test]
fn both_layers_are_told_of_and_only_packets_when_the_daemon_is_gone() {
    isolated(|| {
        let _link = Link::silent();
        let rules = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 5}}]\n";
        fs::write("/run/rules.yaml", rules).unwrap();
        let application = "application: {rules: [rules.yaml], listen: {http: 'unix:/run/http.sock'}}";
        let config = config_at("/run/ratelimit.yaml", application, &[], &["{name: every, rate: 1/h}"]);
        let daemon = Daemon::start(&config);
        let status = asked("status");
        assert_eq!(
            (&status["rules"][0]["name"], &status["application"]["rules"][0]["rule"]),
            (&json!("every"), &json!("k"))
        );
        assert_eq!(status["application"]["listeners"][0]["address"], "unix:/run/http.sock");
        let text = run(&["status"]);
        let (packets, requests) = (text.find("every "), text.find("d       k "));
        assert!(packets.is_some() && packets < requests, "{text}");
        assert_eq!(text.matches("config      ").count(), 1, "{text}");
        let listed = asked("rules");
        assert_eq!(
            (&listed["rules"][0]["name"], &listed["request_rules"][0]["rule"]),
            (&json!("every"), &json!("k"))
        );
        daemon.kill();
        assert_eq!(asked("status")["application"], Value::Null);
        assert_eq!(asked("rules")["request_rules"], json!([]));
        assert!(run(&["status"]).contains("not running; the limits are in force all the same"));
    });
}

#[test]
fn a_reload_that_takes_auth_away_says_so() {
    isolated(|| {
        let rules = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 5}}]\n";
        fs::write("/run/rules.yaml", rules).unwrap();
        let listen = "application: {rules: [rules.yaml], listen: {http: 'unix:/run/http.sock'}";
        let auth = format!("{listen}, auth: {{domain: d, descriptors: [{{k: '{{query:k}}'}}]}}}}\n");
        fs::write("/run/ratelimit.yaml", &auth).unwrap();
        let mut daemon = Daemon::spawn(command(&["run", "--config"]).arg("/run/ratelimit.yaml"));
        wait::until("its socket", || fs::exists("/run/http.sock").unwrap().then_some(()));
        let answer = || {
            let mut stream = UnixStream::connect("/run/http.sock").unwrap();
            stream.write_all(b"GET /v1/auth?k=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        assert!(answer().starts_with("HTTP/1.1 200 "), "{}", answer());
        fs::write("/run/ratelimit.yaml", format!("{listen}}}\n")).unwrap();
        daemon.wait_for("`application.auth` is gone: `/v1/auth` answers 404 now");
        assert!(answer().starts_with("HTTP/1.1 404 "), "{}", answer());
        run(&["reload"]);
        daemon.signal(Signal::SIGTERM);
        let said = daemon.last_words();
        assert_eq!(said.iter().filter(|line| line.contains("is gone")).count(), 1, "{said:#?}");
    });
}
