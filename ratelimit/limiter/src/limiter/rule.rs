//! A rule of a limiter: a limit with a name.

use ratelimit_common::limit::{Limit, LimitSpec};

use crate::store::Account;

/// A limit with a name. Each key has a bucket under each rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    name: String,
    spec: LimitSpec,
    observes: bool,
}

impl Rule {
    /// A rule that denies what exceeds its limit.
    ///
    /// Its name, algorithm and window say whose buckets are whose: a later generation's rule that has the same ones
    /// goes on with the buckets.
    pub fn new(name: impl Into<String>, spec: LimitSpec) -> Self {
        Self { name: name.into(), spec, observes: false }
    }

    /// The same rule, but it only counts: it never denies a request, and is judged last, when a request passes.
    ///
    /// ```
    /// # use std::num::NonZeroU64;
    /// # use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limit = LimitSpec::new(Algorithm::TokenBucket, Rate { amount: NonZeroU64::MIN, per: Nanos::SECOND });
    /// let limiter = Limiter::builder().rule(Rule::new("tighter", limit).observe()).build()?;
    /// limiter.check("key", 1);
    /// let decision = limiter.check("key", 1);
    /// assert!(decision.allowed() && decision.exceeded());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn observe(mut self) -> Self {
        self.observes = true;
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its limit as it was written.
    #[must_use]
    pub const fn spec(&self) -> &LimitSpec {
        &self.spec
    }

    /// Whether it only counts.
    #[must_use]
    pub const fn observes(&self) -> bool {
        self.observes
    }
}

/// A rule in force.
#[derive(Clone, Debug)]
pub(super) struct BoundRule {
    pub rule: Rule,
    pub limit: Limit,
    /// The same for asking how long to wait: one that counts denied requests takes for used what the question is
    /// denied.
    pub forgiving: Limit,
    pub account: Account,
}
