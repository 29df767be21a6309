//! How long a denied request has to wait: until all of its limits let it through at once, if nobody else takes
//! anything.
//!
//! A limit lets it through from some moment on, except that one with a soft limit does not from the end of the time
//! above that until use has fallen below it. What the denied request was charged counts: a limit that had room for it
//! may have none for the next one like it.

use std::{cmp::Reverse, ops::Range};

use ratelimit_common::time::{Nanos, Now};
use smallvec::SmallVec;

use super::{
    evaluator::{CheckOutcome, Evaluated, LimitCheck, MOST_INLINE, are_quotas_open},
    response::seconds_up,
};
use crate::{
    policy::SoftLimit,
    transaction::{BucketSnapshot, time_left},
};

/// How long a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// It passes then, and not a nanosecond before.
    pub(super) exact: Nanos,
    /// It passes after so many whole seconds, at least 1. That is not always the next one: a soft limit can deny it
    /// again by then.
    pub(super) seconds: u64,
}

/// When one limit lets a request through, as times from now.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    /// `None` if never.
    from: Option<Nanos>,
    /// When it does not although there is room.
    closed: Range<Nanos>,
}

type Openings = SmallVec<[Opening; MOST_INLINE]>;

/// The limit that a request waits for longest.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongestWait {
    /// Its index among those that were asked.
    pub(super) check: usize,
    /// `None` if no waiting helps.
    pub(super) wait: Option<Wait>,
}

impl Wait {
    /// Until a time from which on the request passes.
    pub(super) fn until(exact: Nanos) -> Self {
        Self { exact, seconds: seconds_up(exact).max(1) }
    }

    /// From a function that tells when a request passes that waits for at least so long.
    fn of(passes: impl Fn(Nanos) -> Option<Nanos>) -> Option<Self> {
        let mut wait = Self::until(passes(Nanos(0))?);
        // Each round leaves a time behind in which a limit is closed, and each limit has one at most.
        while let Some(time) = passes(Nanos::from_secs(wait.seconds)).map(seconds_up)
            && time > wait.seconds
        {
            wait.seconds = time;
        }
        Some(wait)
    }
}

impl Opening {
    /// When a limit lets a request through that takes `before` from the same bucket first.
    pub(super) fn of(check: &LimitCheck<'_>, bucket_state: &BucketSnapshot, before: u32, now: Now) -> Self {
        let closed =
            check.limit.soft.and_then(|soft| closed(check, bucket_state, soft, now)).unwrap_or_default();
        Self { from: until_room(check, bucket_state, before, now), closed }
    }

    /// When it lets a request through that waits for at least so long.
    fn after(&self, least: Nanos) -> Option<Nanos> {
        let time = self.from?.max(least);
        Some(if self.closed.contains(&time) { self.closed.end } else { time })
    }

    pub(super) fn wait(&self) -> Option<Wait> {
        Wait::of(|least| self.after(least))
    }
}

impl Evaluated<'_, '_> {
    /// The limit that a denied request waits for longest, after all were asked; `None` if there are none.
    pub(super) fn longest(&self) -> Option<LongestWait> {
        // One alone has said it.
        if let [outcome] = &*self.outcomes {
            return Some(LongestWait { check: 0, wait: outcome.verdict.wait });
        }
        let openings = self.openings();
        let latest = |least| latest(self.checks, &self.outcomes, &openings, least);
        // When the last one opens, another may have closed.
        let settled = |least: Nanos| {
            let mut found = latest(least)?;
            while let Some(time) = found.1
                && let Some(later) = latest(time)
                && later.1 != found.1
            {
                found = later;
            }
            Some(found)
        };
        let (check, _) = settled(Nanos(0))?;
        Some(LongestWait { check, wait: Wait::of(|least| settled(least)?.1) })
    }

    fn openings(&self) -> Openings {
        let before = self.taken_before();
        let opening = |index: usize| {
            let (check, CheckOutcome { verdict, .. }) = (&self.checks[index], self.outcomes[index]);
            let is_told = check.limit.soft.is_none() && !check.limit.stands_alone() && before[index] == 0;
            if check.shadow || self.is_tentative_refund(index) || is_told {
                let from = if verdict.over { verdict.wait.map(|wait| wait.exact) } else { Some(Nanos(0)) };
                return Opening { from, closed: Range::default() };
            }
            Opening::of(check, self.bucket(index), before[index], self.now)
        };
        (0..self.checks.len()).map(opening).collect()
    }
}

/// How long until the limit has room; `None` if it never has.
fn until_room(check: &LimitCheck<'_>, bucket_state: &BucketSnapshot, before: u32, now: Now) -> Option<Nanos> {
    if check.limit.overruns() {
        return until_one(check, bucket_state, before, now);
    }
    if check.limit.is_closed() || check.is_excessive {
        return None;
    }
    let hits = if check.refunds { 0 } else { check.hits };
    // What takes nothing is denied where one unit would be, but a count that is just reached denies nobody yet.
    let least = u32::from(!check.limit.counts_all);
    let cost = before.saturating_add(hits.max(least));
    // One that counts denied requests takes for used what the question is denied, so it is asked in its forgiving form.
    let limit = check.limit.limit.forgiving();
    let decision = bucket_state.ask(&limit, now, cost).decision();
    if cost == 0 {
        let verdict = check.limit.verdict(&decision, 0);
        return if verdict.over { verdict.wait.map(|wait| wait.exact) } else { Some(Nanos(0)) };
    }
    // The store knows a limit that denies all as one of a single request.
    if u64::from(cost) > check.limit.current.capacity {
        return None;
    }
    if decision.allowed { Some(Nanos(0)) } else { decision.retry_after() }
}

/// How long until one unit is left, beside what the request takes before it, of a limit that can be overrun.
fn until_one(check: &LimitCheck<'_>, bucket_state: &BucketSnapshot, before: u32, now: Now) -> Option<Nanos> {
    let limit = &check.limit.limit;
    if check.limit.is_closed() || u64::from(before) >= limit.capacity() {
        return None;
    }
    let decision = bucket_state.ask_after(limit, now, before, 0).decision();
    if decision.allowed { Some(Nanos(0)) } else { decision.retry_after() }
}

/// From when until when the soft limit denies, if use has crossed it.
fn closed(
    check: &LimitCheck<'_>,
    bucket_state: &BucketSnapshot,
    soft: SoftLimit,
    now: Now,
) -> Option<Range<Nanos>> {
    let used = bucket_state.ask(&check.limit.limit, now, 0).decision().used();
    let left = time_left(bucket_state.above_since, soft, used, now)?;
    Some(left..until_below(check, bucket_state, soft, now))
}

/// How long until use is below the soft limit: until as much fits as lies above that.
fn until_below(check: &LimitCheck<'_>, bucket_state: &BucketSnapshot, soft: SoftLimit, now: Now) -> Nanos {
    let above = check.limit.current.capacity.saturating_sub(soft.limit.get()).saturating_add(1);
    let before = u32::try_from(above - 1).unwrap_or(u32::MAX);
    let limit = check.limit.limit.forgiving();
    bucket_state.ask_after(&limit, now, before, 1).decision().retry_after().unwrap_or_default()
}

/// The limit that lets a request through last, if that waits for at least so long, and when. Among several,
/// those that the request is over go first.
fn latest(
    checks: &[LimitCheck<'_>],
    outcomes: &[CheckOutcome],
    openings: &Openings,
    least: Nanos,
) -> Option<(usize, Option<Nanos>)> {
    let key = |&index: &usize| {
        let time = openings[index].after(least);
        (time.is_none(), time)
    };
    let order = |&index: &usize| (!outcomes[index].verdict.over, checks[index].order());
    let of = |quota: bool| {
        (0..checks.len()).filter(move |&index| !checks[index].shadow && checks[index].quota == quota)
    };
    // One quota that lets it pass is enough; of the others, all have to.
    let soonest = of(true).min_by_key(|index| (key(index), order(index)));
    let quota = soonest.filter(|_| !are_quotas_open(checks));
    let last = of(false).chain(quota).min_by_key(|index| (Reverse(key(index)), order(index)))?;
    Some((last, openings[last].after(least)))
}
