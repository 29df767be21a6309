//! What a denied request is told to wait: after that it passes if nobody else takes anything, and not before.

use proptest::prelude::*;
use ratelimit_limiter::{
    Nanos,
    application::{Code, Descriptor, Request, Response},
};

use crate::{Lab, algorithms, descriptor, hits, lab, lab_of_limit, request};

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
    let counted = |algorithm| [false, true].map(|count_denied| (algorithm, count_denied));
    for (algorithm, count_denied) in algorithms().flat_map(counted) {
        let limit = format!("algorithm: {algorithm}, count_denied: {count_denied}, {SHORT}");
        for seen in [0, 300, 900, 1100, 3000] {
            let full = || {
                let lab = lab_of_limit(&limit);
                lab.to_window(Nanos::from_secs(4));
                assert_eq!(lab.passes("user=1", 6), 6);
                lab.clock.advance(Nanos(seen * 1_000_000));
                lab
            };
            passes_when_told(full, &request(&["user=1"]), &format!("{limit}, after {seen} ms"));
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
    let passes = ["0.667", "1", "2.666", "3"].map(|seconds: &str| {
        let lab = lab_of_limit(&format!("algorithm: token_bucket, {SHORT}"));
        lab.passes("user=1", 6);
        lab.clock.advance(Nanos((seconds.parse::<f64>().unwrap() * 1e9) as u64));
        lab.ask(&request(&["user=1"])).allowed()
    });
    assert_eq!(passes, [true, false, false, true]);
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

const TWO: &str = "
domain: d
descriptors:
  - {key: g1, rate_limit: {name: g1, algorithm: token_bucket, unit: second, requests_per_unit: 1, burst: 2}}
  - {key: g2, rate_limit: {name: g2, unit: hour, requests_per_unit: 4}}
";

#[test]
fn a_denied_request_that_took_the_last_of_another_limit_waits_for_that() {
    let lab = lab(TWO);
    let both = request(&["g1", "g2"]);
    assert_eq!([lab.ask(&both).allowed(), lab.ask(&both).allowed()], [true, true]);
    let third = lab.ask(&both);
    assert_eq!((third.deciding, whole_seconds(&third)), (Some(0), 1));
    let fourth = lab.ask(&both);
    // What is said of each is as ever.
    assert_eq!(crate::shown(&fourth), ["over 0", "ok 0"]);
    assert_eq!(fourth.statuses[1].retry_after, None);
    // What stands for all is the limit that has to be waited for.
    assert_eq!(fourth.deciding, Some(1));
    let whole = fourth.deciding().unwrap();
    assert_eq!((whole.rule.as_ref().unwrap().label(), whole.remaining, whole.never), ("g2", 0, false));
    assert_eq!(wait(&fourth), fourth.statuses[1].reset_after);
    lab.clock.advance(Nanos(wait(&fourth).0 - 1));
    assert!(!lab.ask(&both).allowed());
    lab.clock.advance(Nanos(1));
    assert!(lab.ask(&both).allowed());
}

#[test]
fn limits_that_are_over_stand_before_others_with_the_same_wait() {
    let lab = lab("
domain: d
descriptors:
  - {key: a, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: b, rate_limit: {unit: hour, requests_per_unit: 1}}
");
    lab.ask(&request(&["a", "b"]));
    let denied = lab.ask(&request(&["a", "b"]));
    assert_eq!(
        (crate::shown(&denied), denied.deciding),
        (vec!["ok 0".to_owned(), "over 0".to_owned()], Some(1))
    );
}

#[test]
fn the_same_descriptor_twice_waits_for_both() {
    let lab = lab_of_limit("algorithm: token_bucket, unit: second, requests_per_unit: 1, burst: 2");
    let twice = request(&["user=1", "user=1"]);
    assert!(lab.ask(&twice).allowed());
    assert_eq!(wait(&lab.ask(&twice)), Nanos::from_secs(2));
    let never = lab.ask(&request(&["user=1", "user=1", "user=1"]));
    assert!(never.deciding().unwrap().never && never.deciding().unwrap().retry_after.is_none());
}

/// What a descriptor has beside its key.
fn any_limit() -> impl Strategy<Value = String> {
    let named = algorithms().map(|algorithm| format!("algorithm: {algorithm}, "));
    let more = ["", "algorithm: token_bucket, burst: 5, "].map(str::to_owned);
    let algorithm = prop::sample::select(named.chain(more).collect::<Vec<_>>());
    let count_denied = prop::sample::select(vec!["", "count_denied: true, ", "count_denied: false, "]);
    let per = prop::sample::select(vec!["1s", "3s", "4s", "7s", "90s"]);
    let soft_for = prop::sample::select(vec!["1s", "2s", "3s", "20s"]);
    let soft = prop::option::of((1..9_u64, soft_for));
    let mode = prop::sample::select(vec!["", "", "", "quota_mode: true, ", "shadow_mode: true, "]);
    (algorithm, count_denied, per, 1..10_u64, soft, mode).prop_map(
        |(algorithm, count_denied, per, amount, soft, mode)| {
            let capacity = if algorithm.contains("burst") { 5 } else { amount };
            let soft = soft.filter(|(limit, _)| *limit < capacity);
            let said = soft
                .map(|(limit, lasts)| format!(", soft_limit: {limit}, soft_for: {lasts}"))
                .unwrap_or_default();
            format!(
                "{mode}rate_limit: {{{algorithm}{count_denied}per: {per}, requests_per_unit: {amount}{said}}}"
            )
        },
    )
}

/// How a denied request waits.
#[derive(Clone, Copy, Debug)]
enum Patience {
    Exact,
    WholeSeconds,
    TooShort,
    None,
}

#[derive(Clone, Debug)]
struct Arrival {
    descriptors: Vec<(usize, u64)>,
    pause: u64,
    patience: Patience,
}

fn any_arrival() -> impl Strategy<Value = Arrival> {
    use Patience::{Exact, None, TooShort, WholeSeconds};
    let hits = prop::sample::select(vec![0, 1, 1, 1, 2, 4]);
    let descriptors = prop::collection::vec((0..3_usize, hits), 1..4);
    let pause = prop_oneof![Just(0), Just(0), 0..2_000_000_000_u64];
    let patience = prop::sample::select(vec![Exact, WholeSeconds, TooShort, None, None, None]);
    (descriptors, pause, patience).prop_map(|(descriptors, pause, patience)| Arrival {
        descriptors,
        pause,
        patience,
    })
}

fn asked(arrival: &Arrival) -> Request {
    let one = |&(key, hits): &(usize, u64)| Descriptor {
        hits_addend: Some(hits),
        ..descriptor(["a", "b", "c"][key])
    };
    Request { descriptors: arrival.descriptors.iter().map(one).collect(), ..request(&[]) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn who_waits_as_told_passes_and_nobody_before(
        limits in prop::collection::vec(any_limit(), 3),
        arrivals in prop::collection::vec(any_arrival(), 1..40),
    ) {
        let rules: String = std::iter::zip(["a", "b", "c"], &limits)
            .map(|(key, limit)| format!("  - {{key: {key}, {limit}}}\n"))
            .collect();
        let lab = lab(&format!("domain: d\ndescriptors:\n{rules}"));
        for arrival in &arrivals {
            lab.clock.advance(Nanos(arrival.pause));
            let asked = asked(arrival);
            let response = lab.ask(&asked);
            if response.allowed() {
                continue;
            }
            let whole = response.deciding().unwrap();
            prop_assert_eq!((whole.code, whole.never), (Code::OverLimit, whole.retry_after.is_none()));
            let Some(told) = whole.retry_after else {
                lab.advance(1000);
                prop_assert!(!lab.ask(&asked).allowed(), "{rules}{asked:?} never passes");
                continue;
            };
            match arrival.patience {
                Patience::Exact => lab.clock.advance(told),
                Patience::WholeSeconds => lab.advance(whole.retry_after_seconds().unwrap()),
                Patience::TooShort if told.0 > 0 => {
                    lab.clock.advance(Nanos(told.0 - 1));
                    prop_assert!(!lab.ask(&asked).allowed(), "{rules}{asked:?} passes before {told:?}");
                    continue;
                }
                Patience::TooShort | Patience::None => continue,
            }
            prop_assert!(lab.ask(&asked).allowed(), "{rules}{asked:?} is denied after {told:?}");
        }
    }
}
