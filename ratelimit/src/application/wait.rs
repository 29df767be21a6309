//! How long a denied request has to wait: until a limit lets it through, if nobody else takes anything.
//!
//! A limit lets it through from some moment on, except that one with a soft limit does not from the end of the time above
//! that until use has fallen below it.

use std::ops::Range;

use ratelimit_common::{algorithm::Decision, limit::Limit, time::Nanos};

use super::{
    judge::{Ask, Court},
    response::seconds_up,
};
use crate::{
    policy::application::SoftLimit,
    store::{Charge, Store as _},
};

/// How long a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// It passes then, and not a nanosecond before.
    pub(super) exact: Nanos,
    /// It passes after so many whole seconds, at least 1. That is not always the next one: a soft limit can deny it again by
    /// then.
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
    /// When it lets a request through that waits for at least so long.
    fn after(&self, least: Nanos) -> Option<Nanos> {
        let time = self.from?.max(least);
        Some(if self.closed.contains(&time) { self.closed.end } else { time })
    }

    pub(super) fn wait(&self) -> Option<Wait> {
        Wait::of(|least| self.after(least))
    }
}

impl Court<'_> {
    /// When a limit lets a request through.
    pub(super) fn opening(&self, ask: &Ask<'_>) -> Opening {
        let closed = ask.bucket.soft.and_then(|soft| self.closed(ask, soft)).unwrap_or_default();
        Opening { from: self.until_room(ask), closed }
    }

    /// How long until the limit has room; `None` if it never has.
    fn until_room(&self, ask: &Ask<'_>) -> Option<Nanos> {
        if ask.bucket.is_closed() {
            return None;
        }
        let hits = if ask.refunds { 0 } else { ask.hits };
        // What takes nothing is denied where one unit would be, but a count that is just reached denies nobody yet.
        let least = u32::from(!ask.bucket.counts_all);
        let cost = hits.max(least);
        let limit = ask.bucket.limit.forgiving();
        let decision = self.ask_of(ask, &limit, cost);
        if cost == 0 {
            let verdict = ask.bucket.verdict(&decision, 0);
            return if verdict.over { verdict.wait.map(|wait| wait.exact) } else { Some(Nanos(0)) };
        }
        // The store knows a limit that denies all as one of a single request.
        if u64::from(cost) > ask.bucket.current.capacity {
            return None;
        }
        if decision.allowed { Some(Nanos(0)) } else { decision.retry_after() }
    }

    /// From when until when the soft limit denies, if use has crossed it.
    fn closed(&self, ask: &Ask<'_>, soft: SoftLimit) -> Option<Range<Nanos>> {
        let used = self.ask_of(ask, &ask.bucket.limit, 0).used();
        let left = self.crossings.time_left(ask.key(), soft, used, self.now)?;
        Some(left..self.until_below(ask, soft))
    }

    /// How long until use is below the soft limit: until as much fits as lies above that.
    fn until_below(&self, ask: &Ask<'_>, soft: SoftLimit) -> Nanos {
        let above = ask.bucket.current.capacity.saturating_sub(soft.limit.get()).saturating_add(1);
        let cost = u32::try_from(above).unwrap_or(u32::MAX);
        let limit = ask.bucket.limit.forgiving();
        self.ask_of(ask, &limit, cost).retry_after().unwrap_or_default()
    }

    /// What the limit says of a cost. One that counts denied requests takes for used what the question is denied, so it is
    /// asked in its forgiving form.
    fn ask_of<'l>(&self, ask: &Ask<'_>, limit: &'l Limit, cost: u32) -> Decision<'l> {
        self.store.ask(self.limits, &Charge { limit, ..ask.charge(cost, self.now) }).decision()
    }
}
