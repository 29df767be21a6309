//! A limit on requests in force: what the algorithms need, what the store needs, and what is told about it.

use ratelimit_common::{
    algorithm,
    limit::{Algorithm, Limit, StateKind},
    time::Nanos,
};

use super::{response::CurrentLimit, wait::Wait};
use crate::{
    policy::{NearLimitRatio, RequestRate, SoftLimit},
    store::Account,
};

/// A limit on requests in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActiveLimit {
    pub(super) limit: Limit,
    pub(super) account: Account,
    pub(super) current: CurrentLimit,
    /// Use above this is near the limit.
    pub(super) near: u64,
    pub(super) soft: Option<SoftLimit>,
    /// Whether it is a fixed window that counts whatever is denied, so that its count tells whether it is exceeded.
    pub(super) counts_all: bool,
}

/// What one limit says about one descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitVerdict {
    pub(super) over: bool,
    /// Above the soft limit, and not over.
    pub(super) soft: bool,
    /// Units used after it was charged, or found if it was not.
    pub(super) used: u64,
    pub(super) remaining: u64,
    pub(super) reset_after: Nanos,
    pub(super) next_after: Nanos,
    /// How long the same request is over, unless never.
    pub(super) wait: Option<Wait>,
    pub(super) never: bool,
    /// Units of the cost that were not taken, since no more can be owed.
    pub(super) cut: u64,
}

impl LimitVerdict {
    /// The same about a request that no waiting helps.
    pub(super) const fn forever(self) -> Self {
        Self { over: true, soft: false, remaining: 0, wait: None, never: true, ..self }
    }
}

impl ActiveLimit {
    pub(super) fn new(rate: &RequestRate, limit: Limit, account: Account, near: NearLimitRatio) -> Self {
        let capacity = rate.capacity();
        let spec = rate.spec();
        Self {
            limit,
            account,
            current: CurrentLimit {
                requests_per_unit: rate.requests(),
                unit: rate.unit(),
                per: spec.rate.per,
                capacity,
            },
            near: near.of(capacity),
            soft: rate.soft(),
            counts_all: spec.algorithm == Algorithm::FixedWindow && spec.count_denied,
        }
    }

    /// Whether it lets nothing through, and keeps no count either.
    pub(super) const fn is_closed(&self) -> bool {
        self.current.capacity == 0 && !self.counts_all
    }

    /// Whether it has a window that ends, other than a bucket that fills.
    pub(super) fn is_window(&self) -> bool {
        match self.limit.kind() {
            StateKind::ArrivalTime | StateKind::Interval => false,
            StateKind::Window
            | StateKind::SlidingCounter
            | StateKind::WideSlidingCounter
            | StateKind::Log => true,
        }
    }

    /// Whether it is charged whatever others say.
    pub(super) const fn stands_alone(&self) -> bool {
        self.limit.always_charges()
    }

    /// Whether a cost is allowed while one unit is left, however large it is.
    pub(super) const fn overruns(&self) -> bool {
        self.limit.overruns()
    }

    /// What the store's decision about `hits` means.
    pub(super) fn verdict(&self, decision: &algorithm::LimitDecision<'_>, hits: u32) -> LimitVerdict {
        if self.counts_all { self.of_count(decision, hits) } else { self.of_decision(decision) }
    }

    /// A request that only asks is over if the count is, which it is not when it is just reached.
    fn of_count(&self, decision: &algorithm::LimitDecision<'_>, hits: u32) -> LimitVerdict {
        let (used, capacity) = (decision.used(), self.current.capacity);
        let reset_after = decision.reset_after();
        let over = used > capacity;
        let never = over && u64::from(hits.max(1)) > capacity;
        LimitVerdict {
            over,
            soft: false,
            used,
            remaining: capacity.saturating_sub(used),
            reset_after,
            next_after: if used == 0 { Nanos(0) } else { reset_after },
            wait: (over && !never).then(|| Wait::until(reset_after)),
            never,
            cut: 0,
        }
    }

    fn of_decision(&self, decision: &algorithm::LimitDecision<'_>) -> LimitVerdict {
        let over = !decision.allowed;
        let retry_after = decision.retry_after();
        let reset_after = match retry_after {
            Some(wait) if !self.is_window() => wait,
            _ => decision.reset_after(),
        };
        LimitVerdict {
            over,
            soft: false,
            used: decision.used(),
            remaining: if over { 0 } else { decision.remaining() },
            reset_after,
            next_after: decision.next_after(),
            wait: retry_after.map(Wait::until),
            never: over && decision.never(),
            cut: decision.cut(),
        }
    }

    /// The verdict of a limit that lets nothing through.
    pub(super) const CLOSED: LimitVerdict = LimitVerdict {
        over: true,
        soft: false,
        used: 0,
        remaining: 0,
        reset_after: Nanos(0),
        next_after: Nanos(0),
        wait: None,
        never: true,
        cut: 0,
    };
}
