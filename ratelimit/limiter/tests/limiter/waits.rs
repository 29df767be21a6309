//! How long a request denied by several limits waits: after that it passes if nobody else takes anything, and not
//! before.

use proptest::prelude::*;
use ratelimit_limiter::{Ask, Nanos, Rule};

use crate::{SECOND, algorithms, limiter, rule};

#[test]
fn a_denied_request_that_took_the_last_of_another_limit_waits_for_that() {
    let rules = [
        rule("bucket", "token_bucket,rate=1/s,burst=2"),
        rule("counts", "sliding_window_log,rate=4/h,count_denied=true"),
    ];
    let (limiter, clock) = limiter(rules, 1000);
    let both = || limiter.check("key", 1);
    assert_eq!([both().allowed(), both().allowed()], [true, true]);
    let third = both();
    assert_eq!((third.rule().map(Rule::name), third.retry_after()), (Some("bucket"), Some(SECOND)));
    let fourth = both();
    assert_eq!((fourth.allowed(), fourth.rule().map(Rule::name)), (false, Some("counts")));
    let hour = Nanos(3600 * SECOND.0);
    assert_eq!((fourth.remaining(), fourth.retry_after()), (0, Some(hour)));
    clock.advance(Nanos(hour.0 - 1));
    assert!(!both().allowed());
    // That one counts too: it is the last of four again.
    clock.advance(Nanos(1));
    assert!(both().allowed());
}

#[test]
fn a_bucket_that_is_asked_twice_is_waited_for_as_one() {
    let (limiter, _clock) = crate::limiter_of("token_bucket,rate=1/s,burst=2");
    let times = |count| -> Vec<Ask<'_>> { (0..count).map(|_| limiter.ask(0, "key", 1).unwrap()).collect() };
    assert!(limiter.check_each(&times(2)).allowed());
    assert_eq!(limiter.check_each(&times(2)).decision().retry_after(), Some(Nanos(2 * SECOND.0)));
    let never = limiter.check_each(&times(3));
    assert!(never.decision().never() && never.decision().retry_after().is_none());
}

fn any_limit() -> impl Strategy<Value = (String, bool)> {
    let options = ["token_bucket,burst=5", "token_bucket,refill=interval"];
    let algorithm = prop::sample::select(algorithms().chain(options).collect::<Vec<_>>());
    let per = prop::sample::select(vec!["s", "3s", "7s", "m"]);
    let observes = prop::sample::select(vec![false, false, false, true]);
    (algorithm, 1..8_u64, per, any::<bool>(), observes).prop_map(
        |(algorithm, amount, per, count_denied, observes)| {
            (format!("{algorithm},rate={amount}/{per},count_denied={count_denied}"), observes)
        },
    )
}

/// How a denied request waits.
#[derive(Clone, Copy, Debug)]
enum Patience {
    Exact,
    TooShort,
    None,
}

#[derive(Clone, Debug)]
struct Arrival {
    /// Which rules are asked, and costs.
    asks: Vec<(usize, u32)>,
    pause: u64,
    patience: Patience,
}

fn any_arrival() -> impl Strategy<Value = Arrival> {
    let cost = prop::sample::select(vec![0, 1, 1, 1, 2, 4]);
    let asks = prop::collection::vec((0..3_usize, cost), 1..5);
    let pause = prop_oneof![Just(0), Just(0), 0..2_000_000_000_u64];
    let patience =
        prop::sample::select(vec![Patience::Exact, Patience::TooShort, Patience::None, Patience::None]);
    (asks, pause, patience).prop_map(|(asks, pause, patience)| Arrival { asks, pause, patience })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn who_waits_as_told_passes_and_nobody_before(
        limits in prop::collection::vec(any_limit(), 3),
        arrivals in prop::collection::vec(any_arrival(), 1..40),
    ) {
        let rules = limits.iter().zip(["a", "b", "c"]).map(|((text, observes), name)| {
            if *observes { rule(name, text).observe() } else { rule(name, text) }
        });
        let (limiter, clock) = limiter(rules, 1000);
        for Arrival { asks, pause, patience } in &arrivals {
            clock.advance(Nanos(*pause));
            let asked: Vec<Ask<'_>> =
                asks.iter().map(|&(rule, cost)| limiter.ask(rule, "key", cost).unwrap()).collect();
            let outcome = limiter.check_each(&asked);
            if outcome.allowed() {
                continue;
            }
            let told = outcome.decision();
            prop_assert_eq!(told.never(), told.retry_after().is_none());
            let Some(wait) = told.retry_after() else {
                clock.advance(Nanos(1000 * SECOND.0));
                prop_assert!(!limiter.check_each(&asked).allowed(), "{limits:?} {asks:?} never passes");
                continue;
            };
            match patience {
                Patience::Exact => {
                    clock.advance(wait);
                    prop_assert!(limiter.check_each(&asked).allowed(), "{limits:?} {asks:?} is denied after {wait:?}");
                }
                Patience::TooShort if wait.0 > 0 => {
                    clock.advance(Nanos(wait.0 - 1));
                    prop_assert!(!limiter.check_each(&asked).allowed(), "{limits:?} {asks:?} passes before {wait:?}");
                }
                Patience::TooShort | Patience::None => {}
            }
        }
    }
}
