//! Two processors at once: what they admit together is what one would.

use std::{
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU64,
    sync::{
        Barrier,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use ratelimit::dataplane::ProgramGeneration;
use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Rate, Refill},
    time::Nanos,
};

use crate::{
    frames, net,
    offline::{self, Made},
};

const WEEK: Nanos = Nanos(7 * 86_400 * 1_000_000_000);
const MADE: Made = Made { monotonic: Nanos(1_000_000_000_000), unix: Nanos(1_700_000_000_000_000_000) };
const AMOUNT: u64 = 20_000;

fn weekly(algorithm: Algorithm, amount: u64) -> LimitSpec {
    LimitSpec::new(algorithm, Rate { amount: NonZeroU64::new(amount).unwrap(), per: WEEK })
}

/// A bucket that holds `burst`, of which none comes back: the clock stands still.
fn bucket(burst: u64) -> LimitSpec {
    weekly(Algorithm::TokenBucket, burst)
}

/// Runs the same on two processors at once, which the machine must have.
fn on_two(what: impl Fn(usize) + Sync) {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let processors: Vec<usize> = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap()).collect();
    assert!(processors.len() > 1, "this needs two processors");
    let start = Barrier::new(2);
    let (start, what) = (&start, &what);
    thread::scope(|scope| {
        for (me, &processor) in processors.iter().take(2).enumerate() {
            scope.spawn(move || {
                let mut only = CpuSet::new();
                only.set(processor).unwrap();
                sched_setaffinity(Pid::from_raw(0), &only).unwrap();
                start.wait();
                what(me);
            });
        }
    });
}

#[test]
fn one_source_on_two_processors_is_admitted_exactly_the_amount() {
    net::isolated(|| {
        let interval = LimitSpec { refill: Refill::Interval, ..weekly(Algorithm::TokenBucket, AMOUNT) };
        let limits = [
            bucket(AMOUNT),
            interval,
            weekly(Algorithm::LeakyBucket, AMOUNT),
            weekly(Algorithm::FixedWindow, AMOUNT),
            LimitSpec { count_denied: true, ..weekly(Algorithm::FixedWindow, AMOUNT) },
            weekly(Algorithm::SlidingWindowCounter, AMOUNT),
        ];
        for limit in limits {
            one_source(&[limit]);
            one_source(&[bucket(AMOUNT + 5000), limit]);
        }
    });
}

/// The last of the limits is the one that denies.
fn one_source(limits: &[LimitSpec]) {
    let generation = offline::load(limits, 1 << 15, MADE);
    let frame = frames::udp("192.0.2.1".parse().unwrap());
    on_two(|_| {
        // Slices, so that a processor that begins late still meets the other.
        for _ in 0..100 {
            generation.judge(&frame, 1000).unwrap();
        }
    });
    let [passed, dropped, _] = generation.rule_counts(limits.len() as u32).unwrap();
    let name = limits.last().unwrap().algorithm.name();
    println!("{name}: {passed:?} of {}", passed.packets + dropped.packets);
    assert_eq!(passed.packets, AMOUNT, "{name}, {} rules", limits.len());
    assert!(!generation.judge(&frame, 1).unwrap().passed);
}

#[test]
fn new_sources_claimed_by_two_processors_at_once_get_one_bucket_each() {
    net::isolated(|| {
        let generation = offline::load(&[bucket(1)], 1 << 20, MADE);
        claim_in_step(&generation, 100_000);
        let [passed, dropped, _] = generation.rule_counts(1).unwrap();
        assert_eq!((passed.packets, dropped.packets), (100_000, 100_000));
    });
}

/// Both processors claim each source at about the same time.
fn claim_in_step(generation: &ProgramGeneration, sources: u32) {
    let progress = [AtomicU32::new(0), AtomicU32::new(0)];
    on_two(|me| {
        for source in 0..sources {
            progress[me].store(source, Ordering::Release);
            while progress[1 - me].load(Ordering::Acquire) < source {
                std::hint::spin_loop();
            }
            let frame = frames::udp(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + source)));
            generation.judge(&frame, 1).unwrap();
        }
        progress[me].store(u32::MAX, Ordering::Release);
    });
}
