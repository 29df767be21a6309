//! What a decision costs in a process, and what a key takes, beside governor's keyed limiter: `cargo xtask bench table`.
//!
//! The time is passed in for both. All cases take turns, several times; the median of each is shown. Memory is measured in
//! processes of its own, as what the resident set grows by.
#![expect(clippy::expect_used, reason = "a benchmark that can not go on has nothing to say")]

use std::{
    env, fs,
    hint::black_box,
    num::{NonZeroU32, NonZeroU64},
    process::Command,
    thread,
    time::Instant,
};

use governor::{Quota, RateLimiter, clock::FakeRelativeClock};
use ratelimit::{
    clock::FakeClock,
    limiter::{Limiter, Rule},
};
use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Rate},
    time::Nanos,
};

const ROUNDS: usize = 9;
const DECISIONS: u64 = 2_000_000;
const KEYS: u64 = 100_000;
const MANY_KEYS: u64 = 1_000_000;

type Governor = RateLimiter<
    u64,
    governor::state::keyed::DefaultKeyedStateStore<u64>,
    FakeRelativeClock,
    governor::middleware::NoOpMiddleware<governor::nanos::Nanos>,
>;

fn main() {
    match env::args().nth(1).as_deref() {
        Some("memory-ratelimit") => return print_growth(ours, fill_ours),
        Some("memory-governor") => return print_growth(governor, fill_governor),
        _ => {}
    }
    speed();
    for (name, case) in [("ratelimit", "memory-ratelimit"), ("governor", "memory-governor")] {
        println!(
            "{:<44} {:>6.1} bytes a key at {MANY_KEYS} keys",
            name,
            growth_of(case) as f64 / MANY_KEYS as f64
        );
    }
}

fn ours() -> Limiter<FakeClock> {
    let rate = Rate { amount: NonZeroU64::new(1_000_000).expect("not zero"), per: Nanos::SECOND };
    let rule = Rule::new("bench", LimitSpec::new(Algorithm::TokenBucket, rate));
    Limiter::builder().rule(rule).clock(FakeClock::new(Nanos::SECOND)).build().expect("a limiter")
}

fn governor() -> Governor {
    let quota = Quota::per_second(NonZeroU32::new(1_000_000).expect("not zero"));
    RateLimiter::new(
        quota,
        governor::state::keyed::DefaultKeyedStateStore::default(),
        FakeRelativeClock::default(),
    )
}

/// Nanoseconds a decision with `threads` threads at once, each on keys of its own or all on one key.
fn measure(threads: u64, keys: u64, decide: &(impl Fn(u64) -> bool + Sync)) -> f64 {
    let start = Instant::now();
    thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || {
                let mut allowed = 0_u64;
                let mut key = number;
                for _ in 0..DECISIONS {
                    // A walk over all keys in an order that no prefetcher knows.
                    key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let own = (key >> 33) % keys * threads + number;
                    allowed += u64::from(decide(black_box(if keys == 1 { 0 } else { own })));
                }
                black_box(allowed);
            });
        }
    });
    start.elapsed().as_nanos() as f64 / DECISIONS as f64
}

fn speed() {
    let (ours, theirs) = (ours(), governor());
    let decide_ours = |key: u64| ours.check_at(&key, 1, Nanos::SECOND).allowed();
    let decide_theirs = |key: u64| theirs.check_key(&key).is_ok();
    let mut times = vec![Vec::new(); 6];
    for _ in 0..ROUNDS {
        for (index, (threads, keys)) in [(1, KEYS), (2, KEYS), (2, 1)].into_iter().enumerate() {
            times[2 * index].push(measure(threads, keys, &decide_ours));
            times[2 * index + 1].push(measure(threads, keys, &decide_theirs));
        }
    }
    println!("median of {ROUNDS} rounds of {DECISIONS} decisions a thread; the same time for all");
    for (index, case) in
        ["1 thread, 100,000 keys", "2 threads, 100,000 keys each", "2 threads, one key"].iter().enumerate()
    {
        for (offset, name) in ["ratelimit", "governor"].iter().enumerate() {
            let times = &mut times[2 * index + offset];
            times.sort_by(f64::total_cmp);
            println!(
                "{:<44} {:>6.1} ns a decision of each thread",
                format!("{name}, {case}"),
                times[ROUNDS / 2]
            );
        }
    }
}

fn fill_ours(limiter: &Limiter<FakeClock>) {
    for key in 0..MANY_KEYS {
        black_box(limiter.check_at(&key, 1, Nanos::SECOND).allowed());
    }
}

fn fill_governor(limiter: &Governor) {
    for key in 0..MANY_KEYS {
        black_box(limiter.check_key(&key).is_ok());
    }
}

/// What the resident set grows by while the limiter is made and filled; it lives until that is read.
fn print_growth<L>(make: impl FnOnce() -> L, fill: impl FnOnce(&L)) {
    let before = resident();
    let limiter = make();
    fill(&limiter);
    println!("{}", resident().saturating_sub(before));
}

fn growth_of(case: &str) -> u64 {
    let itself = env::current_exe().expect("a path");
    let output = Command::new(itself).arg(case).output().expect("a run of its own");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number of bytes")
}

/// The resident set in bytes.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
    pages * 4096
}
