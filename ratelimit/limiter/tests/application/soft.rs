//! Soft limits: above them requests pass for a time, and then no longer.

use ratelimit_limiter::application::Code;

use crate::{algorithms, hits, lab, lab_of_limit, request, shown};

#[test]
fn use_above_the_soft_limit_passes_flagged_for_a_time_and_the_hard_limit_is_never_exceeded() {
    let named = algorithms().map(|algorithm| format!("algorithm: {algorithm}, "));
    for kind in named.chain([String::new()]) {
        let lab =
            lab_of_limit(&format!("{kind}unit: hour, requests_per_unit: 10, soft_limit: 5, soft_for: 30s"));
        lab.to_window(ratelimit_limiter::Nanos::from_secs(3600));
        let ask = || {
            let response = lab.ask(&request(&["user=1"]));
            (response.allowed(), response.soft())
        };
        for _ in 0..5 {
            assert_eq!(ask(), (true, false), "{kind}");
        }
        assert_eq!(ask(), (true, true), "{kind}");
        lab.advance(29);
        assert_eq!(ask(), (true, true), "{kind}");
        lab.advance(1);
        assert_eq!(ask(), (false, false), "{kind}");
        // Others are not concerned.
        assert!(lab.ask(&request(&["user=2"])).allowed());
        // Within the time, the limit itself binds all the same.
        assert_eq!(lab.passes("user=3", 20), 10, "{kind}");
    }
}

#[test]
fn after_its_time_the_soft_limit_binds_until_use_has_fallen_below_it() {
    for kind in
        ["unit: hour, requests_per_unit: 10", "algorithm: token_bucket, unit: hour, requests_per_unit: 10"]
    {
        let lab = lab_of_limit(&format!("{kind}, soft_limit: 5, soft_for: 30s"));
        lab.to_window(ratelimit_limiter::Nanos::from_secs(3600));
        lab.ask(&hits("user=1", 5));
        assert!(lab.ask(&hits("user=1", 2)).soft());
        lab.advance(31);
        let denied = lab.ask(&request(&["user=1"]));
        let status = &denied.statuses[0];
        assert_eq!((status.code, status.remaining, status.soft), (Code::OverLimit, 0, false));
        let wait = status.retry_after.unwrap();
        lab.clock.advance(ratelimit_limiter::Nanos(wait.0 - 1));
        assert!(!lab.ask(&request(&["user=1"])).allowed(), "{kind}");
        lab.clock.advance(ratelimit_limiter::Nanos(1));
        assert!(lab.ask(&request(&["user=1"])).allowed(), "{kind}");
    }
}

#[test]
fn no_hits_are_answered_as_one_is_when_the_soft_limit_binds() {
    let lab = lab_of_limit(
        "algorithm: sliding_window_log, unit: hour, requests_per_unit: 10, soft_limit: 5, soft_for: 30s",
    );
    lab.ask(&hits("user=1", 7));
    assert_eq!(shown(&lab.ask(&hits("user=1", 0))), ["ok 3"]);
    lab.advance(31);
    let (asked, taken) = (lab.ask(&hits("user=1", 0)), lab.ask(&request(&["user=1"])));
    assert_eq!((shown(&asked), shown(&taken)), (vec!["over 0".to_owned()], vec!["over 0".to_owned()]));
    assert_eq!(asked.statuses[0].retry_after, taken.statuses[0].retry_after);
    // Use that is just at the soft limit has no room for one more either.
    lab.ask(&hits("user=2", 2));
    lab.advance(1800);
    lab.ask(&hits("user=2", 5));
    lab.advance(1800);
    assert_eq!(shown(&lab.ask(&hits("user=2", 0))), ["over 0"]);
}

#[test]
fn what_is_denied_above_the_soft_limit_takes_nothing() {
    let lab = lab("
domain: d
descriptors:
  - {key: a, rate_limit: {algorithm: fixed_window, unit: hour, requests_per_unit: 10, soft_limit: 2, soft_for: 1s}}
  - {key: b, rate_limit: {algorithm: fixed_window, unit: hour, requests_per_unit: 10}}
");
    lab.to_window(ratelimit_limiter::Nanos::from_secs(3600));
    lab.ask(&request(&["a", "b"]));
    lab.ask(&hits("a", 2));
    lab.advance(2);
    for _ in 0..5 {
        assert_eq!(shown(&lab.ask(&request(&["a", "b"]))), ["over 0", "ok 9"]);
    }
    let counts = lab.service.rule_counts();
    let of = |key: &str| counts.iter().find(|(label, _)| label.key == key).unwrap().1;
    assert_eq!((of("a").soft_limit, of("a").over_limit, of("a").within_limit), (2, 5, 3));
}
