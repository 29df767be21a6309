//! The state file: what survives a restart, and what is made of a file that is none.

use std::{fs, path::Path, sync::Arc};

use ratelimit_limiter::{
    Nanos,
    application::Service,
    application::{ServicePolicy, StoreSettings},
    clock::FakeClock,
};
use tempfile::TempDir;

use crate::{Lab, START, hits, request, rules, shown};

const RULES: &str = "
domain: d
descriptors:
  - {key: week, rate_limit: {unit: week, requests_per_unit: 100}}
  - {key: second, rate_limit: {unit: second, requests_per_unit: 100}}
  - {key: bucket, rate_limit: {algorithm: token_bucket, unit: hour, requests_per_unit: 3600, burst: 100}}
  - {key: log, rate_limit: {algorithm: sliding_window_log, unit: week, requests_per_unit: 100}}
  - {key: counter, rate_limit: {algorithm: sliding_window_counter, unit: week, requests_per_unit: 100}}
  - {key: wide, rate_limit: {algorithm: sliding_window_counter, unit: minute, requests_per_unit: 100000000}}
";
const KEYS: [&str; 6] = ["week", "second", "bucket", "log", "counter", "wide"];

fn policy(path: &Path, max_keys: u64) -> ServicePolicy {
    policy_of(RULES, path, max_keys)
}

fn policy_of(content: &str, path: &Path, max_keys: u64) -> ServicePolicy {
    let store = StoreSettings { max_keys, state_file: Some(path.to_owned()), ..StoreSettings::default() };
    ServicePolicy { store, ..ServicePolicy::of_rules(rules(content)) }
}

/// A service that starts at a time with what a file holds.
fn start(path: &Path, max_keys: u64, now: Nanos) -> Lab {
    start_with(&policy(path, max_keys), now)
}

fn start_with(policy: &ServicePolicy, now: Nanos) -> Lab {
    let clock = FakeClock::new(now);
    let service = Service::with_clock(policy, Arc::new(clock.clone())).unwrap();
    Lab { service, clock }
}

fn left(lab: &Lab) -> Vec<u64> {
    KEYS.iter().map(|key| lab.ask(&hits(&format!("{key}=1"), 0)).statuses[0].remaining).collect()
}

/// The file of a service that took 40 of each limit.
fn saved() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let lab = start(&directory.path().join("state"), 1000, START);
    assert_eq!(left(&lab), [100, 100, 100, 100, 100, 100_000_000], "there is no file yet");
    KEYS.iter().for_each(|key| drop(lab.ask(&hits(&format!("{key}=1"), 40))));
    lab.service.save().unwrap();
    directory
}

#[test]
fn long_quotas_go_on_after_a_restart_and_what_has_passed_meanwhile_is_forgiven() {
    let directory = saved();
    let path = directory.path().join("state");
    let after =
        |seconds: u64, max_keys| left(&start(&path, max_keys, Nanos(START.0 + seconds * 1_000_000_000)));
    assert_eq!(after(0, 1000), [60, 60, 60, 60, 60, 99_999_960]);
    // The bucket refills one a second; the second and the minute are over.
    assert_eq!(after(10, 1000), [60, 100, 70, 60, 60, 99_999_960]);
    assert_eq!(after(200, 1000), [60, 100, 100, 60, 60, 100_000_000]);
    assert_eq!(after(14 * 86_400, 1000), [100, 100, 100, 100, 100, 100_000_000]);
    // More room or less does not matter.
    assert_eq!(after(0, 1_000_000), after(0, 1));
    // A clock that was set back lets nothing through again.
    let before = start(&path, 1000, Nanos(START.0 - 86_400_000_000_000));
    assert_eq!(before.ask(&hits("log=1", 0)).statuses[0].remaining, 60);
    before.advance(86_400 * 8);
    assert_eq!(shown(&before.ask(&request(&["log=1"]))), ["ok 99"]);
}

#[test]
fn counts_go_on_after_a_restart_with_other_numbers() {
    const LARGE: u64 = 4_000_000_000;
    for limit in
        ["unit: day", "algorithm: fixed_window, unit: day", "algorithm: sliding_window_counter, unit: day"]
    {
        for numbers in [[100, LARGE], [LARGE, 100]] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("state");
            let left = |requests: u64| {
                let rule = format!("{{key: a, rate_limit: {{{limit}, requests_per_unit: {requests}}}}}");
                let lab =
                    start_with(&policy_of(&format!("domain: d\ndescriptors: [{rule}]"), &path, 1000), START);
                let left = lab.ask(&hits("a=1", 0)).statuses[0].remaining;
                lab.ask(&hits("a=1", 30));
                lab.service.save().unwrap();
                left
            };
            let found = [numbers[0], numbers[1], numbers[0]].map(left);
            assert_eq!(found, [numbers[0], numbers[1] - 30, numbers[0] - 60], "{limit}");
        }
    }
}

#[test]
fn what_was_saved_twice_is_the_last_and_nothing_is_left_beside_it() {
    let directory = saved();
    let path = directory.path().join("state");
    fs::write(path.with_file_name("state.new"), "left by a stop in the middle").unwrap();
    let lab = start(&path, 1000, START);
    lab.ask(&hits("week=1", 10));
    lab.service.save().unwrap();
    assert_eq!(left(&start(&path, 1000, START))[0], 50);
    let names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["state"]);
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn many_keys_survive_in_a_table_that_has_grown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let lab = start(&path, 100_000, START);
    (0..50_000).for_each(|key| drop(lab.ask(&hits(&format!("week={key}"), key % 100 + 1))));
    lab.service.save().unwrap();
    let lab = start(&path, 10, START);
    for key in 0..50_000 {
        assert_eq!(lab.ask(&hits(&format!("week={key}"), 0)).statuses[0].remaining, 99 - key % 100);
    }
}

#[test]
fn a_file_that_is_none_is_an_empty_store() {
    let directory = saved();
    let path = directory.path().join("state");
    let good = fs::read(&path).unwrap();
    let fresh = [100, 100, 100, 100, 100, 100_000_000];
    let mut bad: Vec<Vec<u8>> =
        vec![Vec::new(), b"x".to_vec(), vec![0; 10_000], b"ratelimit state 2\n".to_vec()];
    bad.extend((0..good.len()).step_by(7).map(|length| good[..length].to_vec()));
    for index in (0..good.len()).step_by(5) {
        let mut flipped = good.clone();
        flipped[index] ^= 0x10;
        bad.push(flipped);
    }
    let mut longer = good.clone();
    longer.extend([0; 8]);
    bad.push(longer);
    for bytes in &bad {
        fs::write(&path, bytes).unwrap();
        assert_eq!(left(&start(&path, 1000, START)), fresh);
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(left(&start(&path, 1000, START))[0], 60);
}

/// With a checksum that is right, as only somebody who means it could write it.
#[test]
fn a_file_that_says_what_can_not_be_is_an_empty_store() {
    let directory = saved();
    let path = directory.path().join("state");
    let good = fs::read(&path).unwrap();
    let content = &good[..good.len() - 8];
    for index in (18..content.len() - 8).step_by(8) {
        for value in [1, u64::MAX] {
            let mut forged = content.to_vec();
            forged[index..index + 8].copy_from_slice(&value.to_le_bytes());
            let checksum = u64::from(crc32fast::hash(&forged));
            forged.extend(checksum.to_le_bytes());
            fs::write(&path, &forged).unwrap();
            // Whatever is made of it, requests are answered.
            let lab = start(&path, 1000, START);
            KEYS.iter().for_each(|key| drop(lab.ask(&request(&[&format!("{key}=1")]))));
            lab.service.save().unwrap();
        }
    }
}

#[test]
fn no_place_for_the_file_is_an_error_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let there = directory.path().join("there");
    for (path, why) in [
        (there.join("state"), "its directory is not there"),
        (directory.path().to_owned(), "a directory: name a file in it"),
    ] {
        let clock = Arc::new(FakeClock::new(START));
        let error = Service::with_clock(&policy(&path, 1000), clock).unwrap_err().to_string();
        assert!(error.contains(&*path.to_string_lossy()) && error.contains(why), "{error}");
    }
    fs::create_dir(&there).unwrap();
    let lab = start(&there.join("state"), 1000, START);
    fs::remove_dir(&there).unwrap();
    let error = lab.service.save().unwrap_err().to_string();
    assert!(error.contains("there/state") && error.contains("check that its directory is there"), "{error}");
}
