//! Which instance commands are about, by its name or by its daemon's socket, and what they say if there is none.

use std::{path::Path, process::Command};

use ratelimit::dataplane::ADVICE;
use serde_json::json;

use crate::{
    daemon::{Daemon, command, config, config_at, output, run, status, text},
    net::{Link, ip, isolated},
};

const EVERY: &str = "{name: every, rate: 1/h, burst: 50}";
const SOCKET: &str = "/run/web.sock";

/// All commands that are about an instance, with what they need besides.
const ALL: [&[&str]; 13] = [
    &["status"],
    &["rules"],
    &["ban", "10.9.9.9"],
    &["bans"],
    &["unban", "--all"],
    &["bucket", "10.9.9.9"],
    &["observe", "on"],
    &["reload"],
    &["confirm"],
    &["top", "--once"],
    &["events"],
    &["events", "--rule", "every"],
    &["detach"],
];

/// The instances `default` and `web`, the latter with a socket of its own.
fn two() -> (Daemon, Daemon) {
    ip("link add other0 type veth peer name other1");
    let daemon = Daemon::start(&config(&[], &[EVERY]));
    let top = format!("instance: web\ncontrol: {SOCKET}");
    let mut start = command(&["run", "--interface", "other0", "--config"]);
    let mut web = Daemon::spawn(start.arg(config_at("/run/web.yaml", &top, &[], &[EVERY])));
    web.wait_for("limiting");
    (daemon, web)
}

fn failure(arguments: &[&str], more: &[&str]) -> String {
    let output = output(&mut command(&[arguments, more].concat()));
    let (_, said) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?} {more:?}: {said}");
    said
}

#[test]
fn a_socket_tells_which_instance_is_meant() {
    isolated(|| {
        let _link = Link::silent();
        let (_default, _web) = two();
        let at_socket = |arguments: &[&str]| run(&[arguments, &["--control", SOCKET]].concat());
        let said = at_socket(&["status"]);
        assert!(said.starts_with("instance    web\n"), "{said}");
        // Its file has another interface than the command line.
        let left_out =
            "\ninterface   server0: not limited: the file has it, but `--interface` names others\n";
        assert!(said.contains(left_out) && !run(&["status"]).contains("names others"), "{said}");
        for command in ALL.iter().filter(|command| !["detach", "events", "unban"].contains(&command[0])) {
            at_socket(command);
        }
        assert_eq!(run(&["bans"]), "nobody is banned\n");
        assert!(run(&["bans", "--instance", "web"]).contains("10.9.9.9/32"));
        assert!(
            at_socket(&["status"]).contains("only observe") && !run(&["status"]).contains("only observe")
        );
        at_socket(&["unban", "10.9.9.9"]);

        let named = format!("{SOCKET}: this is the socket of instance `web`: name it with `--instance web`");
        for command in ALL.iter().filter(|command| command[0] != "detach") {
            let said = failure(command, &["--control", SOCKET, "--instance", "default"]);
            assert!(said.contains(&named), "{command:?}: {said}");
        }
        // A socket alone takes nothing off.
        assert!(failure(&["detach"], &["--control", SOCKET]).contains(&named));
        run(&["status"]);
        run(&["detach", "--control", SOCKET, "--instance", "web"]);
        run(&["detach"]);
    });
}

#[test]
fn an_instance_that_is_not_there_gets_the_same_advice_from_all_commands() {
    isolated(|| {
        let _link = Link::silent();
        for command in ALL {
            let said = failure(command, &[]);
            assert!(said.contains(ADVICE) && !said.contains("there are"), "{command:?}: {said}");
        }
        let (_default, _web) = two();
        for command in ALL {
            let said = failure(command, &["--instance", "nope"]);
            let expected = format!("{ADVICE}; there are: `default`, `web`");
            assert!(said.contains("nope") && said.trim_end().ends_with(&expected), "{command:?}: {said}");
        }
        for command in ALL.iter().filter(|command| command[0] != "status") {
            let said = failure(command, &["--control", "/run/nope.sock"]);
            assert!(
                said.contains("/run/nope.sock: no daemon") && said.contains(ADVICE),
                "{command:?}: {said}"
            );
        }
        let shown = run(&["status", "--control", "/run/nope.sock"]);
        assert!(shown.contains("nobody answers at /run/nope.sock"), "{shown}");
        run(&["detach", "--instance", "web"]);
        run(&["detach"]);
        let said = failure(&["status"], &["--control", "/run/nope.sock"]);
        assert!(said.contains("/run/nope.sock: no daemon") && said.contains(ADVICE), "{said}");
    });
}

#[test]
fn a_daemon_without_rules_on_packets_is_told_apart_from_none() {
    isolated(|| {
        std::fs::write("/run/ratelimit.yaml", "application: {}\n").unwrap();
        let mut daemon = Daemon::spawn(command(&["run", "--config"]).arg("/run/ratelimit.yaml"));
        daemon.wait_for("nobody can ask about requests");
        for command in
            [&["ban", "10.9.9.9"][..], &["bans"], &["unban", "--all"], &["top", "--once"], &["events"]]
        {
            let said = failure(command, &[]);
            let expected = "its daemon is running, but limits no packets: give its configuration `network`";
            assert!(said.contains(expected) && !said.contains(ADVICE), "{command:?}: {said}");
        }
    });
}

#[test]
fn what_only_a_daemon_can_do_is_told_how_to_be_done_without() {
    isolated(|| {
        let _link = Link::silent();
        Daemon::start(&config(&[], &[EVERY])).kill();
        for (command, expected) in [
            (&["observe", "on"][..], "`ratelimit detach` lets everything pass"),
            (&["observe", "off"], "`ratelimit run --config FILE` takes them over"),
            (&["reload"], "`ratelimit run --config FILE` puts the file in force"),
            (&["bucket", "10.9.9.9"], "can then be asked"),
        ] {
            let said = failure(command, &[]);
            let why = "no daemon serves instance `default`, whose limits are in force without one";
            assert!(said.contains(why) && said.contains(expected), "{said}");
        }
        run(&["detach"]);
        assert!(!Path::new("/sys/fs/bpf/ratelimit").exists());
    });
}

#[test]
fn prefixes_that_are_typed_with_an_address_are_masked_and_that_is_said() {
    isolated(|| {
        let _link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        let said = "ratelimit: 2001:db8::7/64 has bits beyond its length: taken as 2001:db8::/64\n";
        for (what, expected) in [
            ("ban", "banned 2001:db8::/64 for 10m0s"),
            ("bans", "2001:db8::/64"),
            ("unban", "unbanned 2001:db8::/64"),
        ] {
            let done = output(&mut command(&[what, "2001:db8::7/64"]));
            let (answer, warned) = text(&done);
            assert!(done.status.success() && answer.contains(expected), "{answer}");
            assert_eq!(warned, said);
        }
        let json = output(&mut command(&["ban", "2001:db8::7/64", "--output", "json"]));
        let (answer, warned) = text(&json);
        assert!(answer.contains(r#""prefix":"2001:db8::/64""#) && warned.is_empty(), "{answer} {warned}");
    });
}

#[test]
fn status_says_that_packets_are_limited_where_the_pins_cannot_be_seen() {
    isolated(|| {
        let _link = Link::silent();
        let daemon = Daemon::start(&config(&[], &[EVERY]));
        let elsewhere = |mount: &str, arguments: &str| {
            let line = format!("{mount} && {} {arguments}", env!("CARGO_BIN_EXE_ratelimit"));
            text(&Command::new("unshare").args(["--mount", "sh", "-c", &line]).output().unwrap())
        };
        let advice = format!("`nsenter --target {} --mount --net`", daemon.process());
        // As `ip netns exec` does, and as in a container: each command has a `/sys` or pins of its own.
        for mount in ["mount -t sysfs sysfs /sys", "mount -t bpf bpf /sys/fs/bpf"] {
            let (said, _) = elsewhere(mount, "status");
            assert!(said.contains("the daemon limits packets") && said.contains(&advice), "{said}");
            let (json, _) = elsewhere(mount, "status --output json");
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(json["network"], true, "{json}");
        }
        let (_, said) = elsewhere("mount -t bpf bpf /sys/fs/bpf", "bans");
        assert!(said.contains("its daemon limits packets") && said.contains(&advice), "{said}");
    });
}

#[test]
fn status_calls_no_interface_missing_that_is_in_another_network_namespace() {
    isolated(|| {
        let _link = Link::silent();
        let (daemon, web) = two();
        let elsewhere = |arguments: &[&str]| {
            let mut unshare = Command::new("unshare");
            let unshare = unshare.arg("--net").args(arguments).env("PATH", with_binary());
            text(&unshare.output().unwrap()).0
        };
        let own_words = format!("nsenter --target {} --net ratelimit status", daemon.process());
        let shown = elsewhere(&["ratelimit", "status"]);
        let expected = "interface   server0: in another network namespace";
        assert!(shown.contains(expected) && shown.contains(&format!("`{own_words}`\n")), "{shown}");
        let json = elsewhere(&["ratelimit", "status", "--output", "json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["missing"], &json["out_of_sight"]), (&json!([]), &json!(["server0"])), "{json}");
        let followed = elsewhere(&own_words.split(' ').collect::<Vec<_>>());
        assert!(followed.contains("interface   server0 (native)\n"), "{followed}");
        let named = format!("nsenter --target {} --net ratelimit status --instance web", web.process());
        let shown = elsewhere(&["ratelimit", "status", "--instance", "web"]);
        assert!(shown.contains(&format!("`{named}`\n")), "{shown}");
        assert_eq!(status().out_of_sight, [""; 0]);
        daemon.kill();
        let shown = elsewhere(&["ratelimit", "status"]);
        assert!(shown.contains(expected) && shown.contains("look from there\n"), "{shown}");
        run(&["detach"]);
    });
}

/// Where programs are looked for, with the daemon's own.
fn with_binary() -> String {
    let directory = Path::new(env!("CARGO_BIN_EXE_ratelimit")).parent().unwrap();
    format!("{}:{}", directory.display(), std::env::var("PATH").unwrap())
}
