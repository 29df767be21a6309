//! What a packet costs in the XDP program, beside the least that it can cost: `cargo xtask bench xdp`, as root.
//!
//! Each row is a configuration with a floor of its own (`benches/floor`); the report ends with the goals that are
//! missed. With arguments only the rows are measured whose names contain one; with `--quick` once and in few rounds.

#[path = "../support/bpf.rs"]
mod bpf;
mod configure;
mod frames;
mod goals;
mod machine;
mod measure;
mod memory;
mod program;
mod report;
mod rows;
#[path = "../support/source.rs"]
mod source;

use anyhow::{Context as _, Result};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

use measure::Effort;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| name.contains(*wanted));
    let processor = pin()?;
    let effort = match is_quick {
        true => Effort { loads: 1, rounds: 20, processor },
        false => Effort { loads: 3, rounds: 40, processor },
    };
    let lists = configure::Lists::make()?;
    report::print_method(effort);
    let mut all = Vec::new();
    for row in rows::ROWS.iter().filter(|row| is_wanted(row.name)) {
        let figures = measure::measure(row, effort, &lists)?;
        report::print_row(&figures);
        all.push(figures);
    }
    all.iter().take(1).for_each(report::print_stages);
    configure::print_loading(&lists)?;
    goals::print_missed(&all);
    Ok(())
}

/// To the last processor that this process may use: the first one takes most of the machine's interrupts.
fn pin() -> Result<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).context("reading the affinity")?;
    let last = (0..CpuSet::count()).rev().find(|&processor| allowed.is_set(processor) == Ok(true));
    let last = last.context("no processor")?;
    let mut only = CpuSet::new();
    only.set(last).context("the number of a processor")?;
    sched_setaffinity(Pid::from_raw(0), &only).context("keeping to a processor")?;
    Ok(last)
}
