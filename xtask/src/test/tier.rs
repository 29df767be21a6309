//! What a tier is, how it can end, and how its commands are run and their tests counted and timed.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::num::NonZero;
use std::ops::AddAssign;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::command;

/// One group of checks.
pub struct Tier {
    /// What the summary calls it.
    pub name: &'static str,
    /// Runs it, all of it or what the filter chooses.
    pub check: fn(Option<&str>) -> Result<TierOutcome>,
}

/// How a tier ended. A tier without tests to count has no counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TierOutcome {
    /// Everything passed.
    Passed(Option<Counts>),
    /// Something failed.
    Failed(Option<Counts>),
    /// It can't run on this machine, or not all of it, for this reason; and what did run.
    NotRun(String, Counts),
    /// The user's filter chooses nothing of it.
    LeftOut,
}

/// Numbers of tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that say themselves that they are not to run.
    pub ignored: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl TierOutcome {
    /// Nothing of it can run on this machine.
    pub fn not_run(reason: impl Into<String>) -> Self {
        Self::NotRun(reason.into(), Counts::default())
    }

    /// Tests that ran; a tier that has none to count is one.
    pub fn counts(&self) -> Counts {
        match self {
            Self::Passed(counts) => counts.unwrap_or(Counts { passed: 1, ..Counts::default() }),
            // A test program that does not compile says no number.
            Self::Failed(counts) => {
                let counts = counts.unwrap_or_default();
                Counts { failed: counts.failed.max(1), ..counts }
            }
            Self::NotRun(_, counts) => *counts,
            Self::LeftOut => Counts::default(),
        }
    }

    /// How two parts of a tier ended, seen as one.
    pub fn and(self, other: Self) -> Self {
        let mut both = self.counts();
        both += other.counts();
        match (self, other) {
            (Self::NotRun(one, _), Self::NotRun(other, _)) => Self::NotRun(format!("{one}; {other}"), both),
            (Self::NotRun(reason, _), _) | (_, Self::NotRun(reason, _)) => Self::NotRun(reason, both),
            (Self::LeftOut, one) | (one, Self::LeftOut) => one,
            (Self::Passed(_), Self::Passed(_)) => Self::Passed(Some(both)),
            (Self::Failed(_), _) | (_, Self::Failed(_)) => Self::Failed(Some(both)),
        }
    }
}

/// Runs a command that only succeeds or fails.
pub fn run_command(command: &mut Command) -> Result<TierOutcome> {
    command::run(command)?;
    Ok(TierOutcome::Passed(None))
}

/// Runs a command that runs tests, passes its output on and counts them.
pub fn run_tests(command: &mut Command) -> Result<TierOutcome> {
    command::announce(command);
    command.stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("starting {}", command::render(command)))?;
    let mut heard = Heard::default();
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(|output| output.split(b'\n')) {
        let line = line.context("reading the tests' output")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        heard.hear(&line);
    }
    let status = child.wait().context("waiting for the tests")?;
    print!("{heard}");
    let counts = Some(heard.counts);
    Ok(if status.success() { TierOutcome::Passed(counts) } else { TierOutcome::Failed(counts) })
}

/// How many tests of a program run at once: most of them wait for something, so processors have time for more than one.
pub fn threads() -> usize {
    2 * thread::available_parallelism().map_or(1, NonZero::get)
}

/// Makes `cargo test` run so many at once, and say how long each took.
pub fn run_timed_tests(cargo: &mut Command, filter: Option<&str>) -> Result<TierOutcome> {
    cargo.env("RUST_TEST_THREADS", threads().to_string());
    cargo.arg("--config").arg(format!("target.'cfg(all())'.runner = ['env', '{ALLOWS_TIMED}']"));
    run_tests(cargo.args(filter).arg("--").args(TIMED))
}

/// Makes a test program say how long each test took. The option is not stable, and the compiler in use may be, so it
/// has to be told that this is meant; nothing is compiled with it.
pub const TIMED: [&str; 2] = ["-Zunstable-options", "--report-time"];
/// What the program's environment needs for it.
pub const ALLOWS_TIMED: &str = "RUSTC_BOOTSTRAP=1";

/// What test programs have said: how many tests there were, and how long each took.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// How many.
    pub counts: Counts,
    times: Vec<(Duration, String)>,
}

impl Heard {
    /// How many of the slowest tests are shown.
    const SHOWN: usize = 10;

    /// Takes in a line.
    pub fn hear(&mut self, line: &str) {
        self.times.extend(parse_time(line));
        if let Some(result) = parse_result(line) {
            self.counts += result;
        }
    }
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut slowest: Vec<_> = self.times.iter().collect();
        slowest.sort_by(|one, other| other.cmp(one));
        if slowest.is_empty() {
            return Ok(());
        }
        writeln!(f, "the slowest tests, in seconds:")?;
        slowest
            .iter()
            .take(Self::SHOWN)
            .try_for_each(|(time, name)| writeln!(f, "{:>8.1}  {name}", time.as_secs_f64()))
    }
}

/// Reads the line of one test that was timed: `test a::b ... ok <0.012s>`.
fn parse_time(line: &str) -> Option<(Duration, String)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = rest.rsplit_once('<')?.1.strip_suffix("s>")?.parse().ok()?;
    Some((Duration::try_from_secs_f64(seconds).ok()?, name.to_owned()))
}

/// Reads the line that closes a test program's output:
/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.02s`.
fn parse_result(line: &str) -> Option<Counts> {
    let mut fields = line.strip_prefix("test result: ")?.split_once(". ")?.1.split("; ");
    let mut next = |name: &str| fields.next()?.strip_suffix(name)?.trim_end().parse().ok();
    Some(Counts { passed: next("passed")?, failed: next("failed")?, ignored: next("ignored")? })
}

#[cfg(test)]
mod tests {
    //! Counting and the commands' ends.

    use super::*;

    #[test]
    fn reads_closing_lines() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.02s";
        assert_eq!(parse_result(line), Some(Counts { passed: 12, failed: 3, ignored: 1 }));
        for other in
            ["", "test result: ok.", "test a::b ... ok", "test result: ok. x passed; 0 failed; 0 ignored"]
        {
            assert_eq!(parse_result(other), None, "{other}");
        }
    }

    #[test]
    fn a_tier_of_two_parts_has_failed_if_one_has() {
        let counts = |passed, failed| Some(Counts { passed, failed, ignored: 0 });
        let (good, bad) = (TierOutcome::Passed(counts(2, 0)), TierOutcome::Failed(counts(3, 1)));
        assert_eq!(good.clone().and(good.clone()), TierOutcome::Passed(counts(4, 0)));
        assert_eq!(good.clone().and(bad.clone()), TierOutcome::Failed(counts(5, 1)));
        assert_eq!(bad.clone().and(good.clone()), TierOutcome::Failed(counts(5, 1)));
        assert_eq!(good.clone().and(TierOutcome::LeftOut), good);
        let not_compiled = TierOutcome::Failed(Some(Counts::default()));
        assert_eq!(good.and(not_compiled), TierOutcome::Failed(counts(2, 1)));
    }

    #[test]
    fn what_cannot_run_hides_nothing_of_what_does() {
        let counts = Counts { passed: 3, failed: 1, ignored: 0 };
        let (not_run, bad) = (TierOutcome::not_run("needs root"), TierOutcome::Failed(Some(counts)));
        let both = TierOutcome::NotRun("needs root".to_owned(), counts);
        assert_eq!(bad.clone().and(not_run.clone()), both);
        assert_eq!(not_run.clone().and(bad), both);
        assert_eq!(TierOutcome::LeftOut.and(not_run.clone()), not_run);
        let more = both.and(TierOutcome::not_run("needs envoy"));
        assert_eq!(more, TierOutcome::NotRun("needs root; needs envoy".to_owned(), counts));
    }

    #[test]
    fn the_slowest_tests_come_first() {
        let mut heard = Heard::default();
        let lines =
            ["test a ... ok <0.012s>", "test b::c ... FAILED <71.500s>", "test d ... ok", "a line <5s>"];
        lines.iter().for_each(|line| heard.hear(line));
        assert_eq!(heard.to_string(), "the slowest tests, in seconds:\n    71.5  b::c\n     0.0  a\n");
        assert_eq!(Heard::default().to_string(), "");
    }

    #[test]
    fn counts_all_test_programs_of_a_command() -> Result<()> {
        let script = "for n in 2 3; do \
            echo \"test result: ok. $n passed; 0 failed; 0 ignored; 0 measured\"; done; exit $0";
        let counts = Some(Counts { passed: 5, ..Counts::default() });
        assert_eq!(run_tests(Command::new("sh").args(["-c", script, "0"]))?, TierOutcome::Passed(counts));
        assert_eq!(run_tests(Command::new("sh").args(["-c", script, "7"]))?, TierOutcome::Failed(counts));
        Ok(())
    }
}
