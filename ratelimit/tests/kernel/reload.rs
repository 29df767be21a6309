//! Reloads: in one step, without a gap, and without a change if anything is wrong.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, SystemTime},
};

use nix::sys::signal::Signal;
use ratelimit::{
    control::{self, AnsweredBuckets},
    policy::InstanceName,
};
use serde_json::json;

use crate::{
    daemon::{Daemon, command, config, judged, output, reason, rule, run, status, text},
    guest,
    leftovers::in_kernel,
    limits::{all_arrivals, send},
    net::{Link, SERVER, SERVER_V4, arrivals, isolated, receiver},
    stops::StopsAtEnd,
    wait,
};

const CLIENT: &str = "10.1.0.2";

/// How often it is reloaded; an emulated processor takes seconds for each time.
fn reloads() -> u32 {
    if guest::is_guest() { 4 } else { guest::repetitions(40, 200) }
}

/// Datagrams sent at once, before they are received.
const ON_THEIR_WAY: u32 = 20;

/// Rules of which one is about every datagram and the other about none.
fn rules(all: &str, none: &str) -> [String; 2] {
    [
        format!("{{name: {all}, match: {{protocol: udp}}, rate: 1000M/s}}"),
        format!("{{name: {none}, match: {{protocol: tcp}}, rate: 1000M/s}}"),
    ]
}

fn written(network: &[&str], rules: &[String]) -> PathBuf {
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    config(network, &rules)
}

fn reload() {
    let socket = Path::new("/run/ratelimit/default.sock");
    let answer = control::ask(socket, &InstanceName::default(), "reload", &json!({}), wait::LONGEST);
    answer.expect("reloaded");
}

fn open_files(daemon: &Daemon) -> usize {
    fs::read_dir(format!("/proc/{}/fd", daemon.process())).unwrap().count()
}

/// Resident memory of its own in kB: how much of its binary is in memory depends on the machine.
fn memory(daemon: &Daemon) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.process())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn each_packet_is_judged_by_one_of_two_configurations_and_none_is_lost() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let [one, other] = [rules("one", "other"), rules("other", "one")];
        let daemon = Daemon::start(&written(&[], &one));
        let server = receiver(SERVER_V4);
        let sender = link.sender(CLIENT);
        let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let _at_end = StopsAtEnd(&stop);
            scope.spawn(|| {
                server.set_nonblocking(false).unwrap();
                server.set_read_timeout(Some(wait::LONGEST)).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    send(&sender, ON_THEIR_WAY);
                    sent.fetch_add(ON_THEIR_WAY.into(), Ordering::Relaxed);
                    // Each one arrives.
                    for _ in 0..ON_THEIR_WAY {
                        server.recv(&mut [0; 64]).expect("a datagram");
                    }
                    if guest::is_guest() {
                        thread::sleep(Duration::from_millis(20)); // tidy: sleep, one processor loads, too
                    }
                }
            });
            let mut early = (0, 0);
            let reloads = reloads();
            for turn in 1..=reloads {
                written(&[], if turn % 2 == 0 { &one } else { &other });
                reload();
                if turn == reloads.div_ceil(10) {
                    early = (open_files(&daemon), memory(&daemon));
                }
            }
            let late = (open_files(&daemon), memory(&daemon));
            println!("files and kB: {early:?}, {late:?}; {} sent", sent.load(Ordering::Relaxed));
            // The last answer's connection may still be open.
            wait::until("no more open files", || (open_files(&daemon) <= early.0).then_some(()));
            assert!(late.1 < early.1 + 4_096, "{early:?} {late:?}");
        });
        let sent = sent.into_inner();
        let status = judged(sent);
        let (ones, others) = (rule(&status, "one"), rule(&status, "other"));
        println!("{sent} datagrams, {ones:?} {others:?}");
        assert_eq!((ones.0 + others.0, ones.1 + others.1), (sent, 0));
        assert!(ones.0 > 0 && others.0 > 0);
        assert_eq!(reason(&status, "passed").packets, sent);
    });
}

#[test]
fn a_change_holds_from_the_first_packet_after_the_reload() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let mut daemon = Daemon::start(&config(&[], &["{name: every, rate: 1/h, burst: 10}"]));
        let server = receiver(SERVER_V4);
        let client = link.sender(CLIENT);
        send(&client, 20);
        assert_eq!(rule(&judged(20), "every"), (10, 10));

        config(&[], &["{name: every, rate: 1/h, burst: 10}", "{name: more, rate: 1/h, burst: 5}"]);
        assert_eq!(run(&["reload"]), "reloaded: 2 rules on packets, 0 limits on requests\n");
        send(&client, 10);
        // The old rule goes on with what it has left, which is nothing.
        assert_eq!(rule(&judged(30), "every"), (10, 20));

        // By its signal, and by the change alone.
        config(&[], &["{name: more, rate: 1/h, burst: 5}"]);
        daemon.signal(Signal::SIGHUP);
        daemon.wait_for("SIGHUP");
        send(&client, 10);
        assert_eq!(rule(&judged(40), "more"), (5, 5));
        config(&["deny: [10.1.0.2]"], &["{name: more, rate: 1/h, burst: 5}"]);
        daemon.wait_for("a file has changed");
        send(&client, 10);
        assert_eq!(reason(&judged(50), "denied").packets, 10);
        assert_eq!(all_arrivals(&server, 15).len(), 15);
    });
}

#[test]
fn a_reload_that_fails_leaves_all_as_it_was_and_says_why() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let good = "{name: every, rate: 1/h, burst: 10}";
        let _daemon = Daemon::start(&config(&[], &[good]));
        let client = link.sender(CLIENT);
        send(&client, 5);
        judged(5);
        let kernel = in_kernel();
        let refused = |expected: &[&str]| {
            let refused = output(&mut command(&["reload"]));
            let (_, said) = text(&refused);
            assert_eq!(refused.status.code(), Some(1), "{said}");
            assert!(expected.iter().all(|expected| said.contains(expected)), "{said}");
            assert_eq!(in_kernel(), kernel);
        };
        config(&[], &["{name: every, rate: fast}"]);
        refused(&["ratelimit.yaml:", "network.rules[0].rate", "fast"]);
        config(&["deny: [{file: nowhere}]"], &[good]);
        refused(&["nowhere: no such file"]);
        let path = config(&[], &[good]);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(SERVER, &format!("{SERVER}, nowhere0"))).unwrap();
        refused(&["no interface `nowhere0`"]);
        fs::remove_file(&path).unwrap();
        refused(&["no such file"]);

        let path = config(&["table_size: 4M"], &[good]);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("instance: other\n{text}")).unwrap();
        let said = run(&["reload"]);
        assert!(said.ends_with("new start of the daemon: `instance`, `network.table_size`\n"), "{said}");
        send(&client, 10);
        assert_eq!(rule(&judged(15), "every"), (10, 5));
    });
}

#[test]
fn if_one_interface_refuses_all_stay_with_the_old_rules() {
    isolated(|| {
        let _link = Link::new(&[CLIENT]);
        let path = config(&[], &["{name: every, rate: 1/h, burst: 10}"]);
        let _daemon = Daemon::start(&path);
        let kernel = in_kernel();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(SERVER, &format!("{SERVER}, {{name: lo, mode: native}}"))).unwrap();
        let refused = output(&mut command(&["reload"]));
        assert!(crate::daemon::text(&refused).1.contains("lo: can't attach in native mode"));
        assert_eq!(in_kernel(), kernel);
    });
}

#[test]
fn interfaces_keep_their_modes_if_one_refuses_its_new_one() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let path = config(&[], &["{name: every, match: {protocol: udp}, rate: 1/h, burst: 10}"]);
        let text = fs::read_to_string(&path).unwrap();
        let modes = |server: &str, lo: &str| {
            let both = format!("{{name: {SERVER}, mode: {server}}}, {{name: lo, mode: {lo}}}");
            fs::write(&path, text.replace(SERVER, &both)).unwrap();
        };
        modes("native", "generic");
        let _daemon = Daemon::start(&path);
        modes("generic", "native");
        assert!(crate::daemon::text(&output(&mut command(&["reload"]))).1.contains("lo: can't attach"));
        let shown = run(&["status"]);
        assert!(shown.contains("lo (generic)") && shown.contains("server0 (native)"), "{shown}");
        send(&link.sender(CLIENT), 20);
        assert_eq!(rule(&judged(20), "every"), (10, 10));
    });
}

#[test]
fn observing_is_switched_on_and_off_and_survives_the_daemon() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let config = config(&[], &["{name: every, rate: 1/h, burst: 10}"]);
        let daemon = Daemon::start(&config);
        let server = receiver(SERVER_V4);
        let client = link.sender(CLIENT);
        let since = status().since;
        let seconds = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        wait::until("another second", || (seconds() > since).then_some(()));
        run(&["observe", "on"]);
        assert_eq!(status().since, since, "the same rules are in force");
        send(&client, 30);
        assert_eq!(rule(&judged(30), "every"), (10, 20));
        assert_eq!(all_arrivals(&server, 30).len(), 30);
        assert!(status().observes && run(&["status"]).contains("observe off"));
        run(&["reload"]);
        assert!(status().observes && status().since > since);
        daemon.kill();
        let _daemon = Daemon::start(&config);
        send(&client, 10);
        judged(40);
        assert_eq!(all_arrivals(&server, 10).len(), 10);
        run(&["observe", "off"]);
        send(&client, 10);
        let now = judged(50);
        assert_eq!(rule(&now, "every"), (10, 40));
        // What was dropped is told from what would have been.
        let counted = &now.rules[0];
        assert_eq!((counted.observed.packets, counted.dropped.packets), (30, 10));
        let shown = run(&["rules"]);
        assert!(shown.contains("OBSERVED packets have passed"), "{shown}");
        assert!(arrivals(&server).is_empty());
    });
}

#[test]
fn a_source_s_buckets_are_shown_and_reset() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let rules =
            ["{name: every, rate: 1/h, burst: 10}", "{name: all, key: global, rate: 1/h, burst: 100}"];
        let _daemon = Daemon::start(&config(&["deny: [10.9.0.0/16]"], &rules));
        let client = link.sender(CLIENT);
        send(&client, 4);
        judged(4);
        let shown = run(&["bucket", CLIENT]);
        let row = |name: &str| {
            let line = shown.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{shown}"));
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("every")[1..4], ["10.1.0.2/32", "6", "10"]);
        assert_eq!(row("all")[1..4], ["all", "96", "100"]);
        run(&["bucket", CLIENT, "--rule", "every", "--reset"]);
        send(&client, 20);
        assert_eq!(rule(&judged(24), "every"), (14, 10));
        assert!(!run(&["bucket", CLIENT]).contains("everything"));
        run(&["ban", "10.1.0.0/24"]);
        let shown = run(&["bucket", CLIENT]);
        assert!(shown.starts_with("10.1.0.2 is banned, as 10.1.0.0/24, for "), "{shown}");
        let json: AnsweredBuckets =
            serde_json::from_str(&run(&["bucket", "10.9.0.1", "--output", "json"])).unwrap();
        assert_eq!((json.denied.as_deref(), json.allowed, json.banned), (Some("10.9.0.0/16"), None, None));
        let unknown = output(&mut command(&["bucket", CLIENT, "--rule", "nobody"]));
        assert!(text(&unknown).1.contains("no rule `nobody`; there are: every, all"));
    });
}
