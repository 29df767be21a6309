//! What is printed: the method, and the figures as tables with a row a filter.

use std::fmt::Write as _;

use anyhow::Result;

use crate::{
    DROPPED, PASSING, PASSING_SOURCES, SOURCES,
    case::{Case, Traffic},
    filter::Filter,
    generator::PACKETS,
    lab::{Cores, tool},
    tcp,
};

/// How the figures come about.
pub fn method(cores: Cores, rounds: usize) -> Result<String> {
    let version = |program| {
        let said = tool(program, "--version", "")?;
        Ok::<_, anyhow::Error>(said.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
    };
    let siblings = if cores.are_siblings { ", which is a thread of the same core" } else { "" };
    Ok(format!(
        "{}, {}\n\
         nanoseconds of the receiver's processor time a packet: p10 of {rounds} rounds, +- its standard error\n\
         all cases by turns, each time {PACKETS} packets (IPv4, UDP, sources at random), 64 bytes each unless said\n\
         sent over veth by BPF_PROG_TEST_RUN with live frames on processor {}{siblings}\n\
         taken in by a NAPI thread on processor {}, whose processor time counts\n\
         limit of a source: 1 an hour; for packets that pass 1,000,000 a second, burst 1,000\n\
         floor: benches/floor, by clang; <: has waited for packets, so takes less than that",
        version("nft")?,
        version("iptables")?,
        cores.generator,
        cores.receiver,
    ))
}

/// All tables.
pub fn figures(cases: &[Case], streams: &[tcp::Case]) -> String {
    [dropped(cases), passing(cases), mixed(cases), tcp_table(streams)].join("\n")
}

fn dropped(cases: &[Case]) -> String {
    let mut text = "\nOver the limit: at least 99 % are dropped\n".to_owned();
    put(
        &mut text,
        format_args!(
            "{:30}{:>42}{:>21}{:>21}{:>21}\n",
            "", "ns a packet", "of parse and clock", "of the floor", "times nftables"
        ),
    );
    put(&mut text, format_args!("{:30}", "sources"));
    SOURCES.iter().for_each(|sources| put(&mut text, format_args!("{sources:>14}")));
    for _ in 0..3 {
        SOURCES.iter().for_each(|sources| put(&mut text, format_args!("{sources:>7}")));
    }
    for filter in DROPPED {
        if !has(cases, filter, Traffic::Dropped) {
            continue;
        }
        put(&mut text, format_args!("\n{:30}", filter.name()));
        for sources in SOURCES {
            put(&mut text, format_args!("{:>14}", shown(cases, filter, Traffic::Dropped, sources)));
        }
        let nanos = |filter, sources| nanos(cases, filter, Traffic::Dropped, sources);
        let nft = |sources| {
            let hooks = [Filter::NftIngress, Filter::NftPrerouting].map(|hook| nanos(hook, sources));
            hooks.into_iter().flatten().reduce(f64::min)
        };
        let others: [&dyn Fn(u16) -> Option<f64>; 3] =
            [&|sources| nanos(Filter::ClockOnly, sources), &|sources| nanos(Filter::Floor, sources), &nft];
        for other in others {
            for sources in SOURCES {
                put(&mut text, format_args!("{:>7}", ratio(other(sources), nanos(filter, sources))));
            }
        }
    }
    text + "\n"
}

fn passing(cases: &[Case]) -> String {
    let mut text = "\nPackets that pass, and are dropped by one rule further on\n".to_owned();
    put(
        &mut text,
        format_args!(
            "{:30}{:>28}{:>16}{:>20}\n{:30}",
            "", "ns a packet", "ns added", "times the floor's", "sources"
        ),
    );
    for width in [14, 8, 10] {
        PASSING_SOURCES.iter().for_each(|sources| put(&mut text, format_args!("{sources:>width$}")));
    }
    for filter in PASSING {
        if !has(cases, filter, Traffic::Passing) {
            continue;
        }
        put(&mut text, format_args!("\n{:30}", filter.name()));
        for sources in PASSING_SOURCES {
            put(&mut text, format_args!("{:>14}", shown(cases, filter, Traffic::Passing, sources)));
        }
        let added = |filter, sources| crate::goals::added(cases, filter, sources);
        for sources in PASSING_SOURCES {
            put(&mut text, format_args!("{:>8.0}", added(filter, sources).unwrap_or(f64::NAN)));
        }
        for sources in PASSING_SOURCES {
            put(
                &mut text,
                format_args!("{:>10}", ratio(added(filter, sources), added(Filter::Floor, sources))),
            );
        }
    }
    text + "\n"
}

fn mixed(cases: &[Case]) -> String {
    let mut text =
        "\nFlows of 50,000 sources at a mix of sizes (7 of 64, 4 of 594, 1 of 1,514 bytes), which pass\n"
            .to_owned();
    put(&mut text, format_args!("{:30}{:>14}{:>8}", "", "ns a packet", "added"));
    let nothing = nanos(cases, Filter::Nothing, Traffic::Mix, 50_000).unwrap_or(f64::NAN);
    for filter in PASSING {
        if let Some(own) = nanos(cases, filter, Traffic::Mix, 50_000) {
            let shown = shown(cases, filter, Traffic::Mix, 50_000);
            put(&mut text, format_args!("\n{:30}{shown:>14}{:>8.0}", filter.name(), own - nothing));
        }
    }
    text + "\n"
}

fn tcp_table(streams: &[tcp::Case]) -> String {
    if streams.is_empty() {
        return String::new();
    }
    let mut text =
        "\nOne TCP stream that passes: goodput (median); processor time of sender, receiver, interface\n"
            .to_owned();
    put(&mut text, format_args!("{:30}{:>6}{:>18}{:>18}", "", "GRO", "Gbit/s", "ns a kB"));
    for stream in streams {
        let (goodput, nanos) = (stream.goodput(), stream.nanos());
        put(
            &mut text,
            format_args!(
                "\n{:30}{:>6}{:>18}{:>18}",
                stream.filter.name(),
                if stream.has_gro { "on" } else { "off" },
                format!("{:.2} +- {:.2}", goodput.value, goodput.error),
                format!("{:.0} +- {:.0}", nanos.value, nanos.error),
            ),
        );
    }
    text + "\n"
}

fn has(cases: &[Case], filter: Filter, traffic: Traffic) -> bool {
    cases.iter().any(|case| (case.filter, case.traffic) == (filter, traffic))
}

fn case(cases: &[Case], filter: Filter, traffic: Traffic, sources: u16) -> Option<&Case> {
    cases.iter().find(|case| (case.filter, case.traffic, case.sources) == (filter, traffic, sources))
}

/// Nanoseconds a packet.
pub fn nanos(cases: &[Case], filter: Filter, traffic: Traffic, sources: u16) -> Option<f64> {
    case(cases, filter, traffic, sources).map(|case| case.nanos().value)
}

fn shown(cases: &[Case], filter: Filter, traffic: Traffic, sources: u16) -> String {
    let Some(case) = case(cases, filter, traffic, sources) else { return "-".to_owned() };
    let nanos = case.nanos();
    format!("{}{:.0} +- {:.0}", if case.has_waited() { "<" } else { "" }, nanos.value, nanos.error)
}

fn ratio(one: Option<f64>, other: Option<f64>) -> String {
    one.zip(other).map_or("-".to_owned(), |(one, other)| format!("{:.2}", one / other))
}

fn put(text: &mut String, more: std::fmt::Arguments<'_>) {
    // A string takes everything.
    let _ = text.write_fmt(more);
}
