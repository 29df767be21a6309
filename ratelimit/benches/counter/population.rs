//! Many sources of very different rates, each judged by both algorithms. The traffic of one is in `traffic`.

use std::num::NonZeroU64;

use ratelimit_common::{limit::LimitError, time::Nanos};

use super::{
    rivals::{Rivals, Tally},
    traffic::{Arrivals, Random, Shape},
};

/// The limit's window.
pub const WINDOW: Nanos = Nanos::from_secs(60);

/// A few more than the 100,000 that must have sent something.
pub const SOURCES: u64 = 110_000;

/// The source of this rank sends as much as the limit allows, on average.
const RANK_AT_LIMIT: u64 = 1_000;

const LEAST_REQUESTS: f64 = 12e6;
const LEAST_WINDOWS: u64 = 10;

/// Sources of about the same rate.
pub struct Class {
    pub name: &'static str,
    /// Their ranks end before this one.
    end: u64,
}

/// From the fastest to the slowest.
pub const CLASSES: [Class; 3] = [
    Class { name: "above twice the limit", end: RANK_AT_LIMIT / 2 },
    Class { name: "half to twice", end: RANK_AT_LIMIT * 2 },
    Class { name: "below half", end: SOURCES + 1 },
];

/// Sources under the same limit.
pub struct Population {
    /// Requests in a window.
    pub amount: NonZeroU64,
    pub shape: Shape,
}

/// What came of their requests.
pub struct Report {
    pub windows: u64,
    /// How many sent at least one request.
    pub sources: u64,
    /// For each class.
    pub tallies: [Tally; 3],
}

impl Report {
    pub fn total(&self) -> Tally {
        self.tallies.iter().fold(Tally::default(), |mut total, tally| {
            total += *tally;
            total
        })
    }
}

impl Population {
    /// Sources share nothing, so one after the other gives the same as all at once.
    pub fn run(&self) -> Result<Report, LimitError> {
        let rivals = Rivals::new(self.amount, WINDOW)?;
        let mut report = Report { windows: self.windows(), sources: 0, tallies: Default::default() };
        let end = Nanos(report.windows * WINDOW.0);
        for rank in 1..=SOURCES {
            let arrivals = Arrivals::new(self.shape, self.gap(rank), end, Random(rank << 32));
            let tally = rivals.judge(arrivals);
            report.sources += u64::from(tally.requests > 0);
            let class = CLASSES.iter().position(|class| rank < class.end).unwrap_or(CLASSES.len() - 1);
            report.tallies[class] += tally;
        }
        Ok(report)
    }

    /// The mean time between requests in nanoseconds: that of the limit, times the rank's share (Zipf's law).
    fn gap(&self, rank: u64) -> f64 {
        WINDOW.0 as f64 / self.amount.get() as f64 * rank as f64 / RANK_AT_LIMIT as f64
    }

    /// Enough for the requests wanted.
    fn windows(&self) -> u64 {
        let in_window: f64 = (1..=SOURCES).map(|rank| WINDOW.0 as f64 / self.gap(rank)).sum();
        ((LEAST_REQUESTS / in_window).ceil() as u64).max(LEAST_WINDOWS)
    }
}
