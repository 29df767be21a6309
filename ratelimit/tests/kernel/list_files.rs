//! Files of prefixes: in force as they are published, reloaded when they change, and kept where they become empty.

use std::{fs, os::unix::fs::symlink};

use nix::sys::signal::Signal;

use crate::{
    daemon::{Daemon, config, config_at, judged, output, reason, rule, run, status, text},
    frames::{self, Raw},
    metrics::get,
    net::{Link, ip, isolated},
    wait,
};

const LIST: &str = "/run/list.txt";
const METRICS: &str = "metrics: {listen: 127.0.0.1:9102}";
const EVERY: &str = "{name: every, rate: 1M/s}";

fn send(raw: &Raw, sources: &[&str]) {
    sources.iter().for_each(|source| raw.send(&frames::udp(source.parse().unwrap())));
}

fn metric(name: &str) -> Option<String> {
    get("/metrics").lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned))
}

#[test]
fn a_deny_file_that_becomes_empty_stays_in_force_and_the_rest_is_reloaded() {
    isolated(|| {
        let link = Link::silent();
        fs::write(LIST, "\u{feff}; DROP\r\n10.1.0.2 ; one\r\n10.1.0.8-10.1.0.9\r\n").unwrap();
        let network = ["deny: [{file: list.txt}, 10.9.0.0/16]"];
        let mut daemon = Daemon::start(&config_at("/run/ratelimit.yaml", METRICS, &network, &[EVERY]));
        daemon.wait_for("list deny, /run/list.txt: 2 prefixes");
        let raw = Raw::new(&link);
        send(&raw, &["10.1.0.2", "10.1.0.3", "10.1.0.9"]);
        assert_eq!(reason(&judged(3), "denied").packets, 2);
        // Whoever writes it has failed; and something else changes.
        fs::write(LIST, "").unwrap();
        daemon.wait_for("list.txt is empty now: what it had before stays in force, prefixes: 2");
        daemon.wait_for("list deny, /run/list.txt: 2 prefixes, from before: the file is empty now");
        config_at("/run/ratelimit.yaml", METRICS, &network, &["{name: other, rate: 1M/s}"]);
        let said = run(&["reload"]);
        assert!(said.contains("/run/list.txt is empty: what it had before stays in force"), "{said}");
        send(&raw, &["10.1.0.2", "10.1.0.3", "10.1.0.9"]);
        let now = judged(6);
        assert_eq!((reason(&now, "denied").packets, rule(&now, "other")), (4, (1, 0)));
        let shown = run(&["status"]);
        for line in [
            "lists       0 allowed, 3 denied, 0 banned\n",
            "            deny, /run/list.txt: 2 prefixes, from before: the file is empty now\n",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
        let labels = "{list=\"deny\",file=\"/run/list.txt\"}";
        let of_list = |name: &str| metric(&format!("ratelimit_list_{name}{labels}"));
        assert_eq!((of_list("prefixes").as_deref(), of_list("kept").as_deref()), (Some("2"), Some("1")));
        let inline = metric("ratelimit_list_prefixes{list=\"deny\",file=\"\"}");
        assert_eq!(inline.as_deref(), Some("1"));
        // A comment says that it is meant.
        fs::write(LIST, "# nobody\n").unwrap();
        wait::until("it is meant", || (of_list("prefixes").as_deref() == Some("0")).then_some(()));
        assert_eq!(of_list("kept").as_deref(), Some("0"));
        send(&raw, &["10.1.0.2", "10.1.0.9"]);
        assert_eq!(reason(&judged(8), "denied").packets, 4);
    });
}

#[test]
fn a_condition_follows_its_file() {
    isolated(|| {
        let link = Link::silent();
        let many =
            (0..100_000_u32).map(|index| format!("{}\n", std::net::Ipv4Addr::from((11 << 24) + index * 2)));
        fs::write(LIST, format!("10.1.0.0/24\n{}", many.collect::<String>())).unwrap();
        let rules = ["{name: some, match: {source: {file: list.txt}}, rate: 1/h, burst: 1}", EVERY];
        let mut daemon = Daemon::start(&config(&[], &rules));
        daemon.wait_for("list match.source of some, /run/list.txt: 100,001 prefixes");
        let raw = Raw::new(&link);
        send(&raw, &["10.1.0.2", "10.1.0.2", "10.2.0.2", "11.0.0.4", "11.0.0.5", "11.3.13.62", "11.3.13.64"]);
        assert_eq!(rule(&judged(7), "some"), (3, 1));
        fs::write(LIST, "10.2.0.0/24\n").unwrap();
        daemon.wait_for("list match.source of some, /run/list.txt: 1 prefix");
        send(&raw, &["10.1.0.2", "10.2.0.2", "10.2.0.2"]);
        assert_eq!(rule(&judged(10), "some"), (4, 2));
        // While the list is empty, and meant to be, the rule is about nobody.
        fs::write(LIST, "#\n").unwrap();
        daemon.wait_for("list match.source of some, /run/list.txt: 0 prefixes");
        send(&raw, &["10.1.0.2", "10.2.0.2", "10.2.0.2"]);
        assert_eq!(rule(&judged(13), "some"), (4, 2));
    });
}

#[test]
fn bans_take_lists_of_the_same_form() {
    isolated(|| {
        let _link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        fs::write(LIST, "; DROP\r\n192.0.2.0/24 ; SBL1\r\n198.51.100.0-198.51.100.2\r\n203.0.113.9/24\r\n")
            .unwrap();
        let done = output(&mut crate::daemon::command(&["ban", "--file", LIST]));
        let (said, complaint) = text(&done);
        assert!(
            done.status.success() && complaint.contains("line 4, `203.0.113.9/24` as 203.0.113.0/24"),
            "{complaint}"
        );
        for prefix in ["192.0.2.0/24", "198.51.100.0/31", "198.51.100.2/32", "203.0.113.0/24"] {
            assert!(said.contains(&format!("banned {prefix} for ")), "{said}");
        }
        run(&["unban", "--file", LIST]);
        assert_eq!(run(&["bans"]), "nobody is banned\n");
    });
}

#[test]
fn the_network_is_not_up_while_no_interface_is_limited() {
    isolated(|| {
        let link = Link::silent();
        let mut daemon = Daemon::start(&config_at("/run/ratelimit.yaml", METRICS, &[], &[EVERY]));
        assert_eq!(metric("ratelimit_network_up").as_deref(), Some("1"));
        ip("link del server0");
        daemon.wait_for("gone");
        assert_eq!(metric("ratelimit_network_up").as_deref(), Some("0"));
        assert_eq!(metric("ratelimit_interface_missing{interface=\"server0\"}").as_deref(), Some("1"));
        assert_eq!(status().missing, ["server0"]);
        link.add_wire(("server0", "02:00:00:00:00:01"), ("client0", "02:00:00:00:00:02"));
        wait::until("it is up again", || {
            (metric("ratelimit_network_up").as_deref() == Some("1")).then_some(())
        });
        assert_eq!(metric("ratelimit_interface_missing{interface=\"server0\"}"), None);
    });
}

#[test]
fn the_network_is_not_up_after_a_trial_that_nobody_confirmed() {
    isolated(|| {
        let _link = Link::silent();
        let path = config_at("/run/ratelimit.yaml", METRICS, &[], &[EVERY]);
        let mut command = crate::daemon::command(&["run", "--revert-after", "1s", "--config"]);
        let mut daemon = Daemon::spawn(command.arg(path));
        daemon.wait_for("`ratelimit reload`, or saving the file, begins another trial");
        assert_eq!(metric("ratelimit_network_up").as_deref(), Some("0"));
        assert_eq!(metric("ratelimit_reverted").as_deref(), Some("1"));
    });
}

#[test]
fn a_swapped_directory_is_read_again_without_a_complaint() {
    isolated(|| {
        let _link = Link::silent();
        fs::create_dir("/run/lists").unwrap();
        let make = |version: u32, list: &str| {
            fs::create_dir(format!("/run/lists/..{version}")).unwrap();
            fs::write(format!("/run/lists/..{version}/list.txt"), list).unwrap();
            symlink(format!("..{version}"), "/run/lists/..new").unwrap();
            fs::rename("/run/lists/..new", "/run/lists/..data").unwrap();
        };
        // As Kubernetes mounts a ConfigMap, and changes it.
        make(0, "10.0.0.0/8\n");
        symlink("..data/list.txt", "/run/lists/list.txt").unwrap();
        let mut daemon = Daemon::start(&config(&["deny: [{file: lists/list.txt}]"], &[EVERY]));
        for version in 1..4 {
            make(version, &format!("192.0.2.{version}\n"));
            fs::remove_dir_all(format!("/run/lists/..{}", version - 1)).unwrap();
            daemon.wait_for("reloaded");
        }
        daemon.signal(Signal::SIGTERM);
        let said = daemon.last_words();
        let complaints = |line: &&String| line.contains("inotify") || line.contains("watch");
        assert_eq!(said.iter().filter(complaints).collect::<Vec<_>>(), [""; 0]);
    });
}
