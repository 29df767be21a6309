//! What a proxy costs: `cargo xtask bench proxy`.
//!
//! One server of others answers; before it stand, in turns, nothing, this project's proxy with a limit and without one,
//! nginx with `limit_req`, HAProxy with a stick table, and a proxy of nothing but hyper. Each is a process of its own,
//! and all are asked by h2load, over HTTP/1.1 and over HTTP/2; servers behind are asked over HTTP/1.1. Two figures come
//! of separate runs: what a proxy does at most, with its processor time for a request, and how long an answer takes at
//! a rate that all bear. All cases take turns, every other round backwards, and the median of each figure is shown.
#![expect(clippy::expect_used, clippy::panic, reason = "a benchmark that can not go on has nothing to say")]

mod bare;
mod case;
mod load;
mod process;
mod report;

use std::{env, time::Duration};

/// How long each run of a case takes, and how often there is one of each.
const SECONDS: u64 = 3;
const ROUNDS: usize = 7;

fn main() {
    if let Some(addresses) = env::var_os(bare::VARIABLE) {
        return bare::run(&addresses.into_string().expect("addresses"));
    }
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let time = Duration::from_secs(number("BENCH_SECONDS").unwrap_or(SECONDS));
    let rounds = number("BENCH_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    let cases = case::all();
    let mut figures: Vec<Vec<case::Figures>> = cases.iter().map(|_| Vec::new()).collect();
    for case in &cases {
        case.warm_up();
    }
    for round in 0..rounds {
        let mut turns: Vec<usize> = (0..cases.len()).collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for turn in turns {
            figures[turn].push(cases[turn].run(time));
        }
    }
    report::print(&cases, &figures);
}
