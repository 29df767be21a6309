//! A daemon that limits packets and requests: what `status` and `rules` say of both, and of what is left when it is
//! killed.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    time::{Duration, SystemTime},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    daemon::{Daemon, command, config, config_at, output, run, text},
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
fn status_says_that_the_file_is_not_in_force_as_it_is_and_why() {
    isolated(|| {
        let _link = Link::silent();
        let rule = "{name: every, rate: 1/h}";
        let daemon = Daemon::start(&config(&[], &[rule]));
        let is_in_force = || asked("status")["file_in_force"] == true;
        assert!(is_in_force() && asked("status")["last_reload"] == Value::Null);
        let shows = |parts: &[&str]| {
            let text = run(&["status"]);
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        };

        config(&["table_size: 4M"], &[rule]);
        wait::until("it is read", || (!is_in_force()).then_some(()));
        assert_eq!(asked("status")["last_reload"]["needs_restart"], json!(["network.table_size"]));
        shows(&["has changed in `network.table_size`", "after `ratelimit detach`"]);

        config(&[], &["{name: every, rate: fast}"]);
        wait::until("it is refused", || asked("status")["last_reload"]["error"].as_str().map(drop));
        shows(&["not in force as it is now", "  /run/ratelimit.yaml:", "`fast`", "once it is mended"]);
        assert!(!is_in_force());
        config(&[], &[rule]);
        wait::until("it is mended", || is_in_force().then_some(()));
        assert!(!run(&["status"]).contains("the file"));

        daemon.kill();
        let status = asked("status");
        assert_eq!((&status["file_in_force"], &status["last_reload"]), (&json!(true), &Value::Null));
        let file = fs::File::open("/run/ratelimit.yaml").unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
        shows(&["the file has changed since: `ratelimit run --config /run/ratelimit.yaml`"]);
        run(&["detach"]);
    });
}

#[test]
fn status_of_a_daemon_without_packets_tells_of_its_file_too() {
    isolated(|| {
        let write = |limit: &str| {
            fs::write(
                "/run/rules.yaml",
                format!("domain: d\ndescriptors: [{{key: k, rate_limit: {limit}}}]\n"),
            )
            .unwrap();
        };
        write("{unit: day, requests_per_unit: 5}");
        let application = "application: {rules: [rules.yaml], listen: {http: 'unix:/run/http.sock'}}\n";
        fs::write("/run/requests.yaml", application).unwrap();
        let _daemon = Daemon::spawn(&mut command(&["run", "--config", "/run/requests.yaml"]));
        let shown = |part: &str| {
            wait::until(part, || text(&output(&mut command(&["status"]))).0.contains(part).then_some(()));
        };
        shown("1 rule in 1 domain");
        write("{unit: never}");
        shown("not in force as it is now: the last reload failed\n            /run/rules.yaml:");
        assert_eq!(asked("status")["file_in_force"], false);
        // That it can't be done without packets is about the command, not about the file.
        write("{unit: day, requests_per_unit: 6}");
        wait::until("it is mended", || (asked("status")["file_in_force"] == true).then_some(()));
        let refused = output(&mut command(&["reload", "--revert-after", "1m"]));
        assert_eq!(refused.status.code(), Some(1));
        assert_eq!(asked("status")["file_in_force"], true);
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
