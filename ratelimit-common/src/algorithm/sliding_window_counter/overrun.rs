//! The counter of a limit that can be overrun. What the current window counts above the limit is owed: as a window
//! ends, as much as the limit becomes the previous count, and the rest is counted in the next one.
//!
//! The state's time is the end of the window in which the last of it counts, as the previous one's. So a bucket is idle
//! when it is fresh, and a count up to the limit has the same state as one that can't be overrun.

use super::Counts;
use crate::{
    algorithm::window::{self, Window},
    limit::Limit,
    time::{Nanos, Now, Ticks},
};

/// What the previous and the current window count, so many windows after one that counted `current`; at least one.
pub(super) fn after(limit: &Limit, current: u64, windows: u64) -> (u64, u64) {
    after_windows(limit.capacity, current, windows)
}

/// [`after`] of a limit of `most`.
pub(super) const fn after_windows(most: u64, current: u64, windows: u64) -> (u64, u64) {
    let before = current.saturating_sub(most.saturating_mul(windows.saturating_sub(1)));
    let previous = if before < most { before } else { most };
    (previous, before - previous)
}

/// After how many windows nothing of `current` counts any more, but as the previous one's; at least one.
pub(super) fn windows(limit: &Limit, current: u64) -> u64 {
    limit.amount.divide(current.saturating_sub(1)).0.saturating_add(1)
}

/// What of `cost` is not counted, because no more can be owed.
pub(super) fn cut(limit: &Limit, current: u64, cost: u64) -> u64 {
    if limit.overruns() { cost.saturating_sub(limit.most_used().saturating_sub(current)) } else { 0 }
}

/// The counts as they stand at `now`, and how many windows later theirs is, after a clock that stepped back.
fn read(limit: &Limit, state: u64, now: Now) -> (u64, Counts) {
    let window = Window::at(limit, now);
    let half = limit.count_bits / 2;
    let (previous, current) = ((state >> half) & window::low_bits(half), state & window::low_bits(half));
    let none = Counts { previous: 0, current: 0, left: window.left };
    // How many windows last after the present one, and after the one that the state counts in.
    let Some(last) = windows_left(limit, state, now, window) else { return (0, none) };
    let counted = windows(limit, current);
    match counted.checked_sub(last) {
        Some(0) => (0, Counts { previous, current, ..none }),
        Some(since) => (0, Counts { left: window.left, ..Counts { current, ..none }.after(limit, since) }),
        None => (last - counted, Counts { previous, current, left: Nanos(limit.window.get()) }),
    }
}

/// How many windows the state's last one is after the present one; `None` if it is over.
fn windows_left(limit: &Limit, state: u64, now: Now, window: Window) -> Option<u64> {
    let stored = window::code_of(limit, state);
    if stored == window::code(limit, window.end) {
        return Some(0);
    }
    let is_ahead = now.ahead_of(window.end, Ticks(stored), limit.far_of_intervals()).0 > 0;
    is_ahead.then(|| window::windows_between(limit, now, window.end, stored).max(1))
}

/// [`read`] with the code that a state without debts has.
pub(super) fn read_coded(limit: &Limit, state: u64, now: Now) -> (u64, Counts) {
    let (later, counts) = read(limit, state, now);
    let after = Window::at(limit, now).end_after(limit, later.saturating_add(1));
    (window::code(limit, after), counts)
}

fn write(limit: &Limit, now: Now, later: u64, counts: Counts) -> u64 {
    let half = limit.count_bits / 2;
    let most = window::low_bits(half);
    let current = counts.current.min(most);
    let last = Window::at(limit, now).end_after(limit, later.saturating_add(windows(limit, current)));
    window::not_busy(window::code(limit, last) | (counts.previous.min(most) << half) | current)
}

/// Charges the whole cost, up to what can be owed; allowed if one unit was left before.
pub(super) fn decide(limit: &Limit, state: u64, now: Now, cost: u32) -> (bool, u64) {
    let (later, mut counts) = read(limit, state, now);
    let allowed = counts.admit(limit, 1);
    if cost == 0 {
        return (allowed, state);
    }
    let cost = u64::from(cost);
    counts.current = counts.current.saturating_add(cost - cut(limit, counts.current, cost));
    (allowed, write(limit, now, later, counts))
}

/// Only in the window that was charged: later, what was owed can't be told from what others took since.
pub(super) fn undo(limit: &Limit, state: u64, charged: Now, cost: u32) -> u64 {
    let (later, mut counts) = read(limit, state, charged);
    if later > 0 || counts.current == 0 {
        return state;
    }
    counts.current = counts.current.saturating_sub(cost.into());
    write(limit, charged, 0, counts)
}

/// A state in use after the clock was set forward by `by`, as its end and its counts: it ended at `end`, and `old_left`
/// is when the window ended that was the current one. Times are relative to the present, in nanoseconds; `first_from`
/// gives the first end of a window that is not before a time, and `slack` is by how much sooner a window may end for
/// that.
///
/// A window that is over by the step has paid for itself alone, however many were skipped.
pub(in crate::algorithm) fn forward(
    limit: &Limit,
    (old_left, end, by): (i128, i128, i128),
    counts: u64,
    (slack, first_from): (i128, impl Fn(i128) -> i128),
) -> (i128, u64) {
    let length = i128::from(limit.window.get());
    let half = limit.count_bits / 2;
    let (mut previous, mut current) = (counts >> half, counts & window::low_bits(half));
    let own = end - i128::from(windows(limit, current)) * length;
    let since = u64::try_from((old_left - own) / length).unwrap_or(0);
    if since > 0 {
        (previous, current) = after(limit, current, since);
    }
    let own = own.max(old_left);
    let ends = if own > by {
        own - by
    } else {
        (previous, current) = match after(limit, current, 1) {
            (_, 0) if own - by + length <= 0 => (0, 0),
            next => next,
        };
        first_from(own - slack)
    };
    (ends + i128::from(windows(limit, current)) * length, (previous << half) | current)
}
