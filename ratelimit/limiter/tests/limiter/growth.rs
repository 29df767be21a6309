//! A table that grows loses no bucket and no charge.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
};

use ratelimit_common::{algorithm, limit::StateStorage, time::Now};
use ratelimit_limiter::Nanos;

use crate::{Numbers, START, limit, limiter_of, stops::StopsAtEnd};

#[test]
fn decisions_are_those_of_the_algorithm_while_the_table_grows() {
    let text = "token_bucket,rate=20/s,burst=5";
    let (limiter, clock) = limiter_of(text);
    let rule = limit(text).build(StateStorage::UserSpace).unwrap();
    let mut model: HashMap<u64, u64> = HashMap::new();
    let mut numbers = Numbers(42);
    for step in 0..400_000_u64 {
        // Half of the requests are of keys that came before.
        let key = if step % 2 == 0 { step } else { numbers.below(step) / 2 * 2 };
        let now = Now(Nanos(step * 1_000));
        clock.set(Nanos(START.0 + now.0.0));
        let state = model.entry(key).or_insert(algorithm::fresh(now));
        let (expected, after) = algorithm::decide(&rule, *state, now, 1);
        *state = after;
        let decision = limiter.check(&key, 1);
        assert_eq!(
            (decision.allowed(), decision.remaining(), decision.retry_after()),
            (expected.allowed, expected.remaining(), expected.retry_after()),
            "step {step}, key {key}"
        );
    }
    assert!(limiter.store().table_bytes() > 512 * 1024, "it did not grow");
    assert_eq!(limiter.store().live_evictions(), 0);
}

/// Keys that are charged all the time, each of which may be admitted this often.
const OLD: u64 = 5_000;
const BURST: u32 = 40;

#[test]
fn a_million_keys_come_while_others_are_charged() {
    const NEW: u64 = 1_000_000;
    let (limiter, _clock) = limiter_of("fixed_window,rate=40/w");
    let (is_over, old) = (AtomicBool::new(false), counts(OLD));
    let charge_old = |seed| {
        let mut numbers = Numbers(seed);
        while !is_over.load(Ordering::Relaxed) {
            let key = numbers.below(OLD);
            // Few of their units, so that there are some left until the end.
            if numbers.below(16) == 0 && limiter.check(&key, 1).allowed() {
                old[key as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let new = counts(NEW);
    thread::scope(|scope| {
        let _at_end = StopsAtEnd(&is_over);
        let charge_old = &charge_old;
        for seed in 1..=2 {
            scope.spawn(move || charge_old(seed));
        }
        let (limiter, new) = (&limiter, &new);
        // Each new key is another thread's too, a little later.
        let insert = move |quarter: u64| {
            for step in 0..NEW / 2 {
                let key = (quarter * NEW / 4 + step) % NEW;
                let cost = BURST / 2 + 1;
                if limiter.check(&(OLD + key), cost).allowed() {
                    new[key as usize].fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let threads: Vec<_> = (0..4).map(|quarter| scope.spawn(move || insert(quarter))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    for (key, count) in old.iter().enumerate() {
        let rest = (0..=BURST).filter(|_| limiter.check(&(key as u64), 1).allowed()).count() as u32;
        assert_eq!(count.load(Ordering::Relaxed) + rest, BURST, "old key {key}");
    }
    for (key, count) in new.iter().enumerate() {
        let remaining = limiter.check(&(OLD + key as u64), 0).remaining();
        assert_eq!(
            (count.load(Ordering::Relaxed), remaining),
            (1, u64::from(BURST / 2 - 1)),
            "new key {key}"
        );
    }
    assert_eq!(limiter.store().live_evictions(), 0);
}

fn counts(keys: u64) -> Vec<AtomicU32> {
    (0..keys).map(|_| AtomicU32::new(0)).collect()
}
