//! The summary at the end of `cargo xtask test`: one line a tier, what could not run, and the total.

use std::fmt;
use std::time::Duration;

use super::tier::{Counts, TierOutcome};

/// How one tier went.
pub struct Report {
    /// The tier's name.
    pub tier: &'static str,
    /// How it ended.
    pub outcome: TierOutcome,
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
        for Report { outcome, .. } in &self.reports {
            total += outcome.counts();
            match outcome {
                TierOutcome::NotRun(..) if self.is_ci => total.failed += 1,
                TierOutcome::NotRun(..) => total.ignored += 1,
                _ => {}
            }
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
            if let TierOutcome::NotRun(reason, _) = outcome {
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

impl fmt::Display for TierOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(counts) => write!(f, "passed{}", details(counts)),
            Self::Failed(counts) => write!(f, "FAILED{}", details(counts)),
            Self::NotRun(_, counts) if *counts == Counts::default() => f.write_str("NOT RUN"),
            Self::NotRun(_, counts) => write!(f, "NOT ALL RUN{}", details(&Some(*counts))),
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

    fn summary(outcomes: &[TierOutcome], is_ci: bool) -> Summary {
        let report = |outcome: &TierOutcome| Report {
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
            (
                vec![TierOutcome::Passed(None), TierOutcome::Passed(counts(5, 0))],
                true,
                "checks: 6 passed, 0 failed",
            ),
            (vec![TierOutcome::Passed(None), TierOutcome::Failed(None)], false, "checks: 1 passed, 1 failed"),
            (vec![TierOutcome::Failed(counts(5, 2))], false, "checks: 5 passed, 2 failed"),
            // As when the second test program does not compile.
            (vec![TierOutcome::Failed(counts(5, 0))], false, "checks: 5 passed, 1 failed"),
            (
                vec![TierOutcome::LeftOut, TierOutcome::Passed(counts(0, 0))],
                false,
                "checks: 0 passed, 0 failed",
            ),
        ];
        for (outcomes, is_success, last_line) in cases {
            let summary = summary(&outcomes, false);
            assert_eq!(summary.is_success(), is_success, "{outcomes:?}");
            assert_eq!(summary.to_string().lines().last(), Some(last_line), "{outcomes:?}");
        }
    }

    #[test]
    fn what_cannot_run_is_listed_and_fails_in_ci() {
        let in_part = counts(4, 0).map(|counts| TierOutcome::NotRun("needs fail2ban".to_owned(), counts));
        for (outcome, reason, ran) in
            [(TierOutcome::not_run("needs root"), "needs root", 0), (in_part.unwrap(), "needs fail2ban", 4)]
        {
            let (outcomes, passed) = ([TierOutcome::Passed(None), outcome], 1 + ran);
            let at_home = summary(&outcomes, false);
            assert!(at_home.is_success());
            assert!(at_home.to_string().contains(&format!("NOT RUN: tier: {reason}\n")), "{at_home}");
            let last = format!("checks: {passed} passed, 0 failed, 1 skipped\n");
            assert!(at_home.to_string().ends_with(&last), "{at_home}");

            let in_ci = summary(&outcomes, true);
            assert!(!in_ci.is_success());
            assert!(in_ci.to_string().ends_with(&format!("checks: {passed} passed, 1 failed\n")), "{in_ci}");
        }
    }

    #[test]
    fn what_failed_fails_beside_what_cannot_run() {
        let summary =
            summary(&[TierOutcome::NotRun("needs fail2ban".to_owned(), counts(4, 2).unwrap())], false);
        assert!(!summary.is_success());
        assert!(summary.to_string().contains("NOT ALL RUN: 4 tests, 2 failed\n"), "{summary}");
    }
}
