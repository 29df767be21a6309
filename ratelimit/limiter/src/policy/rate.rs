//! How many requests a limit lets through, in which time and by which algorithm, and what it may have beside that.

use std::num::{NonZeroU32, NonZeroU64};

use ratelimit_common::{
    limit::{Algorithm, LimitError, LimitSpec, Rate, StateStorage},
    time::Nanos,
};

use super::TimeUnit;

/// A number of requests in a time: a limit that a bucket in memory can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestRate {
    spec: LimitSpec,
    denies_all: bool,
    soft: Option<SoftLimit>,
}

/// A lower limit, above which requests pass for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftLimit {
    /// How many requests may be used up before it is exceeded.
    pub limit: NonZeroU64,
    /// For how long requests pass above it.
    pub lasts: Nanos,
}

/// Why numbers do not make a limit on requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestLimitError {
    /// The numbers of the limit itself.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The soft limit is not below the limit itself.
    #[error("a soft limit of {soft} is never reached before the limit itself, {limit}; it must be lower")]
    SoftNotLower {
        /// The soft one.
        soft: NonZeroU64,
        /// The other.
        limit: u64,
    },
}

impl RequestRate {
    /// `requests` in each `per`; none of them means that all are denied.
    ///
    /// # Errors
    /// A bucket in memory can't hold it.
    pub fn new(
        algorithm: Algorithm,
        requests: u32,
        per: Nanos,
        options: RateOptions,
    ) -> Result<Self, RequestLimitError> {
        let RateOptions { burst, count_denied, overrun, soft } = options;
        // Where all are denied they are counted as under the least limit, for a limit that may come later.
        let amount = NonZeroU32::new(requests).unwrap_or(NonZeroU32::MIN);
        let rate = Rate { amount: amount.into(), per };
        let spec = LimitSpec { burst, count_denied, overrun, ..LimitSpec::new(algorithm, rate) };
        let limit = spec.build(StateStorage::UserSpace)?;
        let capacity = if requests == 0 { 0 } else { limit.capacity() };
        match soft {
            Some(soft) if soft.limit.get() >= capacity => {
                Err(RequestLimitError::SoftNotLower { soft: soft.limit, limit: capacity })
            }
            _ => Ok(Self { spec, denies_all: requests == 0, soft }),
        }
    }

    /// A fixed window that counts whatever is denied too: what a rule without an algorithm is.
    ///
    /// # Errors
    /// A bucket in memory can't hold it; none of a [`TimeUnit`] is such.
    pub fn window(requests: u32, per: Nanos) -> Result<Self, RequestLimitError> {
        let options = RateOptions { count_denied: true, ..RateOptions::default() };
        Self::new(Algorithm::FixedWindow, requests, per, options)
    }

    /// The limit as the algorithms know it; one request if all are denied.
    #[must_use]
    pub const fn spec(&self) -> &LimitSpec {
        &self.spec
    }

    /// Whether it lets nothing through.
    #[must_use]
    pub const fn denies_all(&self) -> bool {
        self.denies_all
    }

    /// Requests in each of its periods.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        if self.denies_all { 0 } else { self.spec.rate.amount.get() }
    }

    /// The most at once: the burst of a bucket, the requests of a window.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        if self.denies_all { 0 } else { self.spec.burst.unwrap_or(self.spec.rate.amount).get() }
    }

    /// One of so many shares of it, rounded up: a limit like it, for the same buckets.
    pub(crate) fn share(&self, of: NonZeroU32) -> Self {
        let part = |of_all: NonZeroU64| {
            NonZeroU64::new(of_all.get().div_ceil(of.get().into())).unwrap_or(NonZeroU64::MIN)
        };
        let rate = Rate { amount: part(self.spec.rate.amount), ..self.spec.rate };
        let spec = LimitSpec { rate, burst: self.spec.burst.map(part), ..self.spec };
        let capacity = spec.burst.unwrap_or(rate.amount);
        let soft = self.soft.map(|soft| SoftLimit { limit: part(soft.limit), ..soft });
        Self { spec, denies_all: self.denies_all, soft: soft.filter(|soft| soft.limit < capacity) }
    }

    /// The unit of its time, if that is one.
    #[must_use]
    pub fn unit(&self) -> Option<TimeUnit> {
        TimeUnit::of_length(self.spec.rate.per)
    }

    /// The lower limit.
    #[must_use]
    pub const fn soft(&self) -> Option<SoftLimit> {
        self.soft
    }
}

/// What a limit may have beside its rate.
///
/// ```
/// # use std::num::NonZeroU64;
/// # use ratelimit_limiter::{Nanos, application::{RateOptions, SoftLimit}};
/// // Above 200 for ten seconds at most.
/// const SOFT: NonZeroU64 = NonZeroU64::new(200).unwrap();
/// let soft = Some(SoftLimit { limit: SOFT, lasts: Nanos::from_secs(10) });
/// let options = RateOptions { soft, ..RateOptions::default() };
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateOptions {
    /// Capacity of a bucket.
    pub burst: Option<NonZeroU64>,
    /// Whether what is denied counts too.
    pub count_denied: bool,
    /// Whether a cost above what is left is charged whole, and owed.
    pub overrun: bool,
    /// A lower limit.
    pub soft: Option<SoftLimit>,
}
