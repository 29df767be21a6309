//! Threads at full speed admit exactly the burst.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use ratelimit_limiter::{Limiter, clock::FakeClock};

use crate::{Numbers, limiter_of};

/// Each limit admits 1,000 units a week, by other means; the last counts more than half a word can.
const THOUSAND_A_WEEK: [&str; 7] = [
    "token_bucket,rate=1000/w",
    "token_bucket,rate=1/w,burst=50",
    "token_bucket,rate=1000/w,refill=interval",
    "leaky_bucket,rate=1000/w,on_limit=delay",
    "fixed_window,rate=1000/w",
    "sliding_window_counter,rate=1000/w",
    "sliding_window_log,rate=1000/w,count_denied=true",
];

const THREADS: u64 = 8;

/// How many of each thread's requests were admitted, all threads beginning at once.
fn admitted(requests: impl Fn(u64) -> u64 + Sync) -> u64 {
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        let run = |thread| {
            barrier.wait();
            requests(thread)
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

fn tries(limiter: &Limiter<FakeClock>, key: &str, count: u64, cost: u32) -> u64 {
    (0..count).filter(|_| limiter.check(key, cost).allowed()).count() as u64
}

#[test]
fn eight_threads_on_one_key_admit_exactly_the_burst() {
    for text in THOUSAND_A_WEEK {
        let (limiter, _clock) = limiter_of(text);
        let burst = limiter.check("other", 0).limit();
        assert_eq!(admitted(|_| tries(&limiter, "key", 2_000, 1)), burst, "{text}");
        let last = limiter.check("key", 1);
        assert!(!last.allowed() && last.remaining() == 0, "{text}: {last:?}");
    }
}

#[test]
fn a_counter_wider_than_a_word_is_exact_too() {
    let (limiter, _clock) = limiter_of("sliding_window_counter,rate=200000/s");
    assert_eq!(admitted(|_| tries(&limiter, "key", 30_000, 1)), 200_000);
}

#[test]
fn eight_threads_on_a_thousand_keys_admit_exactly_the_burst_of_each() {
    for text in THOUSAND_A_WEEK {
        let text = text.replace("1000", "10").replace("50", "10");
        let (limiter, _clock) = limiter_of(&text);
        let counts: Vec<AtomicU32> = (0..1_000).map(|_| AtomicU32::new(0)).collect();
        admitted(|thread| {
            let mut numbers = Numbers(thread + 1);
            for _ in 0..30_000 {
                let key = numbers.below(1_000);
                if limiter.check(&key, 1).allowed() {
                    counts[key as usize].fetch_add(1, Ordering::Relaxed);
                }
            }
            0
        });
        for (key, count) in counts.iter().enumerate() {
            assert_eq!(count.load(Ordering::Relaxed), 10, "{text}: key {key}");
        }
    }
}

#[test]
fn new_keys_claimed_by_two_threads_at_once_are_admitted_once() {
    const KEYS: usize = 100_000;
    const BATCH: usize = 50;
    let (limiter, _clock) = limiter_of("token_bucket,rate=1/w,burst=1");
    let counts: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    let barrier = Barrier::new(2);
    let claim_all = || {
        for first in (0..KEYS).step_by(BATCH) {
            barrier.wait();
            for key in first..first + BATCH {
                counts[key].fetch_add(limiter.check(&key, 1).allowed().into(), Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(claim_all);
        scope.spawn(claim_all);
    });
    let wrong = counts.iter().filter(|count| count.load(Ordering::Relaxed) != 1).count();
    assert_eq!(wrong, 0, "of {KEYS} keys");
    assert_eq!(limiter.store().live_evictions(), 0);
}
