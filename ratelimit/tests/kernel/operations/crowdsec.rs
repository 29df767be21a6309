//! `config/crowdsec`, as CrowdSec's custom bouncer calls it: with arguments, and with a decision a line.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use ratelimit::dataplane::BanStatus;

use super::{Running, example, with_path};
use crate::{
    daemon::{Daemon, config, output, run, text},
    net::{Link, isolated},
    wait,
};

fn bans() -> Vec<(String, Option<u64>)> {
    let listed: Vec<BanStatus> = serde_json::from_str(&run(&["bans", "--output", "json"])).unwrap();
    listed.into_iter().map(|ban| (ban.prefix.to_string(), ban.seconds_left)).collect()
}

fn prefixes() -> Vec<String> {
    let mut prefixes: Vec<String> = bans().into_iter().map(|(prefix, _)| prefix).collect();
    prefixes.sort();
    prefixes
}

fn bouncer(arguments: &[&str]) -> Command {
    let mut bouncer = Command::new(example("crowdsec/ratelimit-bouncer"));
    with_path(&mut bouncer).args(arguments);
    bouncer
}

#[test]
fn decisions_in_arguments_are_bans() {
    isolated(|| {
        let _link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1M/s}"]));
        let json = r#"{"duration":"3h59m57.64s","id":2410,"origin":"crowdsec","scenario":"ssh-bf","scope":"Ip","type":"ban","value":"-"}"#;
        let call = |action: &str, value: &str, seconds: &str, json: &str| {
            let called = output(&mut bouncer(&[action, value, seconds, "crowdsecurity/ssh-bf", json]));
            assert_eq!(text(&called).1, "", "{action} {value}");
            assert!(called.status.success());
        };
        call("add", "192.0.2.7", "14397", json);
        call("add", "2001:db8::7", "600", json);
        call("add", "198.51.100.0/24", "600", &json.replace("\"Ip\"", "\"Range\""));
        // Longer than any ban with an end.
        call("add", "203.0.113.9", "315360000", json);
        assert_eq!(prefixes(), ["192.0.2.7/32", "198.51.100.0/24", "2001:db8::/64", "203.0.113.9/32"]);
        let left = |prefix: &str| bans().into_iter().find(|(found, _)| found == prefix).unwrap().1;
        assert!((14_397..14_520).contains(&left("192.0.2.7/32").unwrap()));
        assert_eq!(left("203.0.113.9/32"), None);
        // These are not for packets, or have ended.
        call("add", "192.0.2.8", "600", &json.replace("\"ban\"", "\"captcha\""));
        call("add", "DE", "600", &json.replace("\"Ip\"", "\"Country\""));
        call("add", "192.0.2.8", "-5", json);
        call("del", "2001:db8::7", "-5", json);
        call("del", "198.51.100.0/24", "0", &json.replace("\"Ip\"", "\"Range\""));
        assert_eq!(prefixes(), ["192.0.2.7/32", "203.0.113.9/32"]);
        let refused = output(&mut bouncer(&["add", "nonsense", "600", "", json]));
        assert!(refused.status.code() == Some(1) && text(&refused).1.contains("nonsense"), "{refused:?}");
    });
}

#[test]
fn decisions_a_line_are_bans_in_their_order() {
    isolated(|| {
        let _link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1M/s}"]));
        let mut child = bouncer(&[]).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut bouncer = Running(child);
        let mut decide = |action: &str, value: &str, duration: &str| {
            let scope = if value.contains('/') { "Range" } else { "Ip" };
            let line = format!(
                r#"{{"duration":"{duration}","id":1,"origin":"cscli","scenario":"manual","scope":"{scope}","type":"ban","value":"{value}","action":"{action}"}}"#
            );
            writeln!(input, "{line}").unwrap();
        };
        (0..500).for_each(|number| {
            decide(
                "add",
                &format!("10.2.{}.{}", number / 256, number % 256),
                &format!("3h59m{}.5s", number % 60),
            );
        });
        decide("add", "2001:db8::7", "4h");
        decide("del", "10.2.0.0", "-1.2s");
        decide("del", "10.2.0.1", "-1.2s");
        decide("add", "10.2.0.0", "1h30m");
        decide("add", "not an address", "1h");
        let expected = |prefixes: &[String]| {
            let has = |prefix: &str| prefixes.iter().any(|found| found == prefix);
            prefixes.len() == 500 && has("2001:db8::/64") && has("10.2.0.0/32") && !has("10.2.0.1/32")
        };
        wait::until("all decisions are in force", || expected(&prefixes()).then_some(()));
        drop(input);
        let ended = wait::until("the bouncer has ended", || bouncer.0.try_wait().unwrap());
        assert!(ended.success());
    });
}
