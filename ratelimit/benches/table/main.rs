//! What a decision costs in a process, and what a key takes, beside governor and throttlecrab: `cargo xtask bench
//! table`.
//!
//! The time is passed in for all. throttlecrab takes texts as keys, so there is a case of texts, made beforehand; it
//! also needs a lock, which one thread never waits for. All cases take turns, several times; the median of each is
//! shown. Memory is measured in processes of its own, as what the resident set grows by.
#![expect(clippy::expect_used, reason = "a benchmark that can not go on has nothing to say")]

use std::{
    env, fs,
    hint::black_box,
    num::{NonZeroU32, NonZeroU64},
    process::Command,
    sync::Mutex,
    thread,
    time::{Duration, Instant, SystemTime},
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
use throttlecrab::AdaptiveStore;

const ROUNDS: usize = 9;
const DECISIONS: u64 = 2_000_000;
const KEYS: u64 = 100_000;
const MANY_KEYS: u64 = 1_000_000;
/// What each limiter lets through in a second, and at once.
const A_SECOND: u32 = 1_000_000;

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
        Some("memory-throttlecrab") => {
            return print_growth(|| Throttlecrab::new(MANY_KEYS), fill_throttlecrab);
        }
        _ => {}
    }
    speed();
    for name in ["ratelimit", "governor", "throttlecrab"] {
        println!(
            "{name:<44} {:>6.1} bytes a key at {MANY_KEYS} keys",
            growth_of(&format!("memory-{name}")) as f64 / MANY_KEYS as f64
        );
    }
}

fn ours() -> Limiter<FakeClock> {
    let rate = Rate { amount: NonZeroU64::new(A_SECOND.into()).expect("not zero"), per: Nanos::SECOND };
    let rule = Rule::new("bench", LimitSpec::new(Algorithm::TokenBucket, rate));
    Limiter::builder().rule(rule).clock(FakeClock::new(Nanos::SECOND)).build().expect("a limiter")
}

fn governor() -> Governor {
    let quota = Quota::per_second(NonZeroU32::new(A_SECOND).expect("not zero"));
    RateLimiter::new(
        quota,
        governor::state::keyed::DefaultKeyedStateStore::default(),
        FakeRelativeClock::default(),
    )
}

/// throttlecrab's limiter, which decides with `&mut self`, and the time that all its decisions are made at.
struct Throttlecrab {
    limiter: Mutex<throttlecrab::RateLimiter<AdaptiveStore>>,
    now: SystemTime,
}

impl Throttlecrab {
    /// With room for so many keys: while its store is nearly full, each decision goes through all of them.
    fn new(keys: u64) -> Self {
        let store = AdaptiveStore::with_capacity(keys as usize);
        let limiter = Mutex::new(throttlecrab::RateLimiter::new(store));
        Self { limiter, now: SystemTime::UNIX_EPOCH + Duration::from_secs(1) }
    }

    fn check(&self, key: &str) -> bool {
        let (burst, a_second) = (A_SECOND.into(), A_SECOND.into());
        let mut limiter = self.limiter.lock().expect("no panic");
        limiter.rate_limit(key, burst, a_second, 1, 1, self.now).expect("a valid limit").0
    }
}

/// The text of a key, for limiters that take texts.
fn text_of(key: u64) -> String {
    format!("client-{key}")
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
    let (ours, governor, throttlecrab) = (ours(), governor(), Throttlecrab::new(KEYS));
    let texts: Vec<String> = (0..KEYS).map(text_of).collect();
    let of_numbers = [
        ("1 thread, 100,000 keys", 1, KEYS),
        ("2 threads, 100,000 keys each", 2, KEYS),
        ("2 threads, one key", 2, 1),
    ];
    let mut cases = Cases::default();
    for _ in 0..ROUNDS {
        for (case, threads, keys) in of_numbers {
            let by_ours = |key: u64| ours.check_at(&key, 1, Nanos::SECOND).allowed();
            cases.add(case, "ratelimit", measure(threads, keys, &by_ours));
            cases.add(case, "governor", measure(threads, keys, &|key| governor.check_key(&key).is_ok()));
        }
        let by_ours = |key: u64| ours.check_at(texts[key as usize].as_str(), 1, Nanos::SECOND).allowed();
        cases.add("1 thread, 100,000 texts", "ratelimit", measure(1, KEYS, &by_ours));
        let by_theirs = |key: u64| throttlecrab.check(&texts[key as usize]);
        cases.add("1 thread, 100,000 texts", "throttlecrab", measure(1, KEYS, &by_theirs));
    }
    println!("median of {ROUNDS} rounds of {DECISIONS} decisions a thread; the same time for all");
    cases.print();
}

/// What was measured of each case, in the order in which they came first.
#[derive(Default)]
struct Cases(Vec<(String, Vec<f64>)>);

impl Cases {
    fn add(&mut self, case: &str, limiter: &str, time: f64) {
        let name = format!("{limiter}, {case}");
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, times)) => times.push(time),
            None => self.0.push((name, vec![time])),
        }
    }

    fn print(self) {
        for (name, mut times) in self.0 {
            times.sort_by(f64::total_cmp);
            println!("{name:<44} {:>6.1} ns a decision of each thread", times[times.len() / 2]);
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

fn fill_throttlecrab(limiter: &Throttlecrab) {
    for key in 0..MANY_KEYS {
        black_box(limiter.check(&text_of(key)));
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
