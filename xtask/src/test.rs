//! `test`: every check and test of the repository, one tier after the other. A failing tier does not stop the next one;
//! what can't run on this machine is listed, and is a failure where `CI` is set.

use std::env;
use std::ffi::OsStr;
use std::time::Instant;

use anyhow::{Result, bail};
use report::{Report, Summary};
use tier::{Outcome, Tier, run_command, run_tests};

use crate::vm::{self, Choice, Kernel};
use crate::{clients, command, kernel, setup, tidy};

mod report;
pub mod tier;

const TIERS: &[Tier] = &[
    Tier { name: "tidy", check: |filter| unfiltered(filter, || tidy::run().map(|()| Outcome::Passed(None))) },
    Tier { name: "format", check: |filter| unfiltered(filter, format) },
    Tier { name: "clippy", check: |filter| unfiltered(filter, clippy) },
    Tier { name: "tests", check: cargo_test },
    Tier { name: "models", check: models },
    Tier { name: "clients", check: clients::run },
    Tier { name: "kernel", check: kernel::run },
    Tier { name: OLDEST.tier(), check: |filter| vm::run(OLDEST, Choice::Selected(filter)) },
];

/// The oldest kernel that is promised. Newer ones are tested on demand.
const OLDEST: Kernel = Kernel::Linux6_1;

/// Runs every tier, or that of a kernel, or of these only the tests whose names contain the filter; and sums up.
pub fn run(filter: Option<&str>, kernel: Option<Kernel>) -> Result<()> {
    setup::for_tests()?;
    setup::for_kernel(kernel.unwrap_or(OLDEST));
    let reports = match kernel {
        None => TIERS.iter().map(|tier| report(tier.name, || (tier.check)(filter))).collect(),
        Some(kernel) => {
            let choice = filter.map_or(Choice::Selected(None), Choice::Any);
            vec![report(kernel.tier(), || vm::run(kernel, choice))]
        }
    };
    let is_ci = env::var_os("CI").is_some_and(|value| !value.is_empty());
    let summary = Summary::new(reports, is_ci);
    print!("{summary}");
    if !summary.is_success() {
        bail!("not every tier passed");
    }
    Ok(())
}

fn report(tier: &'static str, check: impl FnOnce() -> Result<Outcome>) -> Report {
    println!("\n== {tier} ==");
    let start = Instant::now();
    let outcome = check().unwrap_or_else(|error| {
        eprintln!("{tier}: {error:#}");
        Outcome::Failed(None)
    });
    Report { tier, outcome, took: start.elapsed() }
}

/// Checks that are not tests have no names that a filter could choose.
fn unfiltered(filter: Option<&str>, check: impl FnOnce() -> Result<Outcome>) -> Result<Outcome> {
    match filter {
        None => check(),
        Some(_) => Ok(Outcome::LeftOut),
    }
}

fn format() -> Result<Outcome> {
    run_command(command::cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<Outcome> {
    let check = |targets: &[&str]| {
        let mut cargo = command::cargo();
        run_command(cargo.arg("clippy").args(targets).args(["--", "--deny", "warnings"]))
    };
    check(&["--workspace", "--exclude", "ratelimit-ebpf", "--all-targets"])?;
    // "All" leaves those out that run only if they are asked for by name.
    check(&["--package", "ratelimit", "--test", "*", "--bench", "*"])
}

fn cargo_test(filter: Option<&str>) -> Result<Outcome> {
    run_tests(command::cargo().args(["test", "--no-fail-fast"]).args(filter))
}

/// The loom model tests: every interleaving of a few threads. They are slow without optimization.
fn models(filter: Option<&str>) -> Result<Outcome> {
    let filter = match filter {
        None => "loom",
        Some(filter) if filter.contains("loom") => filter,
        Some(_) => return Ok(Outcome::LeftOut),
    };
    let mut cargo = command::cargo();
    cargo.env("RUSTFLAGS", "--cfg loom").env_remove("CARGO_ENCODED_RUSTFLAGS");
    // Its own directory: other flags for the same packages would rebuild everything, there and back.
    cargo.env("CARGO_TARGET_DIR", command::target_dir()?.join("loom").as_os_str());
    cargo.args(["test", "--release", "--package", "ratelimit-common", "--lib"]).arg(OsStr::new(filter));
    run_tests(&mut cargo)
}
