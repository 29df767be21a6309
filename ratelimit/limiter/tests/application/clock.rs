//! The wall clock is set while requests are judged, and while nobody runs.

use std::{path::Path, sync::Arc};

use ratelimit_limiter::{
    Nanos,
    application::Service,
    application::{ServicePolicy, StoreSettings},
    clock::{Clock as _, FakeClock},
};

use crate::{Lab, lab_of, rules};

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;
/// A midnight.
const MIDNIGHT: Nanos = Nanos(19_676 * DAY * 1_000_000_000);

const RULES: &str = "
domain: d
descriptors:
  - {key: fixed, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: counter, rate_limit: {algorithm: sliding_window_counter, unit: day, requests_per_unit: 10}}
  - {key: wide, rate_limit: {algorithm: sliding_window_counter, unit: second, requests_per_unit: 500000000}}
  - {key: second, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: log, rate_limit: {algorithm: sliding_window_log, unit: day, requests_per_unit: 10}}
  - {key: bucket, rate_limit: {algorithm: token_bucket, unit: day, requests_per_unit: 10}}
";

fn policy() -> ServicePolicy {
    ServicePolicy::of_rules(rules(RULES))
}

/// A service whose clock stands so many hours after a midnight.
fn lab(hours: u64) -> Lab {
    let lab = lab_of(&policy());
    lab.clock.set(Nanos(MIDNIGHT.0 + Nanos::from_secs(hours * HOUR).0));
    lab
}

impl Lab {
    /// Sets the wall clock, by seconds, and reloads, which a daemon does at once.
    fn set(&self, by: i64) {
        let length = Nanos::from_secs(by.unsigned_abs());
        if by > 0 {
            self.clock.set_wall_forward(length)
        } else {
            self.clock.set_wall_back(length)
        }
        assert!(self.service.has_moved_windows());
        self.service.reload(&policy()).unwrap();
        assert!(!self.service.has_moved_windows());
    }
}

#[test]
fn a_day_goes_on_with_its_count_until_midnight_after_the_clock_was_set_back() {
    // The same whether midnight is nearer by the old clock or by the new one.
    for hour in [18, 2] {
        let lab = lab(hour);
        for key in ["fixed", "counter"] {
            assert_eq!(lab.passes(key, 20), 10);
        }
        lab.set(-6 * HOUR as i64);
        let left = 24 - hour + 6;
        for key in ["fixed", "counter"] {
            assert_eq!(lab.passes(key, 20), 0, "{key} at {hour}");
            assert_eq!(lab.one(key).reset_after, Nanos::from_secs(left * HOUR), "{key} at {hour}");
        }
        lab.advance(left * HOUR - 1);
        assert_eq!(lab.passes("fixed", 20), 0);
        lab.advance(1);
        assert_eq!(lab.passes("fixed", 20), 10);
    }
}

#[test]
fn a_window_that_ended_less_than_its_length_ago_is_the_current_one_again() {
    let lab = lab(23);
    assert_eq!(lab.passes("fixed", 20), 10);
    // So far that the two midnights differ in states, too.
    lab.advance(7 * HOUR);
    lab.set(-7 * HOUR as i64);
    assert_eq!(lab.passes("fixed", 20), 0);
    lab.advance(HOUR);
    assert_eq!(lab.passes("fixed", 20), 10);
}

#[test]
fn new_windows_begin_at_once_after_the_clock_was_set_forward() {
    for by in [2 * DAY, 2 * DAY + 7 * HOUR] {
        let lab = lab(18);
        for key in ["fixed", "counter", "log", "bucket"] {
            assert_eq!(lab.passes(key, 20), 10);
        }
        lab.set(by as i64);
        let passed = ["fixed", "counter", "log", "bucket"].map(|key| lab.passes(key, 20));
        // The last two ask how long ago something was, which nobody can set.
        assert_eq!(passed, [10, 10, 0, 0]);
    }
}

#[test]
fn a_short_window_does_not_wait_for_the_clock_to_come_back() {
    let lab = lab(18);
    assert_eq!(lab.passes("second", 20), 10);
    lab.ask(&crate::hits("wide", 500_000_000));
    lab.set(-6 * HOUR as i64);
    assert_eq!((lab.passes("second", 20), lab.passes("wide", 1)), (0, 0));
    lab.advance(2);
    assert_eq!((lab.passes("second", 20), lab.passes("wide", 1)), (10, 1));
    lab.ask(&crate::hits("wide", 499_999_999));
    assert_eq!(lab.passes("wide", 1), 0);
    lab.set(2);
    assert_eq!(lab.passes("wide", 1), 1);
}

#[test]
fn steps_under_a_second_are_ignored_until_they_add_up() {
    let lab = lab(18);
    let end = lab.one("fixed").reset_after;
    lab.clock.set_wall_forward(Nanos(999_999_999));
    assert!(!lab.service.has_moved_windows());
    lab.service.reload(&policy()).unwrap();
    assert_eq!(lab.one("fixed").reset_after, end);
    lab.clock.set_wall_forward(Nanos(1));
    assert!(lab.service.has_moved_windows());
    lab.service.reload(&policy()).unwrap();
    assert_eq!(lab.one("fixed").reset_after, Nanos(end.0 - 1_000_000_000));
}

/// A daemon with a state file that begins when the wall clock says so.
fn start(path: &Path, wall: Nanos) -> Lab {
    let store =
        StoreSettings { max_keys: 1_000, state_file: Some(path.to_owned()), ..StoreSettings::default() };
    let clock = FakeClock::new(wall);
    let service = Service::with_clock(&ServicePolicy { store, ..policy() }, Arc::new(clock.clone())).unwrap();
    Lab { service, clock }
}

#[test]
fn a_clock_that_was_set_back_while_nobody_ran_gives_no_day_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let lab = start(&path, Nanos(MIDNIGHT.0 + Nanos::from_secs(2 * HOUR).0));
    for key in ["fixed", "counter"] {
        assert_eq!(lab.passes(key, 20), 10);
    }
    // Set while it runs, and while it does not.
    lab.clock.set_wall_back(Nanos::from_secs(HOUR));
    lab.service.save().unwrap();
    let lab = start(&path, Nanos(lab.clock.wall().0 - Nanos::from_secs(5 * HOUR).0));
    assert!(!lab.service.has_moved_windows());
    for key in ["fixed", "counter"] {
        assert_eq!(lab.passes(key, 20), 0, "{key}");
        assert_eq!(lab.one(key).reset_after, Nanos::from_secs(28 * HOUR), "{key}");
    }
}

#[test]
fn a_day_that_ended_before_the_state_was_saved_is_the_current_one_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let lab = start(&path, Nanos(MIDNIGHT.0 - Nanos::from_secs(HOUR).0));
    assert_eq!(lab.passes("fixed", 20), 10);
    lab.advance(7 * HOUR);
    lab.service.save().unwrap();
    let lab = start(&path, Nanos(MIDNIGHT.0 - Nanos::from_secs(600).0));
    assert_eq!((lab.passes("fixed", 20), lab.one("fixed").reset_after), (0, Nanos::from_secs(600)));
}
