//! What a tier is, how it can end, and how its commands are run and their tests counted.

use std::io::{BufRead as _, BufReader};
use std::ops::AddAssign;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::command;

/// One group of checks.
pub struct Tier {
    /// What the summary calls it.
    pub name: &'static str,
    /// Runs it, all of it or what the filter chooses.
    pub check: fn(Option<&str>) -> Result<Outcome>,
}

/// How a tier ended. A tier without tests to count has no counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything passed.
    Passed(Option<Counts>),
    /// Something failed.
    Failed(Option<Counts>),
    /// It can't run on this machine, for this reason.
    NotRun(String),
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

/// Runs a command that only succeeds or fails.
pub fn run_command(command: &mut Command) -> Result<Outcome> {
    command::run(command)?;
    Ok(Outcome::Passed(None))
}

/// Runs a command that runs tests, passes its output on and counts them.
pub fn run_tests(command: &mut Command) -> Result<Outcome> {
    command::announce(command);
    command.stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("starting {}", command::render(command)))?;
    let mut counts = Counts::default();
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(|output| output.split(b'\n')) {
        let line = line.context("reading the tests' output")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        if let Some(result) = parse_result(&line) {
            counts += result;
        }
    }
    let status = child.wait().context("waiting for the tests")?;
    Ok(if status.success() { Outcome::Passed(Some(counts)) } else { Outcome::Failed(Some(counts)) })
}

/// Reads the line that closes a test program's output:
/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.02s`.
pub fn parse_result(line: &str) -> Option<Counts> {
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
    fn counts_all_test_programs_of_a_command() -> Result<()> {
        let script = "for n in 2 3; do \
            echo \"test result: ok. $n passed; 0 failed; 0 ignored; 0 measured\"; done; exit $0";
        let counts = Some(Counts { passed: 5, ..Counts::default() });
        assert_eq!(run_tests(Command::new("sh").args(["-c", script, "0"]))?, Outcome::Passed(counts));
        assert_eq!(run_tests(Command::new("sh").args(["-c", script, "7"]))?, Outcome::Failed(counts));
        Ok(())
    }
}
