//! What a packet costs in the XDP program, by BPF_PROG_TEST_RUN: `cargo xtask bench xdp`, as root.
//!
//! All cases take turns, several times; the median of each is shown. A case with many sources draws one at random for each
//! packet, so it is compared with a program that reads the clock and draws a number.
#![expect(clippy::expect_used, reason = "a benchmark that can not go on has nothing to say")]

mod reference;

use std::num::NonZeroU64;

use ratelimit::{
    compile::{Compiled, TableFacts, compile},
    dataplane::Generation,
    policy::{Action, AllowList, Interfaces, Key, Network, OnExit, PacketLimit, Rule, Rules, TableSize},
};
use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Rate, Refill},
    table::Secret,
    time::Nanos,
};

use reference::{CLOCK, RANDOM, Reference};

const ROUNDS: usize = 7;
const REPEAT: u32 = 2_000_000;

/// Runs a program on a frame and says the average nanoseconds.
type Run = Box<dyn FnMut(&[u8]) -> u64>;

/// Something to measure.
struct Case {
    name: String,
    run: Run,
    times: Vec<u64>,
}

fn main() {
    let mut cases = references();
    for (name, algorithm, refill) in ALGORITHMS {
        for sources in [1, 1_000, 100_000, 1_000_000, 10_000_000] {
            cases.push(case(name, algorithm, refill, sources));
        }
    }
    if let Some(wanted) = std::env::args().nth(1).filter(|argument| argument != "--bench") {
        cases.retain(|case| !case.name.contains("source") || case.name.contains(&wanted));
    }
    let frame = udp_frame();
    for _ in 0..ROUNDS {
        for case in &mut cases {
            case.times.push((case.run)(&frame));
        }
    }
    println!(
        "median of {ROUNDS} rounds of {REPEAT} packets, 64 bytes, IPv4, admitted; table of 1,048,576 buckets"
    );
    for case in &mut cases {
        case.times.sort_unstable();
        println!("{:<44} {:>4} ns", case.name, case.times[ROUNDS / 2]);
    }
}

const ALGORITHMS: [(&str, Algorithm, Refill); 4] = [
    ("token bucket", Algorithm::TokenBucket, Refill::Continuous),
    ("token bucket, refilled by interval", Algorithm::TokenBucket, Refill::Interval),
    ("fixed window", Algorithm::FixedWindow, Refill::Continuous),
    ("sliding window counter", Algorithm::SlidingWindowCounter, Refill::Continuous),
];

fn references() -> Vec<Case> {
    let programs =
        [("empty program", &[][..]), ("clock", &[CLOCK]), ("clock and random number", &[CLOCK, RANDOM])];
    let case = |(name, helpers): (&str, &[i32])| {
        let program = Reference::load(helpers).expect("loading needs root");
        Case {
            name: name.to_owned(),
            run: Box::new(move |frame| program.run(frame, REPEAT).expect("a test run")),
            times: Vec::new(),
        }
    };
    programs.map(case).into()
}

fn case(name: &str, algorithm: Algorithm, refill: Refill, sources: u32) -> Case {
    let mut compiled = compiled(algorithm, refill);
    compiled.globals.random_sources = if sources == 1 { 0 } else { sources };
    let generation = Generation::load_alone(&compiled, false).expect("loading needs root");
    Case {
        name: format!("{name}, {sources} source{}", if sources == 1 { "" } else { "s" }),
        run: Box::new(move |frame| generation.judge(frame, REPEAT).expect("a test run").time.0),
        times: Vec::new(),
    }
}

/// One rule that admits every packet: the dearer case, because it changes the bucket.
fn compiled(algorithm: Algorithm, refill: Refill) -> Compiled {
    let amount = if algorithm == Algorithm::SlidingWindowCounter { 250_000 } else { 100_000_000 };
    let rate = Rate { amount: NonZeroU64::new(amount).expect("not zero"), per: Nanos::SECOND };
    let rule = Rule {
        name: "bench".parse().expect("a name"),
        key: Key::default(),
        limit: PacketLimit::new(LimitSpec { refill, ..LimitSpec::new(algorithm, rate) }).expect("a limit"),
        action: Action::Drop,
    };
    let network = Network {
        interfaces: Interfaces::default(),
        allow: AllowList::default(),
        table: TableSize::default(),
        on_exit: OnExit::Detach,
        rules: Rules::new(vec![rule]).expect("one rule"),
    };
    let facts = TableFacts {
        made_at: Nanos(0),
        made_at_unix: Nanos(0),
        secret: Secret::new([
            0x243f_6a88_85a3_08d3,
            0x1319_8a2e_0370_7344,
            0xa409_3822_299f_31d0,
            0x082e_fa98_ec4e_6c89,
        ]),
        sets: network.table.slots() / 8,
    };
    compile(&network, &facts, &[1])
}

fn udp_frame() -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[17] = 50;
    frame[23] = 17;
    frame[26..30].copy_from_slice(&[192, 0, 2, 1]);
    frame[30..34].copy_from_slice(&[198, 51, 100, 1]);
    frame
}
