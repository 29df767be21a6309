//! What a denied request is told to wait: after that it passes if nobody else takes anything, and not before.

use ratelimit::{
    application::{Request, Response},
    limiter::Nanos,
};

use crate::{Lab, hits, lab_of_limit, request};

/// The wait that stands for all of a denied request.
fn wait(response: &Response) -> Nanos {
    assert!(!response.allowed());
    response.deciding().unwrap().retry_after.unwrap()
}

fn whole_seconds(response: &Response) -> u64 {
    response.deciding().unwrap().retry_after_seconds().unwrap()
}

/// If a service, made anew for each trial, denies the request, it passes when it is told, and not before.
fn passes_when_told(made: impl Fn() -> Lab, asked: &Request, what: &str) {
    let response = made().ask(asked);
    if response.allowed() {
        return;
    }
    let passes_after = |time: Nanos| {
        let lab = made();
        lab.ask(asked);
        lab.clock.advance(time);
        lab.ask(asked).allowed()
    };
    let told = wait(&response);
    assert!(passes_after(told), "{what}: denied after {told:?}");
    assert!(!passes_after(Nanos(told.0 - 1)), "{what}: passes before {told:?}");
    let seconds = whole_seconds(&response);
    assert!(passes_after(Nanos::from_secs(seconds)), "{what}: denied after {seconds} s");
}

const SHORT: &str = "per: 4s, requests_per_unit: 6, soft_limit: 3, soft_for: 1s";

#[test]
fn a_wait_for_the_hard_limit_that_outlasts_the_soft_one_goes_on_until_use_is_below_that() {
    for algorithm in [
        "token_bucket",
        "leaky_bucket",
        "sliding_window_counter",
        "token_bucket, count_denied: true",
        "leaky_bucket, count_denied: true",
        "sliding_window_counter, count_denied: true",
        "sliding_window_log",
        "sliding_window_log, count_denied: true",
        "fixed_window",
        "fixed_window, count_denied: true",
    ] {
        for seen in [0, 300, 900, 1100, 3000] {
            let full = || {
                let lab = lab_of_limit(&format!("algorithm: {algorithm}, {SHORT}"));
                lab.to_window(Nanos::from_secs(4));
                assert_eq!(lab.passes("user=1", 6), 6);
                lab.clock.advance(Nanos(seen * 1_000_000));
                lab
            };
            passes_when_told(full, &request(&["user=1"]), &format!("{algorithm}, after {seen} ms"));
        }
    }
}

#[test]
fn within_the_time_of_the_soft_limit_only_the_hard_one_is_waited_for() {
    let lab = lab_of_limit(
        "algorithm: token_bucket, per: 60s, requests_per_unit: 60, soft_limit: 30, soft_for: 3s",
    );
    assert_eq!(lab.passes("user=1", 60), 60);
    assert_eq!(wait(&lab.ask(&request(&["user=1"]))), Nanos::from_secs(1));
    // Two pass in time; the third would be too late.
    assert_eq!(wait(&lab.ask(&hits("user=1", 2))), Nanos::from_secs(2));
    assert_eq!(wait(&lab.ask(&hits("user=1", 3))), Nanos::from_secs(31));
    let status = lab.one("user=1");
    assert_eq!(status.reset_after, status.retry_after.unwrap());
}

#[test]
fn whole_seconds_do_not_end_between_the_soft_limits_time_and_its_end() {
    let lab = lab_of_limit(&format!("algorithm: token_bucket, {SHORT}"));
    assert_eq!(lab.passes("user=1", 6), 6);
    let denied = lab.ask(&request(&["user=1"]));
    // In 0.667 s there is room, but after 1 s not: then use has to fall below 3, in 2.667 s.
    assert_eq!((wait(&denied).0.div_ceil(1_000_000), whole_seconds(&denied)), (667, 3));
    assert_eq!(denied.statuses[0].duration_until_reset(), Some(3));
}

#[test]
fn a_request_above_the_soft_limit_by_itself_waits_for_what_it_needs() {
    for count_denied in [false, true] {
        let limit = format!("algorithm: token_bucket, count_denied: {count_denied}, {SHORT}");
        let used = |count| {
            let lab = lab_of_limit(&limit);
            lab.ask(&hits("user=1", count));
            lab
        };
        // Not above before, so nothing was noted; crossed, so it was.
        for (before, needs) in [(2, 5), (2, 6), (4, 3), (4, 6), (6, 5)] {
            let what = format!("{limit}: {needs} after {before}");
            assert!(!used(before).ask(&hits("user=1", needs)).allowed(), "{what}");
            passes_when_told(|| used(before), &hits("user=1", needs), &what);
        }
        assert!(used(1).ask(&hits("user=1", 7)).deciding().unwrap().never);
    }
}
