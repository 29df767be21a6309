//! What is answered: for each descriptor whether it is within its limit, and what can be told about that.

use std::sync::Arc;

use ratelimit_common::time::Nanos;
use serde_json::Value;
use smallvec::SmallVec;

use super::cached::Cached;
use crate::policy::{RequestBan, TimeUnit};

/// What [`Status::remaining`] says where no limit applies.
pub const UNLIMITED: u64 = u32::MAX as u64;

/// A request with more descriptors than this allocates memory for its answer.
const MOST_INLINE: usize = 4;

/// Whether a request, or a descriptor, may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// It may.
    Ok,
    /// It is over a limit.
    OverLimit,
}

/// One status for each descriptor of a request.
pub type Statuses = SmallVec<[Status; MOST_INLINE]>;

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Response {
    /// Whether it may go on.
    pub code: Code,
    /// One for each descriptor, in order. If there are more than [`super::MOST_DESCRIPTORS`], the others have none.
    pub statuses: Statuses,
    /// Which descriptor's limit stands for all in headers. If the request is denied, it is the one with the longest
    /// wait; among quotas the one with the shortest wait counts. Else it is the one with the least left. `None` if no
    /// limit applies.
    pub deciding: Option<usize>,
    /// What [`Self::deciding`] says, if that is not what the descriptor's status says.
    pub(super) whole: Option<Box<Status>>,
}

/// The answer about one descriptor.
#[derive(Clone, Debug)]
pub struct Status {
    /// Whether it is within its limit. In quota mode it may be over its limit, and the request goes on all the same.
    pub code: Code,
    /// The limit that applies.
    pub limit: Option<CurrentLimit>,
    /// Whole requests left; 0 if over.
    pub remaining: u64,
    /// How long until the window ends. For a bucket: until the same request passes if it was denied, else until the
    /// bucket is full.
    pub reset_after: Nanos,
    /// How long until the bucket gets the next request back, or until the window ends; 0 if none is missing.
    pub next_after: Nanos,
    /// How long the same request stays over the limit if nobody else takes anything. `None` if it is not over, or if no
    /// waiting helps.
    pub retry_after: Option<Nanos>,
    /// What [`Self::retry_after_seconds`] says.
    pub(super) retry_after_seconds: Option<u64>,
    /// Whether no waiting helps.
    pub never: bool,
    /// Whether it is above the soft limit, and passes for now.
    pub soft: bool,
    /// Whether it is over the limit, and passes since the limit only counts.
    pub shadowed: bool,
    /// Whether the limit is in quota mode.
    pub quota: bool,
    /// The rule that applies; `None` if there is none, or if the request brought the limit.
    pub rule: Option<Arc<RuleIdentity>>,
}

/// A limit, for those who ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentLimit {
    /// Requests in each [`Self::per`].
    pub requests_per_unit: u64,
    /// The unit that [`Self::per`] is one of; `None` if there is no such unit.
    pub unit: Option<TimeUnit>,
    /// The time in which there may be so many.
    pub per: Nanos,
    /// The most at once: the burst of a bucket, the requests of a window.
    pub capacity: u64,
}

/// Which rule it is.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleIdentity {
    /// Its domain.
    pub domain: String,
    /// Keys and values on the way to it, such as `key1_value1.key2`; two rules may have the same.
    pub key: String,
    /// The limit's name, if it has one.
    pub name: Option<String>,
    /// What the rule passes on to whoever asked.
    pub metadata: Option<Value>,
    /// Who is banned for exceeding it again and again.
    pub ban: Option<Arc<RequestBan>>,
    /// Its place among all rules.
    pub order: u32,
    /// What those who answer have made of it.
    pub(crate) cached: Cached,
}

impl Response {
    /// The status that stands for all in headers.
    ///
    /// If the request is denied, this status is over its limit, and its wait is the time after which all limits let the
    /// same request through at once. That can be longer than each of them says of itself: a limit that counts denied
    /// requests may have given its last units to this one.
    #[must_use]
    pub fn deciding(&self) -> Option<&Status> {
        self.whole.as_deref().or_else(|| self.statuses.get(self.deciding?))
    }

    /// Whether it may go on.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.code == Code::Ok
    }

    /// Whether it passes although it is above a soft limit.
    #[must_use]
    pub fn soft(&self) -> bool {
        self.allowed() && self.statuses.iter().any(|status| status.soft)
    }
}

impl Status {
    /// That of a descriptor that no limit applies to.
    pub(super) const NONE: Self = Self {
        code: Code::Ok,
        limit: None,
        remaining: 0,
        reset_after: Nanos(0),
        next_after: Nanos(0),
        retry_after: None,
        retry_after_seconds: None,
        never: false,
        soft: false,
        shadowed: false,
        quota: false,
        rule: None,
    };

    /// That of a descriptor of a request that is too large to be judged.
    pub(super) const NEVER: Self = Self { code: Code::OverLimit, never: true, ..Self::NONE };

    /// [`Self::reset_after`] in whole seconds, rounded up; `None` if no limit applies. If that is the wait,
    /// [`Self::retry_after_seconds`].
    #[must_use]
    pub fn duration_until_reset(&self) -> Option<u64> {
        let is_wait = self.retry_after == Some(self.reset_after);
        let seconds = self.retry_after_seconds.filter(|_| is_wait);
        self.limit.map(|_| seconds.unwrap_or_else(|| seconds_up(self.reset_after)))
    }

    /// After how many whole seconds, at least 1, the same request passes if nobody else takes anything:
    /// [`Self::retry_after`] rounded up, or more if a soft limit would deny it again by then.
    #[must_use]
    pub const fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after_seconds
    }

    /// [`Self::next_after`] in whole seconds, rounded up.
    #[must_use]
    pub fn next_after_seconds(&self) -> u64 {
        seconds_up(self.next_after)
    }
}

impl CurrentLimit {
    /// The seconds in which the whole capacity comes back, rounded up, at least 1: a window's length. For a limit that
    /// denies everything it is [`Self::per`].
    #[must_use]
    pub fn window_seconds(&self) -> u64 {
        if self.capacity == 0 {
            return seconds_up(self.per).max(1);
        }
        let nanos = u128::from(self.capacity) * u128::from(self.per.0);
        let per_second = u128::from(self.requests_per_unit.max(1)) * u128::from(Nanos::SECOND.0);
        u64::try_from(nanos.div_ceil(per_second)).unwrap_or(u64::MAX).max(1)
    }
}

impl RuleIdentity {
    /// How the rule is called: by its name, else by its key.
    #[must_use]
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.key)
    }
}

/// Rounded up.
pub(super) const fn seconds_up(nanos: Nanos) -> u64 {
    nanos.0.div_ceil(Nanos::SECOND.0)
}
