//! Daemons come and go; limits, buckets and counters stay until somebody ends them.

use nix::sys::signal::Signal;

use crate::{
    daemon::{Daemon, command, config, judged, output, rule, run, status, text},
    leftovers::{assert_gone, assert_no_files, in_kernel},
    limits::{FLOOD, TRICKLE, all_arrivals, count, flood, send},
    net::{Link, SERVER_V4, arrivals, isolated, receiver},
    wait,
};

const CLIENT: &str = "10.1.0.2";
const OTHER: &str = "10.1.0.3";
const EVERY: &str = "{name: every, rate: 100/s, burst: 50}";

#[test]
fn limits_go_on_when_the_daemon_is_killed_during_a_flood() {
    isolated(|| {
        let link = Link::new(&[CLIENT, OTHER]);
        let daemon = Daemon::start(&config(&[], &[EVERY]));
        let server = receiver(SERVER_V4);

        let kill = || daemon.kill();
        let times = flood(&[&link.sender(CLIENT)], &link.sender(OTHER), &server, kill);

        let (passed, _) = rule(&judged(FLOOD + TRICKLE), "every");
        let arrived = all_arrivals(&server, passed);
        times.check(count(&arrived, &[CLIENT]));
        assert_eq!(count(&arrived, &[OTHER]) as u64, TRICKLE);
        run(&["detach"]);
    });
}

#[test]
fn the_next_daemon_goes_on_with_buckets_and_counters() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let config = config(&[], &["{name: every, rate: 1/h, burst: 50}"]);
        let first = Daemon::start(&config);
        let server = receiver(SERVER_V4);
        send(&link.sender(CLIENT), 100);
        assert_eq!(rule(&judged(100), "every"), (50, 50));
        all_arrivals(&server, 50);

        first.kill();
        send(&link.sender(CLIENT), 100);
        assert_eq!(rule(&judged(200), "every"), (50, 150));

        let mut second = Daemon::start(&config);
        second.wait_for("going on");
        send(&link.sender(CLIENT), 100);
        assert_eq!(rule(&judged(300), "every"), (50, 250));
        assert!(arrivals(&server).is_empty());
    });
}

#[test]
fn a_clean_stop_leaves_nothing_behind() {
    isolated(|| {
        let _link = Link::new(&[CLIENT]);
        let config = config(&[], &[EVERY]);
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let daemon = Daemon::start(&config);
            let kernel = in_kernel();
            daemon.signal(signal);
            assert_eq!(daemon.end().code(), Some(0), "{signal}");
            assert_gone(&kernel);
        }
    });
}

#[test]
fn a_signal_at_any_time_of_the_start_leaves_nothing_behind() {
    isolated(|| {
        let _link = Link::new(&[CLIENT]);
        let config = config(&[], &[EVERY]);
        let daemon = Daemon::spawn(command(&["run", "--config"]).arg(&config));
        // The link is pinned before the daemon says that it limits.
        let kernel = wait::until("the link is pinned", || {
            let links = std::fs::read_dir("/sys/fs/bpf/ratelimit/default/links").ok()?;
            (links.count() > 0).then(in_kernel)
        });
        daemon.signal(Signal::SIGTERM);
        assert_eq!(daemon.end().code(), Some(0));
        assert_gone(&kernel);
    });
}

#[test]
fn detach_leaves_nothing_behind_with_a_daemon_or_without() {
    isolated(|| {
        let _link = Link::new(&[CLIENT]);
        let config = config(&[], &[EVERY]);
        let daemon = Daemon::start(&config);
        let kernel = in_kernel();
        run(&["detach"]);
        // It has given up everything by now, though it may still be there.
        let daemon_after = Daemon::start(&config);
        run(&["detach"]);
        assert_eq!(daemon.end().code(), Some(0));
        assert_eq!(daemon_after.end().code(), Some(0));
        assert_gone(&kernel);

        let daemon = Daemon::start(&config);
        let kernel = in_kernel();
        daemon.kill();
        assert_eq!(in_kernel(), kernel);
        run(&["detach"]);
        assert_gone(&kernel);

        let again = output(&mut command(&["detach"]));
        assert_eq!(again.status.code(), Some(1));
        assert!(text(&again).1.contains("is not attached"));
    });
}

#[test]
fn a_hang_up_reloads() {
    isolated(|| {
        let _link = Link::new(&[CLIENT]);
        let mut daemon = Daemon::start(&config(&[], &[EVERY]));
        let kernel = in_kernel();
        daemon.signal(Signal::SIGHUP);
        daemon.wait_for("reloaded");
        daemon.signal(Signal::SIGTERM);
        let said = daemon.last_words();
        let last = said.last().unwrap();
        for expected in ["detached", "SIGTERM", "server0"] {
            assert!(last.contains(expected), "{last}");
        }
        assert_gone(&kernel);
    });
}

#[test]
fn keeping_leaves_all_in_force() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let rule_text = "{name: every, rate: 1/h, burst: 50}";
        for (network, signal) in [(&["on_exit: keep"][..], Signal::SIGTERM), (&[], Signal::SIGUSR2)] {
            let daemon = Daemon::start(&config(network, &[rule_text]));
            send(&link.sender(CLIENT), 60);
            judged(60);
            let kernel = in_kernel();
            daemon.signal(signal);
            assert_eq!(daemon.end().code(), Some(0), "{signal}");
            assert_eq!(in_kernel(), kernel);
            send(&link.sender(CLIENT), 60);
            assert_eq!(rule(&judged(120), "every"), (50, 70));
            run(&["detach"]);
            assert_gone(&kernel);
        }
    });
}

#[test]
fn another_table_size_is_refused_and_the_old_limits_stay() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let rules = ["{name: every, rate: 1/h, burst: 50}"];
        Daemon::start(&config(&["table_size: 65536"], &rules)).kill();
        let kernel = in_kernel();
        send(&link.sender(CLIENT), 60);

        let other = config(&["table_size: 131072"], &["{name: other, rate: 5/s}"]);
        let refused = output(command(&["run", "--config"]).arg(other));
        let (_, stderr) = text(&refused);
        assert_eq!(refused.status.code(), Some(1), "{stderr}");
        for expected in ["65536", "131072", "ratelimit detach"] {
            assert!(stderr.contains(expected), "{stderr}");
        }
        assert_eq!(in_kernel(), kernel);
        send(&link.sender(CLIENT), 60);
        assert_eq!(rule(&judged(120), "every"), (50, 70));
        run(&["detach"]);
        assert_no_files();
    });
}

#[test]
fn a_smaller_burst_makes_no_bucket_emptier_than_empty() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let server = receiver(SERVER_V4);
        let client = link.sender(CLIENT);
        Daemon::start(&config(&[], &["{name: every, rate: 20/m, burst: 2000}"])).kill();
        send(&client, 2000);
        judged(2000);
        all_arrivals(&server, 2000);

        // As it was, more than an hour would pass before the next one.
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 20/m, burst: 2}"]));
        wait::until("the bucket has one again", || {
            send(&client, 1);
            (!arrivals(&server).is_empty()).then_some(())
        });
        assert!(rule(&status(), "every").1 > 0, "it was denied at first");
    });
}

#[test]
fn unchanged_rules_keep_what_they_have_and_others_begin_anew() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let client = link.sender(CLIENT);
        let watch = |name: &str| format!("{{name: {name}, rate: 1/h, burst: 2, action: observe}}");
        let with = |name: &str| config(&[], &["{name: first, rate: 1/h, burst: 50}", &watch(name)]);

        Daemon::start(&with("second")).kill();
        send(&client, 4);
        let status = judged(4);
        assert_eq!((rule(&status, "first"), rule(&status, "second")), ((4, 0), (2, 2)));

        Daemon::start(&with("third")).kill();
        send(&client, 1);
        let status = judged(5);
        assert_eq!((rule(&status, "first"), rule(&status, "third")), ((5, 0), (1, 0)));

        // It is another rule by now, though its number may be the same.
        Daemon::start(&with("second")).kill();
        send(&client, 46);
        let status = judged(51);
        assert_eq!((rule(&status, "first"), rule(&status, "second")), ((50, 1), (2, 43)));
    });
}
