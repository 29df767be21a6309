//! What a packet costs in the XDP program, by BPF_PROG_TEST_RUN: `cargo xtask bench xdp`, as root.
//!
//! All cases take turns, several times; the median of each is shown. A case with many sources draws one at random for each
//! packet, so it is compared with a program that reads the clock and draws a number.
#![expect(clippy::expect_used, reason = "a benchmark that can not go on has nothing to say")]

#[path = "../support/bpf.rs"]
mod bpf;
mod frames;
mod lists;
mod reference;

use std::num::NonZeroU64;

use ratelimit::{
    compile::{Compiled, TableFacts, compile},
    dataplane::Generation,
    policy::{
        Action, Interfaces, Key, Match, Network, OnExit, OnMalformed, PacketLimit, PrefixList, Rule, Rules,
        TableSize, Unit,
    },
};
use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Rate, Refill},
    table::Secret,
    time::Nanos,
};

use bpf::{CLOCK, RANDOM};
use frames::udp_frame;
use reference::Reference;

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
    cases.extend(shapes());
    cases.extend(rules());
    cases.extend(samples());
    cases.extend(lists::cases());
    for (name, algorithm, refill) in ALGORITHMS {
        for sources in [1, 1_000, 100_000, 1_000_000, 10_000_000] {
            cases.push(case(name, algorithm, refill, sources, false));
        }
        cases.push(case(name, algorithm, refill, 1, true));
    }
    if let Some(wanted) = std::env::args().nth(1).filter(|argument| argument != "--bench") {
        let mut place = 0;
        cases.retain(|case| {
            place += 1;
            place <= REFERENCES.len() || case.name.contains(&wanted)
        });
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
    lists::print_loading();
}

const ALGORITHMS: [(&str, Algorithm, Refill); 4] = [
    ("token bucket", Algorithm::TokenBucket, Refill::Continuous),
    ("token bucket, refilled by interval", Algorithm::TokenBucket, Refill::Interval),
    ("fixed window", Algorithm::FixedWindow, Refill::Continuous),
    ("sliding window counter", Algorithm::SlidingWindowCounter, Refill::Continuous),
];

/// Programs to compare with, by the helpers that they call.
const REFERENCES: [(&str, &[i32]); 3] =
    [("empty program", &[]), ("clock", &[CLOCK]), ("clock and random number", &[CLOCK, RANDOM])];

fn references() -> Vec<Case> {
    let case = |(name, helpers): (&str, &[i32])| {
        let program = Reference::load(helpers).expect("loading needs root");
        Case {
            name: name.to_owned(),
            run: Box::new(move |frame| program.run(frame, REPEAT).expect("a test run")),
            times: Vec::new(),
        }
    };
    REFERENCES.map(case).into()
}

/// One rule on frames of all shapes; with a condition on the transport they are read whole.
fn shapes() -> Vec<Case> {
    let shapes: [(&str, Vec<u8>); 6] = [
        ("IPv4", udp_frame()),
        ("two VLAN tags", frames::tagged(&udp_frame())),
        ("IPv4 with options", frames::with_options()),
        ("IPv6", frames::ipv6(&[])),
        ("IPv6, one extension header", frames::ipv6(&[0])),
        ("IPv6, eight extension headers", frames::ipv6(&[60; 8])),
    ];
    let ports = Match { destination_ports: vec![1..=65_535], ..Match::default() };
    let cases = shapes.into_iter().flat_map(|(shape, frame)| {
        [("any packet", Match::default()), ("with ports", ports.clone())].map(|(what, matches)| {
            loaded(
                format!("{what}, {shape}"),
                compiled_rules(vec![rule("bench", matches)]),
                Some(frame.clone()),
            )
        })
    });
    cases.collect()
}

/// Rules of which some match: the others are about other ports.
fn rules() -> Vec<Case> {
    let counts = [(1, 1), (8, 1), (64, 1), (8, 8), (64, 8)];
    let cases = counts.into_iter().map(|(all, matching)| {
        let rules = (0..all).map(|index| {
            let port = if index < matching { 53 } else { 1_000 + index };
            let matches = Match { destination_ports: vec![port..=port], ..Match::default() };
            rule(&format!("rule-{index}"), matches)
        });
        let name =
            format!("{all} rule{} on ports, {matching} of them match", if all == 1 { "" } else { "s" });
        loaded(name, compiled_rules(rules.collect()), None)
    });
    cases.collect()
}

/// What it costs that some packets are sampled, of one source and of many, of those that pass and of those that do not.
fn samples() -> Vec<Case> {
    let wanted = [("one source", 0, false), ("1,000,000 sources", 1_000_000, false), ("denied", 0, true)];
    let cases = wanted.into_iter().flat_map(|(what, sources, is_denied)| {
        [("", 1), ("not ", 0)].map(|(not, samples)| {
            let mut compiled = compiled(Algorithm::TokenBucket, Refill::Continuous, is_denied);
            (compiled.globals.random_sources, compiled.globals.samples) = (sources, samples);
            loaded(format!("{not}sampled, {what}"), compiled, None)
        })
    });
    cases.collect()
}

/// `frame` in the place of the usual one.
fn loaded(name: String, compiled: Compiled, frame: Option<Vec<u8>>) -> Case {
    let generation = Generation::load_alone(&compiled, false).expect("loading needs root");
    let judge = move |usual: &[u8]| {
        let frame = frame.as_deref().unwrap_or(usual);
        generation.judge(frame, REPEAT).expect("a test run").time.0
    };
    Case { name, run: Box::new(judge), times: Vec::new() }
}

fn case(name: &str, algorithm: Algorithm, refill: Refill, sources: u32, is_denied: bool) -> Case {
    let mut compiled = compiled(algorithm, refill, is_denied);
    compiled.globals.random_sources = if sources == 1 { 0 } else { sources };
    let denied = if is_denied { ", denied" } else { "" };
    let name = format!("{name}, {sources} source{}{denied}", if sources == 1 { "" } else { "s" });
    loaded(name, compiled, None)
}

/// One rule that admits every packet, which is the dearer case because it changes the bucket; or hardly any.
fn compiled(algorithm: Algorithm, refill: Refill, is_denied: bool) -> Compiled {
    let amount = match algorithm {
        _ if is_denied => 1,
        Algorithm::SlidingWindowCounter => 250_000,
        _ => 100_000_000,
    };
    let per = if is_denied { Nanos::from_secs(86_400) } else { Nanos::SECOND };
    let rate = Rate { amount: NonZeroU64::new(amount).expect("not zero"), per };
    let spec = LimitSpec { refill, ..LimitSpec::new(algorithm, rate) };
    let limit = PacketLimit::new(spec, Unit::Packets).expect("a limit");
    compiled_rules(vec![Rule { limit, ..rule("bench", Match::default()) }])
}

/// A token bucket that admits every packet.
fn rule(name: &str, matches: Match) -> Rule {
    let rate = Rate { amount: NonZeroU64::new(100_000_000).expect("not zero"), per: Nanos::SECOND };
    let limit = PacketLimit::new(LimitSpec::new(Algorithm::TokenBucket, rate), Unit::Packets);
    Rule {
        name: name.parse().expect("a name"),
        matches,
        key: Key::default(),
        limit: limit.expect("a limit"),
        action: Action::Drop,
        new_sources: None,
        ban: None,
    }
}

fn compiled_rules(rules: Vec<Rule>) -> Compiled {
    compiled_with(rules, PrefixList::default())
}

fn compiled_with(rules: Vec<Rule>, allow: PrefixList) -> Compiled {
    let network = Network {
        interfaces: Interfaces::default(),
        allow,
        deny: PrefixList::default(),
        lists: Vec::new(),
        table: TableSize::default(),
        on_exit: OnExit::Detach,
        on_malformed: OnMalformed::Pass,
        rules: Rules::new(rules).expect("rules that fit"),
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
    let numbers: Vec<u32> = (1..).take(network.rules.len()).collect();
    compile(&network, &facts, &numbers)
}
