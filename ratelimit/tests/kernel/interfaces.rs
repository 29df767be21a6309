//! Interfaces that are several, that come and go, change their names, and have long packets.

use std::fs;

use nix::sys::signal::Signal;
use ratelimit::dataplane::BanStatus;

use crate::{
    daemon::{Daemon, command, config, config_for, judged, output, reason, rule, run, status, text},
    foreign::Foreign,
    frames::{self, Raw},
    leftovers::{PINS, assert_no_files, in_kernel},
    net::{Link, freeze, ip, isolated, set_mtu, thaw},
    wait,
};

const EVERY: &str = "{name: every, rate: 1/h, burst: 10}";
const SECOND: (&str, &str) = ("server1", "02:00:00:00:00:11");
const SECOND_CLIENT: (&str, &str) = ("client1", "02:00:00:00:00:12");

fn frame() -> Vec<u8> {
    frames::udp("10.1.0.2".parse().unwrap())
}

fn links() -> usize {
    fs::read_dir(format!("{PINS}/default/links")).unwrap().count()
}

#[test]
fn a_source_has_one_bucket_on_all_interfaces() {
    isolated(|| {
        let link = Link::silent();
        link.add_wire(SECOND, SECOND_CLIENT);
        let _daemon = Daemon::start(&config_for("[server0, {name: server1, mode: generic}]", &[EVERY]));
        let shown = run(&["status"]);
        assert!(shown.contains("server0 (native)") && shown.contains("server1 (generic)"), "{shown}");
        let raws = [Raw::new(&link), Raw::on(&link, SECOND_CLIENT.0)];
        for _ in 0..20 {
            raws.iter().for_each(|raw| raw.send(&frame()));
        }
        assert_eq!(rule(&judged(40), "every"), (10, 30));
    });
}

#[test]
fn instances_on_different_interfaces_know_nothing_of_each_other() {
    isolated(|| {
        let link = Link::silent();
        link.add_wire(SECOND, SECOND_CLIENT);
        let first = Daemon::start(&config(&[], &[EVERY]));
        let text = "instance: other\nnetwork:\n  interfaces: [server1]\n  rules: [{name: every, rate: 1/h, burst: 3}]\n";
        fs::write("/run/other.yaml", text).unwrap();
        let _second = Daemon::start(&"/run/other.yaml".into());
        let raws = [Raw::new(&link), Raw::on(&link, SECOND_CLIENT.0)];
        for _ in 0..20 {
            raws.iter().for_each(|raw| raw.send(&frame()));
        }
        assert_eq!(rule(&judged(20), "every"), (10, 10));
        run(&["ban", "10.1.0.2", "--instance", "other"]);
        assert_eq!(run(&["bans"]), "nobody is banned\n");
        first.signal(Signal::SIGTERM);
        assert_eq!(first.end().code(), Some(0));
        let other = run(&["status", "--instance", "other"]);
        assert!(other.contains("server1 (native)"), "{other}");
    });
}

#[test]
fn an_interface_that_is_made_again_is_attached_again() {
    isolated(|| {
        let link = Link::silent();
        link.add_wire(SECOND, SECOND_CLIENT);
        let _daemon = Daemon::start(&config_for("[server0, server1]", &[EVERY]));
        let raw = Raw::on(&link, SECOND_CLIENT.0);
        (0..20).for_each(|_| raw.send(&frame()));
        assert_eq!(rule(&judged(20), "every"), (10, 10));
        for round in 1..=3 {
            ip("link del server1");
            wait::until("its link is forgotten", || (links() == 1).then_some(()));
            // A reload meanwhile changes nothing about that.
            run(&["reload"]);
            link.add_wire(SECOND, SECOND_CLIENT);
            let before = std::time::Instant::now();
            wait::until("it is attached again", || (status().interfaces.len() == 2).then_some(()));
            println!("attached again after {:?}", before.elapsed());
            let raw = Raw::on(&link, SECOND_CLIENT.0);
            (0..20).for_each(|_| raw.send(&frame()));
            assert_eq!(rule(&judged(20 + 20 * round), "every"), (10, 10 + 20 * round));
        }
        assert_eq!(status().interfaces.len(), 2);
    });
}

#[test]
fn an_interface_that_could_not_be_attached_is_tried_again() {
    isolated(|| {
        let link = Link::silent();
        link.add_wire(SECOND, SECOND_CLIENT);
        let mut daemon = Daemon::start(&config_for("[server0, server1]", &[EVERY]));
        freeze("/sys/fs/bpf");
        ip("link del server1");
        link.add_wire(SECOND, SECOND_CLIENT);
        daemon.wait_for("Read-only");
        thaw("/sys/fs/bpf");
        wait::until("it is attached again", || (status().interfaces.len() == 2).then_some(()));
        assert!(status().missing.is_empty());
    });
}

#[test]
fn another_interface_that_gets_the_index_of_one_that_is_gone_is_left_alone() {
    isolated(|| {
        let link = Link::silent();
        link.add_wire(SECOND, SECOND_CLIENT);
        let mut daemon = Daemon::start(&config_for("[server0, server1]", &[EVERY]));
        let index = status().interfaces.iter().find(|found| found.interface == "server1").unwrap().index;
        ip("link del server1");
        daemon.wait_for("gone");
        assert_eq!(status().missing, ["server1"]);
        ip(&format!("link add other1 index {index} type veth peer name other2"));
        run(&["reload"]);
        let names: Vec<String> = status().interfaces.into_iter().map(|found| found.interface).collect();
        assert_eq!(names, ["server0"]);
    });
}

#[test]
fn a_restart_goes_on_without_an_interface_that_is_missing() {
    isolated(|| {
        let link = Link::silent();
        link.add_wire(SECOND, SECOND_CLIENT);
        let config = config_for("[server0, server1]", &[EVERY]);
        let daemon = Daemon::start(&config);
        ip("link del server1");
        daemon.signal(Signal::SIGUSR2);
        assert_eq!(daemon.end().code(), Some(0));
        let _daemon = Daemon::start(&config);
        assert_eq!(status().missing, ["server1"]);
        link.add_wire(SECOND, SECOND_CLIENT);
        wait::until("it is attached again", || (status().interfaces.len() == 2).then_some(()));
    });
}

#[test]
fn an_interface_that_comes_back_with_a_foreign_program_is_left_alone() {
    isolated(|| {
        let link = Link::silent();
        link.add_wire(SECOND, SECOND_CLIENT);
        let mut daemon = Daemon::start(&config_for("[server0, server1]", &[EVERY]));
        ip("link del server1");
        wait::until("its link is forgotten", || (links() == 1).then_some(()));
        // Under another name first, so that the foreign program is there before the daemon looks.
        link.add_wire(("other1", SECOND.1), SECOND_CLIENT);
        let _foreign = Foreign::attach("other1");
        ip("link set other1 down");
        ip("link set other1 name server1");
        daemon.wait_for("already has an XDP program");
        assert_eq!(links(), 1);
    });
}

#[test]
fn interfaces_go_down_and_up_and_change_their_names() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        let kernel = in_kernel();
        let raw = Raw::new(&link);
        ip("link set server0 down");
        ip("link set server0 up");
        (0..5).for_each(|_| raw.send(&frame()));
        assert_eq!(rule(&judged(5), "every"), (5, 0));
        ip("link set server0 down");
        ip("link set server0 name lan0");
        ip("link set lan0 up");
        (0..10).for_each(|_| raw.send(&frame()));
        assert_eq!(rule(&judged(15), "every"), (10, 5));
        assert_eq!(status().interfaces[0].interface, "lan0");
        assert_eq!(in_kernel(), kernel);
        // It is the one that the configuration means, as long as the daemon runs.
        run(&["reload"]);
        (0..5).for_each(|_| raw.send(&frame()));
        assert_eq!(rule(&judged(20), "every"), (10, 10));
        assert_eq!(links(), 1);
    });
}

#[test]
fn interfaces_come_and_go_with_the_configuration() {
    isolated(|| {
        let link = Link::silent();
        link.add_wire(SECOND, SECOND_CLIENT);
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        config_for("[server0, server1]", &[EVERY]);
        run(&["reload"]);
        assert_eq!((links(), status().interfaces.len()), (2, 2));
        config_for("[server1]", &[EVERY]);
        run(&["reload"]);
        assert_eq!((links(), status().interfaces[0].interface.as_str()), (1, "server1"));
    });
}

#[test]
fn long_packets_are_limited_too() {
    isolated(|| {
        for mtu in [8901, 9000] {
            let link = Link::silent();
            set_mtu(&link, mtu);
            let daemon = Daemon::start(&config(&[], &[EVERY]));
            let raw = Raw::new(&link);
            let mut long = frame();
            long.resize(mtu as usize + 14, 0);
            (0..20).for_each(|_| raw.send(&long));
            let status = judged(20);
            assert_eq!(rule(&status, "every"), (10, 10), "{mtu}");
            assert_eq!(reason(&status, "limited").bytes, 10 * (u64::from(mtu) + 14));
            assert!(run(&["status"]).contains("native"));
            drop(daemon);
            run(&["detach"]);
            ip("link del server0");
        }
    });
}

/// Leaves all as a killed daemon of a version with another layout would have: links, and maps under another number.
fn leave_other_layout(daemon: Daemon) {
    daemon.kill();
    fs::rename(format!("{PINS}/default/v2"), format!("{PINS}/default/v1")).unwrap();
}

#[test]
fn an_upgrade_replaces_the_program_and_removes_the_old_maps() {
    isolated(|| {
        let link = Link::silent();
        let config = config(&[], &[EVERY]);
        let daemon = Daemon::start(&config);
        let old = in_kernel();
        leave_other_layout(daemon);
        let raw = Raw::new(&link);
        (0..20).for_each(|_| raw.send(&frame()));
        let _daemon = Daemon::start(&config);
        assert!(fs::exists(format!("{PINS}/default/v2")).unwrap());
        assert!(!fs::exists(format!("{PINS}/default/v1")).unwrap());
        assert!(in_kernel() != old);
        (0..20).for_each(|_| raw.send(&frame()));
        assert_eq!(rule(&judged(20), "every"), (10, 10));
        run(&["detach"]);
        assert_no_files();
    });
}

#[test]
fn an_upgrade_carries_bans_and_observing_over() {
    isolated(|| {
        let link = Link::silent();
        let config = config(&[], &[EVERY]);
        let daemon = Daemon::start(&config);
        let bans = ["10.9.0.0/16", "192.0.2.7/32", "fd00:0:0:5::/64", "fd00:0:0:6:8000::7/128"];
        run(&[&["ban", "--for", "7d"], &bans[..]].concat());
        run(&["ban", "10.8.0.0/16", "--for", "2h"]);
        run(&["observe", "on"]);
        let listed =
            || -> Vec<BanStatus> { serde_json::from_str(&run(&["bans", "--output", "json"])).unwrap() };
        let before = listed();
        leave_other_layout(daemon);

        let mut daemon = Daemon::spawn(command(&["run", "--config"]).arg(&config));
        daemon.wait_for("bans=5");
        daemon.wait_for("limiting");
        let after = listed();
        assert_eq!(after.len(), 5);
        for (before, after) in before.iter().zip(&after) {
            let (was, is) = (before.seconds_left.unwrap(), after.seconds_left.unwrap());
            assert_eq!((&after.by[..], &after.reason), ("command", &before.reason));
            assert!(before.prefix == after.prefix && is <= was && was < is + 600, "{before:?} {after:?}");
        }
        let raw = Raw::new(&link);
        for source in ["10.9.1.1", "10.8.1.1", "192.0.2.7", "fd00:0:0:5::1", "fd00:0:0:6:8000::7", "10.7.1.1"]
        {
            raw.send(&frames::udp(source.parse().unwrap()));
        }
        let status = judged(6);
        assert_eq!((reason(&status, "banned").packets, status.observes), (5, true));
        run(&["detach"]);
        assert_no_files();
    });
}

#[test]
fn an_upgrade_goes_on_without_bans_that_can_not_be_read() {
    isolated(|| {
        let _link = Link::silent();
        let config = config(&[], &[EVERY]);
        let at = |name: &str| format!("{PINS}/default/v1/{name}");
        let cases: [(&str, &dyn Fn()); 2] = [
            ("META: No such file", &|| fs::remove_file(at("META")).unwrap()),
            ("BANS: the map is", &|| fs::rename(at("LISTS"), at("BANS")).unwrap()),
        ];
        for (expected, spoil) in cases {
            let daemon = Daemon::start(&config);
            run(&["ban", "10.9.0.0/16"]);
            leave_other_layout(daemon);
            spoil();
            let mut daemon = Daemon::spawn(command(&["run", "--config"]).arg(&config));
            daemon.wait_for("can't be carried over");
            daemon.wait_for("limiting");
            assert_eq!(status().bans, 0);
            assert!(!fs::exists(at("")).unwrap());
            run(&["detach"]);
            let said = daemon.last_words();
            assert_eq!(said.iter().filter(|line| line.contains(expected)).count(), 1, "{said:#?}");
        }
    });
}

#[test]
fn a_running_daemon_has_three_capabilities() {
    isolated(|| {
        let _link = Link::silent();
        let daemon = Daemon::start(&config(&[], &[EVERY]));
        let tasks = fs::read_dir(format!("/proc/{}/task", daemon.process())).unwrap();
        for task in tasks {
            let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let set = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                u64::from_str_radix(line.trim(), 16).unwrap()
            };
            let three = 1 << 12 | 1 << 38 | 1 << 39;
            for name in ["CapPrm:", "CapEff:", "CapBnd:"] {
                assert_eq!(set(name), three, "{name}");
            }
            assert_eq!((set("CapInh:"), set("CapAmb:")), (0, 0));
        }
        // With these it can still do its work.
        run(&["reload"]);
        let other = output(std::process::Command::new("setpriv").args([
            "--reuid=65534",
            "--clear-groups",
            "curl",
            "--silent",
            "--show-error",
            "--unix-socket",
            "/run/ratelimit/default.sock",
            "http://x/v1/instances/default/bans",
        ]));
        assert!(!other.status.success(), "{:?}", text(&other));
        assert!(output(&mut command(&["bans"])).status.success());
    });
}
