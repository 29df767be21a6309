//! Window states after the wall clock was set: given ends that agree with where windows lie now, so that no key gets
//! more than its limit.
//!
//! Whoever keeps states calls this for all of them; a decision never does. What it promises, with n limits more for n
//! steps forward: in any stretch of real time a key gets at most what it could get in one of that length with the clock
//! left alone. That holds because windows of a key that are next to each other end at least a window's length apart. So
//! a step back makes them longer, never shorter, and one that ended less than a window before the end of the current
//! one is the current one again. A step forward begins one at once, which ends no sooner than the old one would have.
//!
//! A bucket with `refill: interval` that a step forward has filled does not know that it owes the next refill to that.
//! So a step back within an interval may bring it that one too.

use super::{
    sliding_window_counter,
    window::{self, Window},
};
use crate::{
    limit::{Limit, StateKind},
    time::{Nanos, Now, Ticks},
};

/// How the wall clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockStep {
    /// So much forward.
    Forward(Nanos),
    /// Back; by how much shows in where windows lie.
    Back,
}

impl ClockStep {
    /// A wall clock that has gone so many nanoseconds further than the even one; `None` if that is less than a second,
    /// which windows are not moved for.
    #[must_use]
    pub const fn of(nanos: i128) -> Option<Self> {
        let least = Nanos::SECOND.0 as i128;
        if nanos <= -least {
            Some(Self::Back)
        } else if nanos >= least {
            Some(Self::Forward(Nanos(if nanos > u64::MAX as i128 { u64::MAX } else { nanos as u64 })))
        } else {
            None
        }
    }
}

/// The state of a bucket under `from` as a state under `to`, which is the same limit aligned to the wall clock as it
/// was set.
///
/// After a step forward a state keeps its end on the wall clock; one whose window is over by it counts from nothing, in
/// a window that lasts at least as long as the old one would have. After a step back it ends at the first of the new
/// ends that is not before its old one.
#[must_use]
pub fn realign(from: &Limit, to: &Limit, step: ClockStep, state: u64, now: Now) -> u64 {
    if !from.has_windows() {
        return state;
    }
    let (old, new) = (Window::at(from, now), Windows::at(to, now));
    let Some(end) = (Windows { limit: from, now, left: old.left.0.into() }).end_of(state) else {
        return settle(to, state, now);
    };
    let counts = state & window::low_bits(from.count_bits);
    let is_idle = super::is_idle(state, now);
    match step {
        // What looks ahead and is not, is older than half of what ticks can tell.
        _ if is_idle && (end > 0 || !is_plausible(from, counts)) => new.idle(),
        ClockStep::Back => new.state(new.first_from(end), counts),
        ClockStep::Forward(_) if is_idle => new.idle(),
        ClockStep::Forward(by) if to.overruns() && to.kind == StateKind::SlidingCounter => {
            let times = (old.left.0.into(), end, by.0.into());
            let first_from = |time| new.first_from(time);
            let (end, counts) = sliding_window_counter::forward(to, times, counts, (new.slack(), first_from));
            new.state(end, counts)
        }
        ClockStep::Forward(by) => forward(&new, old.left.0.into(), end, end - i128::from(by.0), counts),
    }
}

/// A state that was written meanwhile by a limit that was aligned otherwise, as one of `limit`: it ends where the
/// limit's windows do, and not sooner than it would have.
#[must_use]
pub fn settle(limit: &Limit, state: u64, now: Now) -> u64 {
    let windows = Windows::at(limit, now);
    if !limit.has_windows() || super::is_idle(state, now) || windows.end_of(state).is_some() {
        return state;
    }
    let end = now.ahead(Ticks(window::code_of(limit, state)), limit.far_of_intervals()).to_nanos_up();
    windows.state(windows.first_from(end.0.into()), state & window::low_bits(limit.count_bits))
}

/// Whether a state is in use, or can be again after a wall clock that was set back: for those who keep states
/// elsewhere.
#[must_use]
pub fn can_return(limit: &Limit, state: u64, now: Now) -> bool {
    let longer = if limit.has_windows() { limit.period().to_ticks().0 } else { 0 };
    !super::is_idle(state, now) || !super::is_idle(state.saturating_add(longer), now)
}

/// Whether a refill can have brought this; a bucket that was made full by hand has any bits there. A window's capacity
/// says nothing, because limits that share buckets differ in it.
fn is_plausible(limit: &Limit, counts: u64) -> bool {
    match limit.kind {
        StateKind::Interval => counts <= limit.amount.get(),
        StateKind::ArrivalTime
        | StateKind::Window
        | StateKind::SlidingCounter
        | StateKind::Log
        | StateKind::WideSlidingCounter => true,
    }
}

/// A state in use that ended at `end` and ends at `moved` by the clock that was set forward.
fn forward(new: &Windows<'_>, old_left: i128, end: i128, moved: i128, counts: u64) -> u64 {
    let limit = new.limit;
    match limit.kind {
        StateKind::Interval => forward_interval(new, old_left, end, moved, counts),
        StateKind::Window if moved > 0 => new.state(moved, counts),
        StateKind::Window => new.state(new.first_from(end - new.slack()), 0),
        StateKind::SlidingCounter | StateKind::WideSlidingCounter => forward_sliding(new, end, moved, counts),
        // `realign` has returned these as they are.
        StateKind::ArrivalTime | StateKind::Log => new.state(end, counts),
    }
}

/// What is stored is the end of the window after the current one.
fn forward_sliding(new: &Windows<'_>, end: i128, moved: i128, counts: u64) -> u64 {
    if moved > new.window() || end <= new.window() {
        return new.state(moved, counts);
    }
    let half = new.limit.count_bits / 2;
    let previous = if moved > 0 { counts & window::low_bits(half) } else { 0 };
    new.state(new.first_from(end - new.slack()), previous << half)
}

/// Refills that the step has skipped come at once, but no more than a bucket can hold, with the next one if that comes
/// sooner than it would have.
fn forward_interval(new: &Windows<'_>, old_left: i128, end: i128, moved: i128, counts: u64) -> u64 {
    let [amount, capacity] = [new.limit.amount.get(), new.limit.capacity].map(i128::from);
    let missing_after = |refills: i128| amount * refills + i128::from(counts);
    let missing = missing_after((end - old_left) / new.window());
    // A bucket without a debt loses what it can't hold.
    let brings = if missing > capacity { amount } else { amount.min(capacity) };
    let early = if new.left + new.slack() < old_left { brings } else { 0 };
    let left = missing_after((moved - new.left).div_euclid(new.window())).max(missing - capacity + early);
    if left <= 0 {
        return new.idle();
    }
    let (refills, rest) = ((left - 1) / amount, (left - 1) % amount);
    new.state(new.left + refills * new.window(), rest as u64 + 1)
}

/// By how much a window that a step forward begins may end sooner than the old one would have. Days should go on with
/// days when the clock is set forward by two, and some milliseconds of drift.
pub(super) const fn slack(window: Nanos) -> Nanos {
    let part = window.0 / 60;
    if part < Nanos::SECOND.0 { Nanos(part) } else { Nanos::SECOND }
}

/// A limit's windows, and times relative to the present in nanoseconds.
struct Windows<'l> {
    limit: &'l Limit,
    now: Now,
    /// When the current one ends.
    left: i128,
}

impl<'l> Windows<'l> {
    fn at(limit: &'l Limit, now: Now) -> Self {
        Self { limit, now, left: Window::at(limit, now).left.0.into() }
    }

    fn window(&self) -> i128 {
        self.limit.window.get().into()
    }

    fn slack(&self) -> i128 {
        slack(self.limit.period()).0.into()
    }

    /// The first end that is not before `time`.
    fn first_from(&self, time: i128) -> i128 {
        let window = self.window();
        // Rounded up.
        self.left - (self.left - time).div_euclid(window) * window
    }

    /// The end that a state stands for; `None` if no window ends there. Two ends of one limit never look the same.
    fn end_of(&self, state: u64) -> Option<i128> {
        let code = window::code_of(self.limit, state);
        let ahead =
            i128::from(code.wrapping_sub(self.now.ticks().0).cast_signed()).div_euclid(1 << Ticks::SHIFT);
        // The last end that is not behind it, because codes are rounded up.
        let end = self.left + (ahead - self.left).div_euclid(self.window()) * self.window();
        (self.code(end) == code).then_some(end)
    }

    fn code(&self, end: i128) -> u64 {
        window::code(self.limit, Ticks(self.now.ticks().0.wrapping_add((end << Ticks::SHIFT) as u64)))
    }

    /// What ends at `end`.
    fn state(&self, end: i128, counts: u64) -> u64 {
        let is_told = i128::from(self.now.0.0) + end >= 0;
        if is_told { window::not_busy(self.code(end) | counts) } else { self.idle() }
    }

    /// As good as new.
    fn idle(&self) -> u64 {
        window::code_of(self.limit, super::fresh(self.now))
    }
}
