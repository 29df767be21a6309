//! Rules on trial: until somebody confirms them, or everything passes.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use ratelimit::{
    dataplane::{self, TrialState, TrialStatus},
    policy::InstanceName,
};
use ratelimit_common::time::Nanos;

use crate::{
    daemon::{Daemon, command, config, judged, output, reason, rule, run, status, text},
    leftovers::PINS,
    limits::{all_arrivals, send},
    net::{Link, SERVER_V4, isolated, receiver},
    wait,
};

const CLIENT: &str = "10.1.0.2";

#[test]
fn a_trial_that_nobody_confirms_lets_everything_pass_without_a_daemon() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let config = config(&["deny: [10.1.0.3]"], &["{name: every, rate: 1/h, burst: 10}"]);
        // So long that all below happens in time.
        let mut daemon = Daemon::spawn(command(&["run", "--revert-after", "20s", "--config"]).arg(&config));
        daemon.wait_for("on trial");
        let client = link.sender(CLIENT);
        send(&client, 20);
        let judged_in_time = judged(20);
        assert_eq!(rule(&judged_in_time, "every"), (10, 10));
        daemon.kill();
        wait::until("the trial is over", || run(&["status"]).contains("everything passes:").then_some(()));
        let shown = run(&["status"]);
        assert!(!shown.contains("in force for") && !shown.contains("in force all the same"), "{shown}");
        assert!(
            shown.contains(" ago, not in force\nwarning ") && shown.contains("; start the daemon first\n"),
            "{shown}"
        );
        let server = receiver(SERVER_V4);
        send(&client, 20);
        assert_eq!(reason(&judged(40), "reverted").packets, 20);
        assert_eq!(all_arrivals(&server, 20).len(), 20);
        let late = output(&mut command(&["confirm"]));
        assert_eq!(late.status.code(), Some(1));
        assert!(text(&late).1.contains("too late"));
        // Those who were locked out are not to be again, unless somebody means to.
        let mut daemon = Daemon::spawn(command(&["run", "--revert-after", "1s", "--config"]).arg(&config));
        daemon.wait_for("nobody has confirmed");
        for switch in ["on", "off"] {
            let refused = output(&mut command(&["observe", switch]));
            assert!(text(&refused).1.contains("everything passes"));
        }
        run(&["detach"]);
    });
}

#[test]
fn a_daemon_that_starts_again_goes_on_with_the_trial_of_the_one_before() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let config = config(&[], &["{name: every, rate: 1/h, burst: 10}"]);
        let mut daemon = Daemon::spawn(command(&["run", "--revert-after", "10s", "--config"]).arg(&config));
        daemon.wait_for("on trial");
        daemon.kill();
        let mut daemon = Daemon::spawn(command(&["run", "--config"]).arg(&config));
        daemon.wait_for("on trial");
        assert!(matches!(status().trial, TrialStatus::SecondsLeft(1..=10)), "{:?}", status().trial);
        daemon.wait_for("nobody has confirmed");
        daemon.kill();
        // What has failed stays so.
        let mut daemon = Daemon::spawn(command(&["run", "--config"]).arg(&config));
        daemon.wait_for("nobody has confirmed");
        send(&link.sender(CLIENT), 20);
        assert_eq!(reason(&judged(20), "reverted").packets, 20);
        // Another trial is as long as the first.
        let said = run(&["reload"]);
        assert!(said.contains("on trial: everything passes in "), "{said}");
        assert!(matches!(status().trial, TrialStatus::SecondsLeft(1..=10)), "{:?}", status().trial);
        assert_eq!(run(&["confirm"]), "confirmed: the rules stay\n");
        daemon.wait_for("confirmed: the rules stay");
        daemon.kill();
        let _daemon = Daemon::start(&config);
        assert_eq!(status().trial, TrialStatus::None);
    });
}

#[test]
fn a_trial_lasts_from_when_its_rules_are_in_force_and_its_end_is_logged_at_once() {
    isolated(|| {
        let _link = Link::new(&[CLIENT]);
        let config = config(&[], &["{name: every, rate: 1/h, burst: 10}"]);
        let mut daemon = Daemon::spawn(command(&["run", "--revert-after", "1h", "--config"]).arg(&config));
        daemon.wait_for("on trial");
        let found = dataplane::confirm(&InstanceName::default()).unwrap();
        let TrialState::Left(Nanos(left)) = found else { panic!("{found:?}") };
        let began = SystemTime::now() + Duration::from_nanos(left) - Duration::from_secs(3_600);
        let link = fs::read_dir(format!("{PINS}/default/links")).unwrap().next().unwrap().unwrap();
        let attached = link.metadata().unwrap().modified().unwrap();
        assert!(began >= attached, "{:?} before", attached.duration_since(began));
        daemon.wait_for("confirmed: the rules stay");
    });
}

#[test]
fn a_confirmed_trial_stays_in_force() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let config = config(&[], &["{name: every, rate: 1/h, burst: 10}"]);
        let mut daemon = Daemon::spawn(command(&["run", "--revert-after", "20s", "--config"]).arg(&config));
        daemon.wait_for("on trial");
        assert_eq!(run(&["confirm"]), "confirmed: the rules stay\n");
        assert_eq!(run(&["confirm"]), "nothing is on trial; the rules stay\n");
        daemon.wait_for("confirmed: the rules stay");
        send(&link.sender(CLIENT), 20);
        assert_eq!(rule(&judged(20), "every"), (10, 10));
        assert_eq!(reason(&status(), "reverted").packets, 0);
    });
}

#[test]
fn a_reload_is_on_trial_if_asked_and_so_is_what_comes_meanwhile() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let path = config(&[], &["{name: every, rate: 1/h, burst: 10}"]);
        let mut daemon = Daemon::start(&path);
        let said = run(&["reload", "--revert-after", "10m"]);
        assert!(said.contains("on trial: everything passes in "), "{said}");
        assert!(matches!(status().trial, TrialStatus::SecondsLeft(500..=600)), "{:?}", status().trial);
        assert_eq!(run(&["confirm"]), "confirmed: the rules stay\n");
        assert!(!run(&["reload"]).contains("trial"));
        // What has been confirmed says nothing about the next trial.
        run(&["reload", "--revert-after", "20s"]);
        config(&["deny: [10.1.0.2]"], &["{name: every, rate: 1/h, burst: 10}"]);
        daemon.wait_for("a file has changed");
        send(&link.sender(CLIENT), 5);
        assert_eq!(reason(&judged(5), "denied").packets, 5);
        wait::until("the trial has failed", || (status().trial == TrialStatus::Failed).then_some(()));
        daemon.wait_for("nobody has confirmed");
        send(&link.sender(CLIENT), 5);
        assert_eq!(reason(&judged(10), "reverted").packets, 5);
    });
}

#[test]
fn who_confirms_hears_that_the_file_is_not_in_force() {
    isolated(|| {
        let _link = Link::new(&[CLIENT]);
        let path = config(&[], &["{name: every, rate: 1/h, burst: 10}"]);
        let mut daemon = Daemon::start(&path);
        run(&["reload", "--revert-after", "10m"]);
        config(&[], &["{name: every, rate: 1/h, brust: 10}"]);
        daemon.wait_for("not reloaded");
        let said = run(&["confirm"]);
        assert!(said.starts_with("confirmed: the rules stay\nwarning "), "{said}");
        assert!(said.contains("the last reload failed") && said.contains("brust"), "{said}");
    });
}
