//! Sliding window counter: the current window's count plus the previous one's, weighted by how much of it the sliding
//! window still covers, rounded down.
//!
//! The state is the end of the window after the one it counts in, and the counts of the previous and the current
//! window. The comparison is made with whole numbers: `floor(previous x left / window) <= room` is the same as
//! `previous x left < (room + 1) x window`.
//!
//! If the limit can be overrun, a window passes on to the next one what it has counted above the limit; see `overrun`.

mod overrun;
mod wide_state;

pub(super) use self::overrun::forward;
pub use self::wide_state::WideState;
use super::{
    asked,
    window::{self, Window},
};
use crate::{
    limit::Limit,
    time::{Nanos, Now, Ticks},
    wide,
};

/// The two counts, and the time that is left of the window in which they are the previous and the current one.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub previous: u64,
    pub current: u64,
    pub left: Nanos,
}

impl Counts {
    /// How much more the current window may count, before the previous one's share.
    #[inline(always)]
    fn room(&self, limit: &Limit, cost: u64) -> Option<u64> {
        limit.capacity.checked_sub(self.current.saturating_add(cost))
    }

    /// Whether `cost` more stays within the limit.
    #[inline(always)]
    pub(super) fn admit(&self, limit: &Limit, cost: u64) -> bool {
        let Some(room) = self.room(limit, cost) else { return false };
        let (high, low) = wide::multiply(self.previous, self.left.0);
        let (most_high, most_low) = wide::multiply(room + 1, limit.window.get());
        high < most_high || (high == most_high && low < most_low)
    }

    /// The weighted sum, rounded down.
    pub(super) const fn sum(&self, limit: &Limit) -> u64 {
        let share = self.previous as u128 * self.left.0 as u128 / limit.window.get() as u128;
        self.current.saturating_add(share as u64)
    }

    /// The counts so many windows later, which are at least one, if nothing else is counted meanwhile.
    fn after(&self, limit: &Limit, windows: u64) -> Self {
        let left = Nanos(limit.window.get());
        let (previous, current) = match windows {
            _ if limit.overruns() => overrun::after(limit, self.current, windows),
            1 => (self.current, 0),
            _ => (0, 0),
        };
        Self { previous, current, left }
    }

    /// The time until `cost`, which is at most the capacity, fits, if nothing else is counted meanwhile.
    pub(super) fn wait(&self, limit: &Limit, cost: u64) -> Nanos {
        let left = self.left.0;
        if let Some(room) = self.room(limit, cost) {
            return Nanos(left.saturating_sub(left_when_fits(limit, self.previous, room)));
        }
        let short = self.current.saturating_add(cost).saturating_sub(limit.capacity);
        let windows = if limit.overruns() { limit.amount.divide(short - 1).0 + 1 } else { 1 };
        let then = self.after(limit, windows);
        let room = then.room(limit, cost).unwrap_or(0);
        let next = limit.window.get() - left_when_fits(limit, then.previous, room);
        let whole = (windows - 1).saturating_mul(limit.window.get());
        Nanos(left.saturating_add(whole).saturating_add(next))
    }

    /// The time until the window ends, or the one in which the last is paid that is owed.
    fn reset(&self, limit: &Limit) -> Nanos {
        let windows = if limit.overruns() { overrun::windows(limit, self.current) - 1 } else { 0 };
        Nanos(self.left.0.saturating_add(windows.saturating_mul(limit.window.get())))
    }
}

/// The longest rest of a window at which `previous`, weighted by it, is at most `room`.
fn left_when_fits(limit: &Limit, previous: u64, room: u64) -> u64 {
    let window = u128::from(limit.window.get());
    if previous <= room {
        return window as u64;
    }
    // previous > room >= 0, and the quotient is below window + 1.
    ((u128::from(room) + 1) * window).div_ceil(u128::from(previous)).saturating_sub(1) as u64
}

/// The code of the window that a request at `now` counts in, and the counts as they stand there.
#[inline(always)]
fn read(limit: &Limit, state: u64, now: Now) -> (u64, Counts) {
    if limit.overruns() {
        return overrun::read_coded(limit, state, now);
    }
    let window = Window::at(limit, now);
    let code = window::code(limit, window.end_after(limit, 1));
    let stored = window::code_of(limit, state);
    let half = limit.count_bits / 2;
    let (previous, current) = ((state >> half) & window::low_bits(half), state & window::low_bits(half));
    if stored == code {
        (code, Counts { previous, current, left: window.left })
    } else if stored == window::code(limit, window.end) {
        (code, Counts { previous: current, current: 0, left: window.left })
    } else if limit.ahead_of(now, Ticks(code), Ticks(stored), || limit.far_of_windows()).0 > 0 {
        // The clock stepped back: the window has not begun, so the one before it counts whole.
        (stored, Counts { previous, current, left: Nanos(limit.window.get()) })
    } else {
        (code, Counts { previous: 0, current: 0, left: window.left })
    }
}

#[inline(always)]
fn write(limit: &Limit, code: u64, counts: Counts) -> u64 {
    let half = limit.count_bits / 2;
    let most = window::low_bits(half);
    let current = if counts.current > most { most } else { counts.current };
    window::not_busy(code | (counts.previous << half) | current)
}

/// The state of these counts, the current one of a window that ends at `end`.
pub(super) fn word(limit: &Limit, end: Ticks, previous: u64, current: u64) -> u64 {
    let half = limit.count_bits / 2;
    let (previous, current) = (previous.min(window::low_bits(half)), current.min(window::low_bits(half)));
    let windows = if limit.overruns() { overrun::windows(limit, current) } else { 1 };
    let after = windows.wrapping_mul(limit.window.get() << Ticks::SHIFT);
    let code = window::code(limit, Ticks(end.0.wrapping_add(after)));
    window::not_busy(code | (previous << half) | current)
}

/// Decides and charges.
#[inline(always)]
pub(super) fn decide(limit: &Limit, state: u64, now: Now, cost: u32) -> (bool, u64) {
    if limit.overruns() {
        return overrun::decide(limit, state, now, cost);
    }
    let (code, mut counts) = read(limit, state, now);
    let allowed = counts.admit(limit, asked(cost) as u64);
    if cost > 0 && (allowed || limit.counts_denied()) {
        counts.current = counts.current.saturating_add(cost as u64);
        (allowed, write(limit, code, counts))
    } else {
        (allowed, state)
    }
}

/// From the current or the previous window, whichever was charged.
#[inline(always)]
pub(super) fn undo(limit: &Limit, state: u64, charged: Now, cost: u32) -> u64 {
    if limit.overruns() {
        return overrun::undo(limit, state, charged, cost);
    }
    let window = Window::at(limit, charged);
    let code = window::code_of(limit, state);
    let half = limit.count_bits / 2;
    let (previous, current) = ((state >> half) & window::low_bits(half), state & window::low_bits(half));
    if code == window::code(limit, window.end_after(limit, 1)) {
        code | (previous << half) | current.saturating_sub(cost as u64)
    } else if code == window::code(limit, window.end_after(limit, 2)) {
        code | (previous.saturating_sub(cost as u64) << half) | current
    } else {
        state
    }
}

/// What counts against the limit at `now`.
pub(super) fn counted(limit: &Limit, state: u64, now: Now) -> u64 {
    read(limit, state, now).1.sum(limit)
}

/// [`counted`] to one part in 65,536, without a 128-bit division.
#[inline(always)]
pub(super) fn roughly_counted(limit: &Limit, state: u64, now: Now) -> u64 {
    let (_, counts) = read(limit, state, now);
    let left = super::ratio(counts.left.0, limit.window.get());
    counts.current.saturating_add(counts.previous.wrapping_mul(left as u64) >> 16)
}

/// The time that the window in which the state counts begins after `now`; zero unless the clock stepped back.
fn begins_after(limit: &Limit, code: u64, now: Now) -> u64 {
    let window = Window::at(limit, now);
    match window::windows_between(limit, now, window.end_after(limit, 1), code) {
        0 => 0,
        later => window.left.0.saturating_add((later - 1).saturating_mul(limit.window.get())),
    }
}

/// The time until `cost`, which is at most the capacity, fits.
pub(super) fn wait(limit: &Limit, state: u64, now: Now, cost: u32) -> Nanos {
    let (code, counts) = read(limit, state, now);
    Nanos(begins_after(limit, code, now).saturating_add(counts.wait(limit, cost as u64).0))
}

/// The time until the window ends that the state counts in, or the one in which the last is paid that is owed.
pub(super) fn reset(limit: &Limit, state: u64, now: Now) -> Nanos {
    let (code, counts) = read(limit, state, now);
    Nanos(begins_after(limit, code, now).saturating_add(counts.reset(limit).0))
}

/// Units that the current window has counted above the limit.
pub(super) fn owed(limit: &Limit, state: u64, now: Now) -> u64 {
    read(limit, state, now).1.current.saturating_sub(limit.capacity)
}

/// How many units a charge in `state` does not take because no more can be owed.
pub(super) fn cut(limit: &Limit, state: u64, now: Now, cost: u32) -> u64 {
    overrun::cut(limit, read(limit, state, now).1.current, cost.into())
}
