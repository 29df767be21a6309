//! What came of the questions to a store that several processes share.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::store::remote::{RemoteError, RemoteHealth};

/// Upper bounds of the times in which the store answered, in microseconds; what took longer comes on top.
pub const LATENCY_BOUNDS: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// What came of the questions so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedStoreStats {
    /// How the store is.
    pub health: RemoteHealth,
    /// Questions without a decision, by why: the store did not work, did not answer in time, was asked for too much, or
    /// keeps something else under a bucket's key.
    pub errors: [(&'static str, u64); 4],
    /// Decisions while there was none of the store, by what was done instead.
    pub without_store: [(&'static str, u64); 3],
    /// Requests that were denied by what was known of exhausted keys.
    pub recalled: u64,
    /// Requests about which the store and this process came to different decisions; then they were denied. There are
    /// none.
    pub disagreements: u64,
    /// Questions by the time that they took, one for each of [`LATENCY_BOUNDS`] and one more.
    pub latencies: [u64; LATENCY_BOUNDS.len() + 1],
    /// All of these times together.
    pub latency: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    errors: [AtomicU64; 4],
    allowed: AtomicU64,
    denied: AtomicU64,
    local: AtomicU64,
    recalled: AtomicU64,
    disagreements: AtomicU64,
    latencies: [AtomicU64; LATENCY_BOUNDS.len() + 1],
    /// In microseconds.
    latency: AtomicU64,
}

/// What was done instead of asking.
#[derive(Clone, Copy, Debug)]
pub(super) enum Instead {
    Allowed,
    Denied,
    Local,
}

const ERRORS: [&str; 4] = ["unavailable", "timed_out", "overloaded", "foreign"];

impl Counts {
    pub(super) fn failed(&self, error: &RemoteError) {
        let index = match error {
            RemoteError::Unavailable(_) => 0,
            RemoteError::TimedOut => 1,
            RemoteError::Overloaded => 2,
            RemoteError::Foreign(_) => 3,
        };
        self.errors[index].fetch_add(1, Relaxed);
    }

    pub(super) fn did(&self, instead: Instead) {
        let counter = match instead {
            Instead::Allowed => &self.allowed,
            Instead::Denied => &self.denied,
            Instead::Local => &self.local,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn recalled(&self) {
        self.recalled.fetch_add(1, Relaxed);
    }

    pub(super) fn disagreed(&self) {
        self.disagreements.fetch_add(1, Relaxed);
    }

    pub(super) fn took(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let index = LATENCY_BOUNDS.iter().position(|bound| micros <= *bound).unwrap_or(LATENCY_BOUNDS.len());
        self.latencies[index].fetch_add(1, Relaxed);
        self.latency.fetch_add(micros, Relaxed);
    }

    pub(super) fn read(&self, health: RemoteHealth) -> SharedStoreStats {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        SharedStoreStats {
            health,
            errors: std::array::from_fn(|index| (ERRORS[index], read(&self.errors[index]))),
            without_store: [
                ("allow", read(&self.allowed)),
                ("deny", read(&self.denied)),
                ("local", read(&self.local)),
            ],
            recalled: read(&self.recalled),
            disagreements: read(&self.disagreements),
            latencies: std::array::from_fn(|index| read(&self.latencies[index])),
            latency: Duration::from_micros(read(&self.latency)),
        }
    }
}
