//! How often the sliding window counter decides differently from the log, and by how much at worst:
//! `cargo xtask bench counter`.
//!
//! Only the algorithms' pure functions decide, on times that are made up, so the figures are the same on every machine
//! whose logarithm rounds alike. The same code on less traffic, and the worst cases exactly, are in
//! `ratelimit-common/tests/counter.rs`.
#![expect(clippy::expect_used, reason = "a benchmark that can not go on has nothing to say")]

#[path = "../../../ratelimit-common/tests/support/bucket.rs"]
#[expect(dead_code, reason = "nothing is taken back or forgotten here")]
mod bucket;
mod population;
#[path = "../../../ratelimit-common/tests/support/rivals.rs"]
mod rivals;
#[path = "../../../ratelimit-common/tests/support/traffic.rs"]
mod traffic;
#[path = "../../../ratelimit-common/tests/support/worst.rs"]
mod worst;

use std::num::NonZeroU64;

use population::{CLASSES, Population, Report, WINDOW};
use ratelimit_common::time::Nanos;
use rivals::{Counting, Pair, Tally};
use traffic::Shape;
use worst::Outcome;

const AMOUNTS: [u64; 3] = [10, 100, 1_000];

/// Bursts of a tenth of a window, in which a source is ten times as fast as on average.
const BURSTS: Shape = Shape::Bursts { on: Nanos(WINDOW.0 / 10), off: Nanos(WINDOW.0 / 10 * 9) };

fn main() {
    traffic();
    worst();
}

fn traffic() {
    println!("{EXPLANATION}");
    for (name, shape) in [("Poisson", Shape::Poisson), ("bursts", BURSTS)] {
        for amount in AMOUNTS {
            let population = Population { amount: NonZeroU64::new(amount).expect("not zero"), shape };
            show(name, amount, &population.run().expect("a limit"));
        }
    }
}

const EXPLANATION: &str = "\
The sliding window counter against the log, on the same arrivals. The source of rank k sends 1,000 / k of the
limit on average (Zipf), so one in 110 sources is above it. In bursts, a source is on for 6 s and off for 54 s
on average. Wrongly allowed / wrongly denied: the counter allowed what the log denied, and the reverse, in per
cent of the row's requests, where
  own      each has counted what it admitted itself: two limiters side by side;
  same     both have counted what the counter admitted: each of its decisions beside the exact one;
  all      both have counted all requests (count_denied), which comes closest to how others measured
           0.003 % on real traffic (400 M requests of 270,000 sources).";

fn show(name: &str, amount: u64, report: &Report) {
    assert!(report.sources >= 100_000 && report.total().requests >= 10_000_000, "too little traffic");
    println!(
        "\n{name}, {amount} a minute: {} requests of {} sources in {} minutes",
        grouped(report.total().requests),
        grouped(report.sources),
        report.windows
    );
    println!(
        "{:<22}{:>12}{:>8}{:>9}{:>19}{:>19}{:>19}",
        "mean rate of source", "requests", "log", "counter", "own", "same", "all"
    );
    for (class, tally) in CLASSES.iter().zip(&report.tallies) {
        row(class.name, tally);
    }
    row("all sources", &report.total());
}

fn row(name: &str, tally: &Tally) {
    let share = |part: u64| part as f64 * 100.0 / tally.requests as f64;
    let [own, same, all] = Counting::EACH.map(|counting| {
        format!("{:.4} / {:.4}", share(tally[counting].allowed), share(tally[counting].denied))
    });
    println!(
        "{name:<22}{:>12}{:>7.2}%{:>8.2}%{own:>19}{same:>19}{all:>19}",
        grouped(tally.requests),
        share(tally.log_allowed),
        share(tally.counter_allowed)
    );
}

/// Each figure is measured by running the arrivals, and has to be what the formula says.
fn worst() {
    println!(
        "\n{FORMULAS}\n{:>6}  {:<38}denied, for t = 0, W/4, W/2, 3W/4",
        "N", "admitted, for d = W/4, W/2, 3W/4, W"
    );
    for amount in [1, 10, 100, 1_000, 10_000] {
        let Pair { counter, .. } = pair(amount);
        let admitted = [1, 2, 3, 4].map(|quarters| {
            let length = WINDOW.0 / 4 * quarters;
            let most = Outcome::of(&counter, &worst::crowded(&counter, length)).most_in(length);
            assert_eq!(most, worst::most_in(&counter, length), "{amount} a minute");
            grouped(most)
        });
        let denied = [0, 1, 2, 3].map(|quarters| {
            let into = WINDOW.0 / 4 * quarters;
            let denied = Outcome::of(&counter, &worst::early(&counter, into)).denied;
            assert_eq!(denied, worst::denied_after(&counter, into), "{amount} a minute");
            grouped(denied)
        });
        println!("{amount:>6}  {:<38}{}", admitted.join(", "), denied.join(", "));
    }
    good_clients();
}

const FORMULAS: &str = "\
The worst by construction, for N in W = 60 s. The most admitted in any d nanoseconds is N + ceil(N (d - 2) / W),
where the log admits N: N in the last nanosecond of a window, and what is then let through within d. If N
requests come at t = 0, W/4, W/2 or 3W/4 into a window, after N at the first instant of the one before,
floor(N (W - t) / W) of them are denied, where the log denies none.";

/// Clients that never send more than the limit allows.
fn good_clients() {
    const WINDOWS: u64 = 1_000;
    let Pair { counter, log } = pair(100);
    for (name, arrivals) in [
        ("100 at the start of every minute", worst::recurrent(&counter, WINDOWS)),
        ("one each 0.6 s from the start of a minute on", worst::steady(&counter, WINDOWS)),
    ] {
        println!(
            "100 a minute; {name}, {WINDOWS} minutes: the counter denies {}, the log {}, of {}",
            grouped(Outcome::of(&counter, &arrivals).denied),
            grouped(Outcome::of(&log, &arrivals).denied),
            grouped(arrivals.iter().map(|(_, count)| count).sum())
        );
    }
}

fn pair(amount: u64) -> Pair {
    Pair::new(NonZeroU64::new(amount).expect("not zero"), WINDOW, false).expect("a limit")
}

/// A number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}
