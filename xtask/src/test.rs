//! `test`: every check and test of the repository, one tier after the other, and a virtual machine beside nearly all of
//! them. A failing tier does not stop the next one; what can't run on this machine is listed, and is a failure where
//! `CI` is set.

use std::env;
use std::time::Instant;

use anyhow::{Result, bail};
use report::{Report, Summary};
use tier::{Tier, TierOutcome, run_command, run_tests, run_timed_tests};

use crate::vm::{self, Choice, Kernel};
use crate::{clients, command, embedding, kernel, packages, setup, tidy};

mod report;
pub mod tier;

/// What takes no time.
const FIRST: &[Tier] = &[Tier { name: "format", check: |filter| unfiltered(filter, format) }];

const OTHERS: &[Tier] = &[
    Tier {
        name: "tidy",
        check: |filter| unfiltered(filter, || tidy::run().map(|()| TierOutcome::Passed(None))),
    },
    Tier { name: "clippy", check: |filter| unfiltered(filter, clippy) },
    Tier { name: "manual", check: |filter| unfiltered(filter, manual) },
    Tier { name: "tests", check: cargo_test },
    Tier { name: "models", check: models },
    Tier { name: "embedding", check: |filter| unfiltered(filter, embedding::run) },
    Tier { name: "clients", check: clients::run },
    Tier { name: "stores", check: clients::stores },
    Tier { name: "kernel", check: kernel::run },
];

/// The oldest kernel that is promised. Newer ones are tested on demand.
const OLDEST: Kernel = Kernel::Linux6_1;

/// What is to be run.
#[derive(Clone, Copy)]
pub enum What {
    /// Every tier.
    All,
    /// That of a kernel.
    Kernel(Kernel),
    /// The long form of tests that repeat one thing.
    Soak,
    /// Those of the Debian package.
    Packages,
}

/// Runs it, or of it only the tests whose names contain the filter; and sums up.
pub fn run(filter: Option<&str>, what: What) -> Result<()> {
    setup::for_tests()?;
    let reports = match what {
        What::All => all(filter),
        What::Kernel(kernel) => {
            setup::for_kernel(kernel);
            let choice = filter.map_or(Choice::Selected(None), Choice::Any);
            vec![report(kernel.tier(), || vm::start(kernel, choice)?.outcome())]
        }
        What::Soak => vec![report("soak", || kernel::soak(filter))],
        What::Packages => vec![report("packages", || unfiltered(filter, packages::run))],
    };
    let is_ci = env::var_os("CI").is_some_and(|value| !value.is_empty());
    let summary = Summary::new(reports, is_ci);
    print!("{summary}");
    if !summary.is_success() {
        bail!("not every tier passed");
    }
    Ok(())
}

/// An emulated processor needs one of the machine's for as long as half of the other tiers take. It begins as soon as
/// it can: compilers often have work for no more than one processor, and the tests that come last wait less if they
/// have all.
fn all(filter: Option<&str>) -> Vec<Report> {
    setup::for_kernel(OLDEST);
    let tiers =
        |tiers: &'static [Tier]| tiers.iter().map(move |tier| report(tier.name, || (tier.check)(filter)));
    let mut reports: Vec<Report> = tiers(FIRST).collect();
    println!("\n== {}, beside the others ==", OLDEST.tier());
    let guest = vm::start(OLDEST, Choice::Selected(filter));
    reports.extend(tiers(OTHERS));
    reports.push(report(OLDEST.tier(), || guest?.outcome()));
    reports
}

fn report(tier: &'static str, check: impl FnOnce() -> Result<TierOutcome>) -> Report {
    println!("\n== {tier} ==");
    let start = Instant::now();
    let outcome = check().unwrap_or_else(|error| {
        eprintln!("{tier}: {error:#}");
        TierOutcome::Failed(None)
    });
    Report { tier, outcome, took: start.elapsed() }
}

/// Checks that are not tests have no names that a filter could choose.
fn unfiltered(filter: Option<&str>, check: impl FnOnce() -> Result<TierOutcome>) -> Result<TierOutcome> {
    match filter {
        None => check(),
        Some(_) => Ok(TierOutcome::LeftOut),
    }
}

fn format() -> Result<TierOutcome> {
    run_command(command::cargo().args(["fmt", "--all", "--check"]))
}

/// "All targets" leaves those out that run only if they are asked for by name, and takes no names beside it.
fn clippy() -> Result<TierOutcome> {
    for targets in [&["--all-targets"][..], &["--test", "*", "--bench", "*"]] {
        let mut cargo = command::cargo();
        cargo.arg("clippy").args(targets).args(["--", "--deny", "warnings"]);
        run_command(&mut cargo)?;
    }
    Ok(TierOutcome::Passed(None))
}

/// The pages of the package that others embed: each link leads somewhere.
fn manual() -> Result<TierOutcome> {
    let mut cargo = command::cargo();
    cargo.env("RUSTDOCFLAGS", "--deny warnings");
    run_command(cargo.args(["doc", "--package", "ratelimit-limiter", "--no-deps", "--all-features"]))
}

fn cargo_test(filter: Option<&str>) -> Result<TierOutcome> {
    let mut programs = command::cargo();
    programs.args(["test", "--no-fail-fast", "--lib", "--bins", "--examples", "--tests"]);
    let programs = run_timed_tests(&mut programs, filter)?;
    let mut documentation = command::cargo();
    documentation.args(["test", "--no-fail-fast", "--doc"]);
    Ok(programs.and(run_tests(documentation.args(filter))?))
}

/// The loom model tests: every interleaving of a few threads. They are slow without optimization.
fn models(filter: Option<&str>) -> Result<TierOutcome> {
    let filter = match filter {
        None => "loom",
        Some(filter) if filter.contains("loom") => filter,
        Some(_) => return Ok(TierOutcome::LeftOut),
    };
    let mut cargo = command::cargo();
    cargo.env("RUSTFLAGS", "--cfg loom").env_remove("CARGO_ENCODED_RUSTFLAGS");
    // Its own directory: other flags for the same packages would rebuild everything, there and back.
    cargo.env("CARGO_TARGET_DIR", command::target_dir()?.join("loom").as_os_str());
    cargo.args(["test", "--profile", "models", "--package", "ratelimit-common", "--lib"]).arg(filter);
    run_tests(&mut cargo)
}
