//! Stores that several processes share: the seam between the limiter and a store that is asked over a network.
//!
//! A [`RemoteStore`] is asked once for a request: it reads the states of all its buckets at one time of its own clock,
//! decides, commits, and gives back the states as they were before. Every number of the answer follows from these by
//! the same function that decides about buckets in memory. So what a store has to know of a request is all in a
//! [`Question`], and what it says about it in a [`Reading`].

mod erased;
mod outcomes;

use ratelimit_common::{
    limit::StateKind,
    time::{Nanos, Now},
};
use smallvec::SmallVec;

pub(crate) use self::erased::ErasedStore;
pub use self::outcomes::Outcomes;
use super::{State, Zero};
pub use crate::{
    policy::SoftLimit,
    transaction::{Act, Over, Part, Say},
};

/// Buckets of a request without memory of their own.
const MOST_INLINE: usize = 4;

/// Keeps buckets for several processes.
///
/// Its futures are polled wherever requests are answered, also outside of the runtime that drives its connections. Each
/// ends within [`Self::answers_within`], whatever becomes of the network.
pub trait RemoteStore: Send + Sync + 'static {
    /// Decides about a request and charges it, all or nothing, or says how the buckets are if nothing is to be charged.
    ///
    /// What has been charged when nobody polls the future any more stays charged; what has not been sent by then is
    /// dropped.
    ///
    /// # Errors
    /// The store can't be asked, or has no sense in it. No client can bring that about by what it sends.
    fn decide<'q>(
        &'q self,
        question: Question<'q>,
    ) -> impl Future<Output = Result<Reading, RemoteError>> + Send + 'q;

    /// Charges without an answer, as soon as there is time for it. What finds no room is dropped. It is asked for
    /// charges that change no decision.
    fn charge_later(&self, question: Question<'_>);

    /// Forgets buckets with all that belongs to them, and says how many there were.
    ///
    /// # Errors
    /// As of [`Self::decide`].
    fn reset<'q>(
        &'q self,
        buckets: &'q [BucketKey<'q>],
    ) -> impl Future<Output = Result<u64, RemoteError>> + Send + 'q;

    /// The longest time after which it has answered, or failed.
    fn answers_within(&self) -> std::time::Duration;

    /// How it is.
    fn health(&self) -> RemoteHealth;
}

/// One request to be decided about.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// The buckets, each once. Part `n` is about bucket `of_part[n]`.
    pub buckets: &'q [BucketKey<'q>],
    /// What each limit has to do with the request, in order. The limits' windows are not aligned to the store's clock.
    pub parts: &'q [Part<'q>],
    /// For each part its bucket.
    pub of_part: &'q [usize],
    /// Whether the request passes whatever limits say: shadow mode of all.
    pub passes_all: bool,
    /// Whether the request has a quota that is never over, so that quotas are never all over.
    pub has_open_quota: bool,
    /// By the store's clock, since the Unix epoch: the time from which on it is void. `None` if the store's own timeout
    /// says so.
    pub not_after: Option<Nanos>,
}

/// Whose bucket, in full: two different ones never are the same bucket.
#[derive(Clone, Copy, Debug)]
pub struct BucketKey<'q> {
    /// The domain of the request.
    pub domain: &'q str,
    /// What its rule's buckets go by, over reloads too; the same for all counts of windows.
    pub account: &'q str,
    /// How its states are laid out. A wide sliding counter's are those of [`StateKind::SlidingCounter`].
    pub kind: StateKind,
    /// The window, if states depend on it; else 0.
    pub window: Nanos,
    /// Keys and values that tell the bucket from others, in order.
    pub entries: &'q [(&'q str, &'q str)],
}

/// The states of a request's buckets, and what the store made of them.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Where the times of the states begin, by the store's clock. It should be the same for long, and must be so that
    /// neither `now` nor a time in a state leaves the first 64 bits of ticks.
    pub zero: Zero,
    /// The time of the decision.
    pub now: Now,
    /// For each bucket of the question what it was before.
    pub buckets: SmallVec<[Found; MOST_INLINE]>,
    /// Whether it let the request pass, and so charged it. Whoever only asks gets what it would say.
    pub admitted: bool,
}

/// A bucket as it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its state, by a limit whose windows are aligned to the reading's zero ([`Zero::align`]); a fresh one's if there
    /// is none.
    pub state: State,
    /// Since when use has been above the soft limit, if it is.
    pub above_since: Option<Now>,
}

/// Why a store did not decide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// It is not reached, or says that it can't work now.
    #[error("the store does not work: {0}")]
    Unavailable(String),
    /// There was no answer in time. What was asked is charged at most once.
    #[error("the store did not answer in time")]
    TimedOut,
    /// More is asked than it answers, so that nothing was sent.
    #[error("the store is asked more than it can answer")]
    Overloaded,
    /// Something else is kept under the key of a bucket, or what it does not understand.
    #[error("the store keeps something else under a bucket's key: {0}")]
    Foreign(String),
}

/// How a store is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteHealth {
    /// What it is and where, without secrets: `redis 127.0.0.1:6379`.
    pub name: String,
    /// Whether it is asked.
    pub breaker: Breaker,
}

/// Whether a store is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Breaker {
    /// It is.
    #[default]
    Closed,
    /// One request in a while tries whether it works again.
    HalfOpen,
    /// It is not, since it failed.
    Open,
}

impl Reading {
    /// An empty reading at one time.
    #[must_use]
    pub fn at(zero: Zero, now: Now, admitted: bool) -> Self {
        Self { zero, now, buckets: SmallVec::new(), admitted }
    }
}
