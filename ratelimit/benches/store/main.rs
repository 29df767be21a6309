//! What decisions by a shared store cost: `cargo xtask bench store`.
//!
//! One Redis on this machine, one process that asks it, and 1, 50 or 500 clients, each of which waits for its answer
//! before it asks again. Beside the library and the daemon: the barest script that decides one request a call, asked by
//! redis-benchmark with a connection for each client, and by this process with one for all; what Envoy's service does,
//! INCRBY and EXPIRE; and the store in memory. All cases take turns, several times, and the median of each figure is
//! shown. Words choose cases: `library 50`.
#![expect(clippy::expect_used, reason = "a benchmark that can not go on has nothing to say")]

mod bare;
#[path = "../support/bound.rs"]
mod bound;
mod case;
mod daemon;

use std::{env, time::Duration};

use case::{Case, Figures, World};

/// How long each case is asked in each round, and how often.
const SECONDS: u64 = 3;
const ROUNDS: usize = 5;

fn main() {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = Duration::from_secs(number("BENCH_SECONDS").unwrap_or(SECONDS));
    let rounds = number("BENCH_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    let wanted: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let cases: Vec<Case> =
        Case::all().into_iter().filter(|case| wanted.iter().all(|word| case.is(word))).collect();
    let world = World::start();
    let mut figures: Vec<Vec<Figures>> = cases.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (case, figures) in cases.iter().zip(&mut figures) {
            figures.extend(case.run(&world, seconds));
        }
    }
    println!(
        "{:<40} {:>8} {:>12} {:>8} {:>8} {:>9} {:>13} {:>11} {:>7}",
        "case",
        "clients",
        "decisions/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "store CPU us",
        "own CPU us",
        "a call"
    );
    for (case, figures) in cases.iter().zip(&figures) {
        let median = |of: fn(&Figures) -> f64| {
            let mut values: Vec<f64> = figures.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
        };
        println!(
            "{:<40} {:>8} {:>12.0} {:>8.0} {:>8.0} {:>9.0} {:>13.1} {:>11.1} {:>7.1}",
            case.way.name(),
            case.clients,
            median(|figures| figures.a_second),
            median(|figures| figures.p50),
            median(|figures| figures.p99),
            median(|figures| figures.p999),
            median(|figures| figures.store),
            median(|figures| figures.own),
            median(|figures| figures.a_call),
        );
    }
}
