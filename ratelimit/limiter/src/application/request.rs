//! What is asked: a domain, descriptors, and what the request costs.
//!
//! Gateways let a request pass that they get an error for. So errors are about what the one who asks has written, and
//! never about what a client can choose: keys, values and costs of any size are judged, and what is more than can be
//! judged is denied.

use crate::policy::TimeUnit;

/// Descriptors of a request that are judged. One with more is denied.
pub const MOST_DESCRIPTORS: usize = 100;

/// Entries of a descriptor that are judged. A request with a descriptor of more is denied.
pub const MOST_ENTRIES: usize = 32;

/// Hits that a limit can let through at once. More never pass, however large the limit is, unless it can be overrun.
pub const MOST_HITS: u64 = 1_000_000_000;

/// A question: may this request go on?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whose rules are asked.
    pub domain: String,
    /// What the request is, in several ways; each may have a limit.
    pub descriptors: Vec<Descriptor>,
    /// What it takes of each limit, unless the descriptor says otherwise; 0 means 1.
    pub hits_addend: u32,
}

/// One way to see a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Keys with their values, in order.
    pub entries: Vec<(String, String)>,
    /// A limit that takes the place of the rules'.
    pub limit: Option<LimitOverride>,
    /// What it takes; 0 only asks.
    pub hits_addend: Option<u64>,
    /// Whether it gives back instead of taking: to a limit that does not count denied requests only if the request
    /// passes.
    pub is_negative_hits: bool,
}

/// A limit that a request brings along: a fixed window.
///
/// ```
/// use ratelimit_limiter::application::{Descriptor, LimitOverride, TimeUnit};
///
/// let limit = Some(LimitOverride { requests_per_unit: 50, unit: Some(TimeUnit::Hour) });
/// let descriptor = Descriptor { limit, ..Descriptor::of([("plan", "trial"), ("user", "frank")]) };
/// # let _ = descriptor;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOverride {
    /// How many requests; 0 denies all.
    pub requests_per_unit: u32,
    /// In which time; `None` if the request named none, or one that is not known, which is an error.
    pub unit: Option<TimeUnit>,
}

/// Why a request can't be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No domain.
    #[error("rate limit domain must not be empty")]
    EmptyDomain,
    /// Nothing to look up.
    #[error("rate limit descriptor list must not be empty")]
    NoDescriptors,
    /// A limit of its own in a unit that is not known.
    #[error(
        "descriptor {descriptor} brings a limit with an unknown unit; \
         accepted: SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR"
    )]
    UnknownUnit {
        /// Which descriptor, from 0.
        descriptor: usize,
    },
}

impl Request {
    /// Refuses what makes no sense, before anything is counted.
    ///
    /// # Errors
    /// What whoever asks has to write otherwise.
    pub fn check(&self) -> Result<(), RequestError> {
        if self.domain.is_empty() {
            return Err(RequestError::EmptyDomain);
        }
        if self.descriptors.is_empty() {
            return Err(RequestError::NoDescriptors);
        }
        let is_unknown = |descriptor: &Descriptor| descriptor.limit.is_some_and(|limit| limit.unit.is_none());
        match self.descriptors.iter().position(is_unknown) {
            Some(descriptor) => Err(RequestError::UnknownUnit { descriptor }),
            None => Ok(()),
        }
    }

    /// Whether it is more than is judged.
    #[must_use]
    pub fn is_too_much(&self) -> bool {
        self.descriptors.len() > MOST_DESCRIPTORS
            || self.descriptors.iter().any(|descriptor| descriptor.entries.len() > MOST_ENTRIES)
    }
}

impl Descriptor {
    /// A descriptor of these entries and nothing else.
    pub fn of<K: Into<String>, V: Into<String>>(entries: impl IntoIterator<Item = (K, V)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self { entries, ..Self::default() }
    }

    /// What it takes, or gives back.
    #[must_use]
    pub fn hits(&self, of_request: u32) -> u64 {
        self.hits_addend.unwrap_or_else(|| of_request.max(1).into())
    }
}
