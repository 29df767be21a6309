//! Keys that are exhausted are denied without asking the store, for a second at most.

use super::*;

#[test]
fn a_flood_against_a_limit_asks_the_store_once_a_second() {
    let (bank, a, _, [clock, _]) = two_daemons(2);
    let asked = |requests: usize| {
        let before = bank.asked();
        let denied = (0..requests).filter(|_| !passes(&a, &["user=x"])).count();
        (denied, bank.asked() - before)
    };
    assert_eq!(asked(2), (0, 2));
    assert_eq!(asked(1_000), (1_000, 1));
    clock.advance(Nanos(SECOND / 2));
    assert_eq!(asked(1_000), (1_000, 0));
    // What was denied counts, and is sent on in batches.
    assert!(bank.vault(|vault| vault.later.iter().sum::<u32>()) >= 999);
    clock.advance(Nanos(SECOND / 2 + 1));
    assert_eq!(asked(1_000), (1_000, 1));
    a.flush();
    let used: u64 = bank.vault(|vault| vault.later.iter().map(|cost| u64::from(*cost)).sum());
    assert_eq!(used, 3_000 - 2, "all but the two that the store has answered");
}

#[test]
fn a_refund_elsewhere_shows_within_a_second() {
    let (_, a, b, [clock, _]) = two_daemons(2);
    assert_eq!((0..4).filter(|_| passes(&a, &["user=x"])).count(), 2);
    a.flush();
    let mut back = asking(&["user=x"]);
    back.descriptors[0].is_negative_hits = true;
    back.descriptors[0].hits_addend = Some(3);
    ask(&b, &back);
    assert!(passes(&b, &["user=x"]) && !passes(&a, &["user=x"]));
    clock.advance(Nanos(SECOND + 1));
    ask(&b, &back);
    assert!(passes(&a, &["user=x"]));
}

#[test]
fn a_limit_that_is_raised_counts_at_once() {
    let (_, a, ..) = two_daemons(2);
    assert_eq!((0..4).filter(|_| passes(&a, &["user=x"])).count(), 2);
    a.reload(&policy(vec![rule("user", RequestRate::window(100, MINUTE).unwrap())])).unwrap();
    assert!(passes(&a, &["user=x"]));
}

#[test]
fn a_window_that_has_room_is_charged_at_once_though_another_denies() {
    let bank = Bank::new();
    let window = |key, requests| rule(key, RequestRate::window(requests, MINUTE).unwrap());
    let policy = policy(vec![window("full", 1), window("open", 10)]);
    let clock = FakeClock::new(START);
    let (a, b) = (daemon(&policy, &bank, &clock), daemon(&policy, &bank, &clock));
    let passed = (0..30).filter(|_| passes(&a, &["full=x", "open=x"])).count();
    assert_eq!((passed, passes(&b, &["open=x"])), (1, false), "each of the thirty was charged to both");
}

#[test]
fn buckets_of_other_algorithms_are_remembered_too_and_open_in_time() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindowLog, Algorithm::SlidingWindowCounter] {
        let (bank, clock) = (Bank::new(), FakeClock::new(START));
        bank.vault(|vault| vault.clock = clock.clone());
        let a =
            daemon(&policy(vec![rule("user", rate(algorithm, 600, RateOptions::default()))]), &bank, &clock);
        let passed = (0..1_000).filter(|_| passes(&a, &["user=x"])).count();
        assert_eq!(passed, 600, "{algorithm:?}");
        if algorithm == Algorithm::TokenBucket {
            assert_eq!(bank.asked(), 601);
            // A token comes each tenth of a second, by the time that has passed since the store was asked.
            clock.advance(Nanos(SECOND / 10));
            assert!(passes(&a, &["user=x"]) && !passes(&a, &["user=x"]));
        }
    }
}

#[test]
fn what_is_remembered_is_bounded_and_nothing_is_remembered_of_none() {
    let (bank, a, ..) = two_daemons(1);
    let a = a.remembering(16);
    for user in 0..1_000 {
        assert!(passes(&a, &[&format!("user={user}")]));
        assert!(!passes(&a, &[&format!("user={user}")]));
    }
    let kept = a.in_force().context().1.unwrap().exhausted.kept();
    assert!((1..=16).contains(&kept), "{kept}");
    let before = bank.asked();
    let b = a.remembering(0);
    assert!((0..10).all(|_| !passes(&b, &["user=1"])));
    assert_eq!(bank.asked() - before, 10);
}
