//! What a packet costs over a wire, dropped or passed, beside the least that it can cost, nftables and hashlimit; and
//! what TCP loses: `cargo xtask bench network`, as root.
//!
//! One core sends over a veth pair as fast as it can, another takes in what it has time for; the filter is on the
//! receiver's end. Each case has a wire and a network namespace of its own. All cases take turns, several times. With
//! arguments only the cases are measured whose names contain one: `passing, ratelimit, 1000 sources`, `TCP, XDP, the
//! floor`; `--rounds=N` is how often.

#[path = "../support/bpf.rs"]
mod bpf;
mod case;
mod figure;
mod filter;
mod generator;
mod goals;
mod lab;
mod report;
#[path = "../support/source.rs"]
mod source;
mod tcp;

use anyhow::Result;
use nix::unistd::Pid;

use case::{Case, Traffic};
use filter::Filter;
use lab::Cores;

const ROUNDS: usize = 11;

/// From how many sources the packets come.
const SOURCES: [u16; 3] = [1, 1_000, 50_000];

/// One source would be over the highest limit that all of them have.
const PASSING_SOURCES: [u16; 2] = [1_000, 50_000];

const DROPPED: [Filter; 10] = [
    Filter::VerdictOnly,
    Filter::ClockOnly,
    Filter::Floor,
    Filter::Ratelimit,
    Filter::SixtyFourRules,
    Filter::WithTop,
    Filter::Generic,
    Filter::NftIngress,
    Filter::NftPrerouting,
    Filter::Hashlimit,
];

const PASSING: [Filter; 13] = [
    Filter::Nothing,
    Filter::VerdictOnly,
    Filter::VerdictOnlyOneBuffer,
    Filter::ClockOnly,
    Filter::Floor,
    Filter::Ratelimit,
    Filter::SixtyFourRules,
    Filter::WithTop,
    Filter::Observing,
    Filter::Generic,
    Filter::NftIngress,
    Filter::NftPrerouting,
    Filter::Hashlimit,
];

fn main() -> Result<()> {
    let arguments = || std::env::args().skip(1);
    let rounds = arguments().find_map(|argument| argument.strip_prefix("--rounds=")?.parse().ok());
    let rounds = rounds.unwrap_or(ROUNDS);
    let wanted: Vec<String> = arguments().filter(|argument| !argument.starts_with("--")).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| name.contains(wanted));
    lab::enter()?;
    let cores = Cores::choose()?;
    lab::pin(Pid::from_raw(0), cores.generator)?;
    let mut cases = cases(cores, is_wanted)?;
    let mut streams = tcp::cases(cases.len(), cores, is_wanted)?;
    println!("{}", report::method(cores, rounds)?);
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        // Every other round backwards: what comes first is not always the same.
        if round % 2 == 0 {
            cases.iter_mut().rev().try_for_each(Case::measure)?;
        } else {
            cases.iter_mut().try_for_each(Case::measure)?;
        }
        streams.iter_mut().try_for_each(tcp::Case::measure)?;
    }
    print!("{}", report::figures(&cases, &streams));
    print!("{}", goals::missed(&cases));
    Ok(())
}

fn cases(cores: Cores, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let dropped =
        DROPPED.iter().flat_map(|&filter| SOURCES.map(|sources| (filter, Traffic::Dropped, sources)));
    let passing =
        PASSING.iter().flat_map(|&filter| PASSING_SOURCES.map(|sources| (filter, Traffic::Passing, sources)));
    let mixed = PASSING.iter().map(|&filter| (filter, Traffic::Mix, 50_000));
    dropped
        .chain(passing)
        .chain(mixed)
        .filter(|&(filter, traffic, sources)| is_wanted(&case::name(filter, traffic, sources)))
        .enumerate()
        .map(|(number, (filter, traffic, sources))| Case::new(number, filter, traffic, sources, cores))
        .collect()
}
