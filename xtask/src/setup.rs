//! `setup`: finds or installs what building and testing needs. When all is there it takes a fraction of a second.
//!
//! What only one group of tests or benchmarks needs is a list of its own here; nothing else is to be edited for a new
//! program.

use anyhow::Result;
use installer::Installer;

use crate::command;

mod bpf;
mod installer;
mod probe;

/// A program that tests or benchmarks start, and the Debian package that has it.
struct Program {
    name: &'static str,
    package: &'static str,
}

const KERNEL_TESTS: &[Program] = &[Program { name: "ip", package: "iproute2" }];

const NETWORK_BENCHMARK: &[Program] =
    &[Program { name: "nft", package: "nftables" }, Program { name: "iptables", package: "iptables" }];

/// Sets up everything, and says for each item what is used.
pub fn all() -> Result<()> {
    ensure(Installer::new(true), &[KERNEL_TESTS, NETWORK_BENCHMARK])
}

/// Sets up what `cargo build` needs; silent if all is there.
pub fn for_build() -> Result<()> {
    ensure(Installer::new(false), &[])
}

/// Sets up what `cargo xtask test` needs; silent if all is there.
pub fn for_tests() -> Result<()> {
    ensure(Installer::new(false), &[KERNEL_TESTS])
}

fn ensure(mut installer: Installer, groups: &[&[Program]]) -> Result<()> {
    bpf::ensure(&mut installer)?;
    programs(&mut installer, groups)?;
    installer.finish()
}

fn programs(installer: &mut Installer, groups: &[&[Program]]) -> Result<()> {
    let mut missing = Vec::new();
    for Program { name, package } in groups.iter().copied().flatten() {
        match command::find_program(name) {
            Some(path) => installer.found(name, &path.display().to_string()),
            None => missing.push(*package),
        }
    }
    installer.packages(&missing).map(drop)
}
