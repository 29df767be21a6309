//! What the servers do in a second, and how long an answer takes: `cargo xtask bench server`.
//!
//! Beside the same servers without a rule, which is what the stack itself can do, and beside throttlecrab-server. Each
//! server is a process of its own; this one asks, over connections that each wait for the answer before the next
//! question. All cases take turns, several times, and the median of each figure is shown.
#![expect(clippy::expect_used, reason = "a benchmark that can not go on has nothing to say")]

mod ask;
#[path = "../support/bound.rs"]
mod bound;
mod case;
mod memory;
mod process;

use std::{env, time::Duration};

use case::{Case, Figures};

/// How long each case is asked in each round, and how often.
const SECONDS: u64 = 3;
const ROUNDS: usize = 7;

fn main() {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = Duration::from_secs(number("BENCH_SECONDS").unwrap_or(SECONDS));
    let rounds = number("BENCH_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    let cases = case::all();
    let mut figures: Vec<Vec<Figures>> = cases.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (case, figures) in cases.iter().zip(&mut figures) {
            figures.push(case.run(seconds));
        }
    }
    println!("{:<34} {:>12} {:>9} {:>9} {:>9}", "case", "decisions/s", "p50 us", "p99 us", "p99.9 us");
    for (Case { name, .. }, figures) in cases.iter().zip(&figures) {
        let median = |of: fn(&Figures) -> f64| case::median(figures.iter().map(of).collect());
        println!(
            "{name:<34} {:>12.0} {:>9.0} {:>9.0} {:>9.0}",
            median(|figures| figures.a_second),
            median(|figures| figures.p50),
            median(|figures| figures.p99),
            median(|figures| figures.p999),
        );
    }
    memory::report();
}
