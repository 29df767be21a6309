//! What the proxy counts: of each server, and of requests that no server got.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::failure::UpstreamFailure;

/// What is counted of one server.
#[derive(Debug, Default)]
pub struct UpstreamStats {
    requests: AtomicU64,
    in_flight: AtomicU64,
    failures: [AtomicU64; UpstreamFailure::ALL.len()],
}

/// What is counted of all requests that no server got.
#[derive(Debug, Default)]
pub struct ProxyStats {
    refused: AtomicU64,
    no_route: AtomicU64,
    busy: AtomicU64,
    unjudged: AtomicU64,
}

impl UpstreamStats {
    /// Counts a request.
    pub fn begun(&self) {
        self.requests.fetch_add(1, Relaxed);
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// One was answered, or never will be.
    pub fn ended(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
    }

    /// Counts a failure.
    pub fn failed(&self, failure: UpstreamFailure) {
        if let Some(count) = self.failures.get(failure as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Requests that it was given.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Requests that it has yet to answer.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// How often it failed in which way.
    pub fn failures(&self) -> impl Iterator<Item = (UpstreamFailure, u64)> {
        UpstreamFailure::ALL.into_iter().zip(self.failures.iter().map(|count| count.load(Relaxed)))
    }
}

/// Why no server got a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// It can be understood in several ways, or is not for proxies.
    Refused,
    /// There is no route for it.
    NoRoute,
    /// There are too many.
    Busy,
    /// The limiter has failed, and such requests are denied.
    Unjudged,
}

impl Turned {
    const ALL: [Self; 4] = [Self::Refused, Self::NoRoute, Self::Busy, Self::Unjudged];

    /// The label in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::NoRoute => "no_route",
            Self::Busy => "busy",
            Self::Unjudged => "unjudged",
        }
    }
}

impl ProxyStats {
    pub(super) fn turned(&self, why: Turned) {
        self.of(why).fetch_add(1, Relaxed);
    }

    const fn of(&self, why: Turned) -> &AtomicU64 {
        match why {
            Turned::Refused => &self.refused,
            Turned::NoRoute => &self.no_route,
            Turned::Busy => &self.busy,
            Turned::Unjudged => &self.unjudged,
        }
    }

    /// How many requests no server got, and why.
    pub fn turned_away(&self) -> impl Iterator<Item = (Turned, u64)> {
        Turned::ALL.into_iter().map(|why| (why, self.of(why).load(Relaxed)))
    }
}
