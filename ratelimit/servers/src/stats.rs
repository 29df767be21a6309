//! What the servers count about themselves, without a lock: how long answers take, and who was refused.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tracing::warn;

use super::{handler::Protocol, unjudged::Unjudged};

/// Upper bounds of the counted times, in nanoseconds; what takes longer has a count of its own.
pub const BOUNDS: [u64; 14] = [
    20_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// Counters of all servers.
#[derive(Debug, Default)]
pub struct Stats {
    grpc: AnswerTimes,
    http: AnswerTimes,
    refused: AtomicU64,
    refused_requests: AtomicU64,
    unjudged: [AtomicU64; Unjudged::ALL.len()],
    open: AtomicU64,
}

/// How long answers took.
#[derive(Debug, Default)]
pub struct AnswerTimes {
    /// Those up to each bound and above the one before; the last has no bound.
    counts: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

/// What was counted at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimesRead {
    /// Up to each of [`BOUNDS`] and above the one before; the last has no bound.
    pub counts: [u64; BOUNDS.len() + 1],
    /// All of them together.
    pub nanos: u64,
}

impl Stats {
    pub(super) fn answered(&self, protocol: Protocol, time: Duration) {
        self.times(protocol).add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn refused_one(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn refused_request(&self) {
        self.refused_requests.fetch_add(1, Relaxed);
    }

    /// Counts a question that could not be judged. The first of each kind is logged: where gateways, and not their
    /// clients, are the reason, all are denied.
    pub(super) fn unjudged(&self, why: Unjudged) {
        if self.unjudged[why as usize].fetch_add(1, Relaxed) == 0 {
            warn!(
                reason = why.name(),
                "a question was denied without being judged, as all others like \
                it will be: {why}"
            );
        }
    }

    pub(super) fn opened(&self) {
        self.open.fetch_add(1, Relaxed);
    }

    pub(super) fn closed(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    const fn times(&self, protocol: Protocol) -> &AnswerTimes {
        match protocol {
            Protocol::Grpc => &self.grpc,
            Protocol::Http => &self.http,
        }
    }

    /// How long answers over each protocol took, with its name.
    #[must_use]
    pub fn answer_times(&self) -> [(&'static str, TimesRead); 2] {
        [("grpc", self.grpc.read()), ("http", self.http.read())]
    }

    /// Connections that were refused because there were too many.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Requests that were refused because they made no sense: no JSON, or not what a route takes.
    #[must_use]
    pub fn refused_requests(&self) -> u64 {
        self.refused_requests.load(Relaxed)
    }

    /// Questions that were denied because they could not be judged, with the reason.
    #[must_use]
    pub fn denied_unjudged(&self) -> [(Unjudged, u64); Unjudged::ALL.len()] {
        Unjudged::ALL.map(|why| (why, self.unjudged[why as usize].load(Relaxed)))
    }

    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }
}

impl AnswerTimes {
    fn add(&self, nanos: u64) {
        let place = BOUNDS.partition_point(|bound| *bound < nanos);
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(1, Relaxed);
        }
        self.nanos.fetch_add(nanos, Relaxed);
    }

    fn read(&self) -> TimesRead {
        TimesRead {
            counts: std::array::from_fn(|place| {
                self.counts.get(place).map_or(0, |count| count.load(Relaxed))
            }),
            nanos: self.nanos.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Times fall below their bounds.

    use super::*;

    #[test]
    fn a_time_counts_once_below_its_bound() {
        let stats = Stats::default();
        for nanos in [0, BOUNDS[0], BOUNDS[0] + 1, BOUNDS[13], BOUNDS[13] + 1] {
            stats.answered(Protocol::Http, Duration::from_nanos(nanos));
        }
        let [(_, grpc), (name, http)] = stats.answer_times();
        assert_eq!((name, grpc), ("http", TimesRead::default()));
        let mut expected = [0; BOUNDS.len() + 1];
        (expected[0], expected[1], expected[13], expected[14]) = (2, 1, 1, 1);
        assert_eq!(http.counts, expected);
        assert_eq!(http.nanos, 2 * BOUNDS[0] + 2 * BOUNDS[13] + 2);
    }
}
