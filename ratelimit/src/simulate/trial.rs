//! One limit on trial: a limiter of its own, whose clock is the recording.

use ratelimit_common::limit::LimitSpec;

use super::{
    arrivals::Arrival,
    tally::{Summary, Tally},
};
use crate::{
    clock::FakeClock,
    limiter::{Decision, Limiter, LimiterError, Nanos, Rule},
};

/// A limit, and what it has done so far.
#[derive(Debug)]
pub struct LimitTrial {
    spec: LimitSpec,
    tally: Tally,
    /// Made when the first request comes, whose time is the limiter's zero.
    limiter: Option<Limiter<FakeClock>>,
    clock: FakeClock,
}

impl LimitTrial {
    /// A limit on trial.
    #[must_use]
    pub fn new(spec: LimitSpec) -> Self {
        Self { spec, tally: Tally::new(spec.rate.per), limiter: None, clock: FakeClock::default() }
    }

    /// The limit.
    #[must_use]
    pub const fn spec(&self) -> &LimitSpec {
        &self.spec
    }

    /// Decides about a request, which is not earlier than any before.
    ///
    /// # Errors
    /// No bucket can hold the limit, or there is no memory.
    pub fn decide(&mut self, arrival: &Arrival<'_>) -> Result<Decision<'_>, LimiterError> {
        self.clock.set(arrival.at);
        if self.limiter.is_none() {
            let builder = Limiter::builder().rule(Rule::new("trial", self.spec)).clock(self.clock.clone());
            self.limiter = Some(builder.build()?);
        }
        let Some(limiter) = &self.limiter else { return Ok(Decision::UNLIMITED) };
        let decision = limiter.check(arrival.key, arrival.cost);
        if decision.allowed() {
            let wait = decision.leaves_after().unwrap_or_default();
            let leaves = Nanos(arrival.at.0.saturating_add(wait.0));
            self.tally.allowed(arrival.key, leaves, wait, arrival.cost);
        } else {
            self.tally.denied(decision.retry_after());
        }
        Ok(decision)
    }

    /// What it did.
    #[must_use]
    pub const fn summary(&self) -> Summary {
        self.tally.summary()
    }

    /// How many keys were forgotten because there were too many.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.limiter.as_ref().map_or(0, |limiter| limiter.store().live_evictions())
    }
}
