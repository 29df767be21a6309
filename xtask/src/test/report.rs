//! The summary at the end of `cargo xtask test`: one line a tier, what could not run, and the total.

use std::fmt;
use std::time::Duration;

use super::tier::{Counts, Outcome};

/// How one tier went.
pub struct Report {
    /// The tier's name.
    pub tier: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// How all tiers went.
pub struct Summary {
    reports: Vec<Report>,
    is_ci: bool,
}

impl Summary {
    /// In CI, a tier that can't run has failed.
    pub fn new(reports: Vec<Report>, is_ci: bool) -> Self {
        Self { reports, is_ci }
    }

    /// Whether nothing failed and something ran.
    pub fn is_success(&self) -> bool {
        let total = self.total();
        total.failed == 0 && total.passed > 0
    }

    /// Tests, and tiers that have no tests to count.
    fn total(&self) -> Counts {
        let mut total = Counts::default();
        for report in &self.reports {
            total += match &report.outcome {
                Outcome::Passed(Some(counts)) => *counts,
                Outcome::Failed(Some(counts)) => Counts { failed: counts.failed.max(1), ..*counts },
                Outcome::Passed(None) => Counts { passed: 1, ..Counts::default() },
                Outcome::Failed(None) => Counts { failed: 1, ..Counts::default() },
                Outcome::NotRun(_) if self.is_ci => Counts { failed: 1, ..Counts::default() },
                Outcome::NotRun(_) => Counts { ignored: 1, ..Counts::default() },
                Outcome::LeftOut => Counts::default(),
            };
        }
        total
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{:<18}{:>7}  result", "tier", "seconds")?;
        for Report { tier, outcome, took } in &self.reports {
            writeln!(f, "{tier:<18}{:>7.1}  {outcome}", took.as_secs_f64())?;
        }
        for Report { tier, outcome, .. } in &self.reports {
            if let Outcome::NotRun(reason) = outcome {
                let consequence = if self.is_ci { " (a failure, since CI is set)" } else { "" };
                writeln!(f, "NOT RUN: {tier}: {reason}{consequence}")?;
            }
        }
        let Counts { passed, failed, ignored } = self.total();
        write!(f, "\nchecks: {passed} passed, {failed} failed")?;
        if ignored > 0 {
            write!(f, ", {ignored} skipped")?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(counts) => write!(f, "passed{}", details(counts)),
            Self::Failed(counts) => write!(f, "FAILED{}", details(counts)),
            Self::NotRun(_) => f.write_str("NOT RUN"),
            Self::LeftOut => f.write_str("left out by the filter"),
        }
    }
}

fn details(counts: &Option<Counts>) -> String {
    counts.map_or_else(String::new, |Counts { passed, failed, ignored }| {
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        let ignored = if ignored > 0 { format!(", {ignored} ignored") } else { String::new() };
        format!(": {passed} tests{failed}{ignored}")
    })
}

#[cfg(test)]
mod tests {
    //! What the summary says, and when it is a success.

    use super::*;

    fn summary(outcomes: &[Outcome], is_ci: bool) -> Summary {
        let report = |outcome: &Outcome| Report {
            tier: "tier",
            outcome: outcome.clone(),
            took: Duration::from_millis(1234),
        };
        Summary::new(outcomes.iter().map(report).collect(), is_ci)
    }

    fn counts(passed: usize, failed: usize) -> Option<Counts> {
        Some(Counts { passed, failed, ignored: 0 })
    }

    #[test]
    fn succeeds_if_nothing_failed_and_something_ran() {
        let cases = [
            (vec![Outcome::Passed(None), Outcome::Passed(counts(5, 0))], true, "checks: 6 passed, 0 failed"),
            (vec![Outcome::Passed(None), Outcome::Failed(None)], false, "checks: 1 passed, 1 failed"),
            (vec![Outcome::Failed(counts(5, 2))], false, "checks: 5 passed, 2 failed"),
            // As when the second test program does not compile.
            (vec![Outcome::Failed(counts(5, 0))], false, "checks: 5 passed, 1 failed"),
            (vec![Outcome::LeftOut, Outcome::Passed(counts(0, 0))], false, "checks: 0 passed, 0 failed"),
        ];
        for (outcomes, is_success, last_line) in cases {
            let summary = summary(&outcomes, false);
            assert_eq!(summary.is_success(), is_success, "{outcomes:?}");
            assert_eq!(summary.to_string().lines().last(), Some(last_line), "{outcomes:?}");
        }
    }

    #[test]
    fn what_cannot_run_is_listed_and_fails_in_ci() {
        let outcomes = [Outcome::Passed(None), Outcome::NotRun("needs root".to_owned())];
        let at_home = summary(&outcomes, false);
        assert!(at_home.is_success());
        assert!(at_home.to_string().contains("NOT RUN: tier: needs root\n"), "{at_home}");
        assert!(at_home.to_string().ends_with("checks: 1 passed, 0 failed, 1 skipped\n"), "{at_home}");

        let in_ci = summary(&outcomes, true);
        assert!(!in_ci.is_success());
        assert!(in_ci.to_string().ends_with("checks: 1 passed, 1 failed\n"), "{in_ci}");
    }
}
