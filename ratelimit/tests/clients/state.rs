//! The state file of a daemon that is killed: at most what was counted in a `save_interval` is lost.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
};

use crate::process::{Daemon, get, until};

const RULES: &str =
    "domain: d\ndescriptors: [{key: client, rate_limit: {unit: week, requests_per_unit: 1000000}}]\n";
const LINES: &str = "  auth: {domain: d, descriptors: [{client: '{client_address}'}]}
  store: {memory: {state_file: state, save_interval: 1s}}
";

fn used(daemon: &Daemon) -> u64 {
    let answer = get(daemon.http, "/v1/auth", &[]);
    999_999 - answer.header("x-ratelimit-remaining").unwrap().parse::<u64>().unwrap()
}

/// Waits until the file has been replaced.
fn wait_for_a_save(daemon: &Daemon) {
    let replaced = || fs::metadata(daemon.path("state")).and_then(|file| file.modified()).ok();
    let before = replaced();
    until("a save", || replaced() != before);
}

#[test]
fn a_daemon_that_is_killed_loses_what_was_not_saved_yet_and_no_more() {
    let mut daemon = Daemon::start(RULES, LINES);
    let (charged, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    let before = thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(SeqCst) {
                used(&daemon);
                charged.fetch_add(1, SeqCst);
            }
        });
        wait_for_a_save(&daemon);
        let before = charged.load(SeqCst);
        // The first of these may have begun before.
        (0..2).for_each(|_| wait_for_a_save(&daemon));
        ends.store(true, SeqCst);
        before
    });
    daemon.kill();
    daemon.start_again();
    let (after, all) = (used(&daemon), charged.load(SeqCst));
    assert!(before > 0 && (before..=all).contains(&after), "{after} of {all}, of which {before} are old");
    assert!(!daemon.path("state.new").exists());
}

#[test]
fn a_file_that_can_not_be_replaced_stops_nothing() {
    let mut daemon = Daemon::start(RULES, LINES);
    assert_eq!(used(&daemon), 0);
    wait_for_a_save(&daemon);
    // A directory that has something in it can't be replaced by a file, even by root.
    fs::create_dir_all(daemon.path("state.new/x")).unwrap();
    assert_eq!(used(&daemon), 1);
    fs::remove_dir_all(daemon.path("state.new")).unwrap();
    wait_for_a_save(&daemon);
    daemon.kill();
    daemon.start_again();
    assert_eq!(used(&daemon), 2);
}
