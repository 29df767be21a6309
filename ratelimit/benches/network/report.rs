//! What is printed: the method, and the figures as tables with a row a case.

use std::fmt::Write as _;

use anyhow::Result;

use crate::{
    Case, PASSING, PASSING_SOURCES, ROUNDS, SOURCES, Sample,
    filter::{Filter, Limit},
    generator::PACKETS,
    lab::{Cores, tool},
};

/// Who takes in more than this share of the packets had to wait for some.
const IDLE: f64 = 0.98;

/// The least share of the program that only parses and reads the clock, at each number of sources.
const LEAST_SHARES: [f64; 3] = [0.9, 0.9, 0.75];
/// How many times what nftables and hashlimit judge, at least.
const LEAST_TIMES: f64 = 3.0;

/// How the figures come about.
pub fn method(cores: Cores) -> Result<String> {
    let version = |program| {
        let said = tool(program, "--version", "")?;
        Ok::<_, anyhow::Error>(said.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
    };
    let siblings = if cores.are_siblings { ", which is a thread of the same core" } else { "" };
    Ok(format!(
        "{}, {}\n\
         medians of {ROUNDS} rounds, all cases by turns, each time {} packets of 64 bytes (IPv4, UDP, sources at random)\n\
         sent over veth by BPF_PROG_TEST_RUN with live frames on processor {}{siblings}\n\
         taken in by a NAPI thread on processor {}; a second is one of that thread's processor time\n\
         limit of a source: 1 an hour; for packets that pass 1,000,000 a second, burst 1,000",
        version("nft")?,
        version("iptables")?,
        thousands(PACKETS),
        cores.generator,
        cores.receiver,
    ))
}

/// All tables.
pub fn figures(cases: &[Case]) -> String {
    [over_the_limit(cases), goals(cases), passing(cases)].join("\n")
}

fn over_the_limit(cases: &[Case]) -> String {
    let mut text = format!(
        "\nOver the limit: at least 99 % are dropped\n{:30}{:>24}{:>18}{:>18}{:>18}\n{:30}",
        "", "million packets a second", "of clock only", "times nftables", "times hashlimit", "sources"
    );
    SOURCES.iter().for_each(|&sources| put(&mut text, format_args!("{:>8}", thousands(sources.into()))));
    for _ in 0..3 {
        SOURCES.iter().for_each(|&sources| put(&mut text, format_args!("{:>6}", short(sources))));
    }
    for filter in crate::OVER_THE_LIMIT {
        put(&mut text, format_args!("\n{:30}", filter.name()));
        for sources in SOURCES {
            let sample = median(cases, filter, Limit::Low, sources);
            put(&mut text, format_args!("{:>8}", marked(sample)));
        }
        for other in [Other::Clock, Other::Nft, Other::Hashlimit] {
            for sources in SOURCES {
                put(&mut text, format_args!("{:>6.2}", ratio(cases, filter, other, sources)));
            }
        }
    }
    text + "\n(>: had to wait for packets, so could do more; nftables: the faster of its two hooks)\n"
}

/// What others are measured by.
#[derive(Clone, Copy)]
enum Other {
    Clock,
    Nft,
    Hashlimit,
}

fn ratio(cases: &[Case], filter: Filter, other: Other, sources: u16) -> f64 {
    let millions = |filter| median(cases, filter, Limit::Low, sources).millions;
    let by = match other {
        Other::Clock => millions(Filter::ClockOnly),
        Other::Nft => millions(Filter::NftIngress).max(millions(Filter::NftPrerouting)),
        Other::Hashlimit => millions(Filter::Hashlimit),
    };
    millions(filter) / by
}

fn goals(cases: &[Case]) -> String {
    let mut missed = String::new();
    for (sources, least) in SOURCES.into_iter().zip(LEAST_SHARES) {
        for (other, name, least) in [
            (Other::Clock, "of clock only", least),
            (Other::Nft, "times nftables", LEAST_TIMES),
            (Other::Hashlimit, "times hashlimit", LEAST_TIMES),
        ] {
            let is = ratio(cases, Filter::Ratelimit, other, sources);
            if is < least {
                let sources = thousands(sources.into());
                put(&mut missed, format_args!("\n  {is:.2} {name} at {sources}, not {least:.2}"));
            }
        }
    }
    let [one, thousand, many] = LEAST_SHARES;
    format!(
        "Goals of ratelimit (native): {one}, {thousand}, {many} of clock only; {LEAST_TIMES} times nftables and \
         hashlimit: {}{missed}\n",
        if missed.is_empty() { "met" } else { "missed" }
    )
}

fn passing(cases: &[Case]) -> String {
    let mut text = format!(
        "Packets that pass, and are dropped by one rule further on\n{:30}{:>24}{:>24}\n{:30}",
        "", "million packets a second", "nanoseconds added", "sources"
    );
    for _ in 0..2 {
        PASSING_SOURCES
            .iter()
            .for_each(|&sources| put(&mut text, format_args!("{:>12}", thousands(sources.into()))));
    }
    for filter in PASSING {
        put(&mut text, format_args!("\n{:30}", filter.name()));
        let sample = |filter, sources| median(cases, filter, Limit::High, sources);
        for sources in PASSING_SOURCES {
            put(&mut text, format_args!("{:>12}", marked(sample(filter, sources))));
        }
        for sources in PASSING_SOURCES {
            let nanos = |filter| 1e3 / sample(filter, sources).millions;
            put(&mut text, format_args!("{:>12.0}", nanos(filter) - nanos(Filter::Nothing)));
        }
    }
    text + "\n"
}

/// Zero, if there is no such case.
fn median(cases: &[Case], filter: Filter, limit: Limit, sources: u16) -> Sample {
    let is_it = |case: &&Case| (case.filter, case.limit, case.sources) == (filter, limit, sources);
    let none = Sample { millions: 0.0, taken_in: 0.0, passed: 0.0 };
    cases.iter().find(is_it).map_or(none, Case::median)
}

fn marked(sample: Sample) -> String {
    format!("{}{:.2}", if sample.taken_in > IDLE { "> " } else { "" }, sample.millions)
}

fn put(text: &mut String, more: std::fmt::Arguments<'_>) {
    // A string takes everything.
    let _ = text.write_fmt(more);
}

fn short(sources: u16) -> String {
    if sources < 1_000 { sources.to_string() } else { format!("{}k", sources / 1_000) }
}

fn thousands(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
