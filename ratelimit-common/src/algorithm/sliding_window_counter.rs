//! Sliding window counter: the current window's count plus the previous one's, weighted by how much of it the sliding
//! window still covers, rounded down.
//!
//! The state is the end of the window after the one it counts in, and the counts of the previous and the current window.
//! The comparison is made with whole numbers: floor(previous x left / window) <= room is the same as
//! previous x left < (room + 1) x window.

use super::{
    Decision, asked,
    realign::{ClockStep, slack},
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

    /// The time until `cost` fits, if nothing else is counted meanwhile.
    pub(super) fn wait(&self, limit: &Limit, cost: u64) -> Nanos {
        let left = self.left.0;
        if let Some(room) = self.room(limit, cost) {
            return Nanos(left.saturating_sub(left_when_fits(limit, self.previous, room)));
        }
        let room = limit.capacity.saturating_sub(cost);
        let next = limit.window.get() - left_when_fits(limit, self.current, room);
        Nanos(left.saturating_add(next))
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
    let window = Window::at(limit, now);
    let code = window::code(limit, window.end_after(limit, 1));
    let stored = window::code_of(limit, state);
    let half = limit.count_bits / 2;
    let (previous, current) = ((state >> half) & window::low_bits(half), state & window::low_bits(half));
    if stored == code {
        (code, Counts { previous, current, left: window.left })
    } else if stored == window::code(limit, window.end) {
        (code, Counts { previous: current, current: 0, left: window.left })
    } else if now.ahead_of(Ticks(code), Ticks(stored), limit.far_of_windows()).0 > 0 {
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

/// Decides and charges.
#[inline(always)]
pub(super) fn decide(limit: &Limit, state: u64, now: Now, cost: u32) -> (bool, u64) {
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

/// The time until the window ends that the state counts in.
pub(super) fn reset(limit: &Limit, state: u64, now: Now) -> Nanos {
    let (code, counts) = read(limit, state, now);
    Nanos(begins_after(limit, code, now).saturating_add(counts.left.0))
}

/// The counter for limits that count more in a window than half a word can: it needs a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WideState {
    /// The end of the current window, since the table was made; zero if nothing was counted.
    end: Nanos,
    previous: u64,
    current: u64,
}

impl WideState {
    /// What a state word of the same window has counted.
    #[must_use]
    pub fn of_word(limit: &Limit, word: u64, now: Now) -> Self {
        let (_, Counts { previous, current, .. }) = read(limit, word, now);
        let end = Nanos(now.0.0.saturating_add(reset(limit, word, now).0));
        Self { end, previous, current }
    }

    /// From what [`Self::parts`] gave.
    #[must_use]
    pub const fn of_parts([end, previous, current]: [u64; 3]) -> Self {
        Self { end: Nanos(end), previous, current }
    }

    /// Its three numbers, to be kept elsewhere.
    #[must_use]
    pub const fn parts(&self) -> [u64; 3] {
        [self.end.0, self.previous, self.current]
    }

    /// When the window ends that it counts in.
    #[must_use]
    pub const fn end(&self) -> Nanos {
        self.end
    }

    /// Whether nothing was counted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.previous == 0 && self.current == 0
    }

    /// The same after the wall clock was set, as [`realign`](super::realign::realign) does it with words: windows are of
    /// this length, and one of them begins so long before the table's time as `phase` says.
    #[must_use]
    pub fn realigned(self, step: ClockStep, window: Nanos, phase: Nanos, now: Now) -> Self {
        let first_from = |time: u64| {
            let into = time.wrapping_add(phase.0).checked_rem(window.0).unwrap_or(0);
            Nanos(time.saturating_add(if into == 0 { 0 } else { window.0 - into }))
        };
        let ClockStep::Forward(by) = step else { return Self { end: first_from(self.end.0), ..self } };
        let next = first_from(self.end.0.saturating_sub(slack(window).0));
        let moved = self.end.0.saturating_sub(by.0);
        match moved.saturating_add(window.0) {
            _ if moved > now.0.0 || self.end <= now.0 => Self { end: Nanos(moved), ..self },
            // It has become the one before, which counts in the next, and so long as that lasts at least.
            after if after > now.0.0 => Self { end: next, previous: self.current, current: 0 },
            _ => Self { end: next, previous: 0, current: 0 },
        }
    }

    /// The counts as they stand at `now`, and the end of their window.
    fn read(&self, limit: &Limit, now: Now) -> (Nanos, Counts) {
        let left = Window::at(limit, now).left;
        let end = Nanos(now.0.0.saturating_add(left.0));
        if self.end > end {
            let counts =
                Counts { previous: self.previous, current: self.current, left: Nanos(limit.window.get()) };
            return (self.end, counts);
        }
        let (previous, current) = match end.0 - self.end.0 {
            // One that began when windows lay elsewhere goes on until the current one ends.
            ago if ago < limit.window.get() => (self.previous, self.current),
            ago if ago / 2 < limit.window.get() => (self.current, 0),
            _ => (0, 0),
        };
        (end, Counts { previous, current, left })
    }

    /// Whether forgetting it changes no decision.
    #[must_use]
    pub fn is_idle(&self, limit: &Limit, now: Now) -> bool {
        let (_, counts) = self.read(limit, now);
        counts.previous == 0 && counts.current == 0
    }

    /// Decides and charges, as [`super::decide`] does.
    pub fn decide<'l>(&mut self, limit: &'l Limit, now: Now, cost: u32) -> Decision<'l> {
        let (end, mut counts) = self.read(limit, now);
        let allowed = counts.admit(limit, asked(cost).into());
        if cost > 0 && (allowed || limit.counts_denied()) {
            counts.current = counts.current.saturating_add(cost.into());
            *self = Self { end, previous: counts.previous, current: counts.current };
        }
        let begins = end.0.saturating_sub(counts.left.0).saturating_sub(now.0.0);
        let wait = Nanos(begins.saturating_add(counts.wait(limit, asked(cost).into()).0));
        let remaining = limit.capacity.saturating_sub(counts.sum(limit));
        let reset = Nanos(end.0.saturating_sub(now.0.0));
        let next = match remaining.checked_add(1) {
            Some(more) if more <= limit.capacity => begins.saturating_add(counts.wait(limit, more).0),
            _ => 0,
        };
        Decision::known(limit, (allowed, cost, now), remaining, [wait, reset, Nanos(next)])
    }

    /// Gives back what an admitted request took at `charged`, after a later limit denied it.
    pub fn undo(&mut self, limit: &Limit, charged: Now, cost: u32) {
        let end = charged.0.0.saturating_add(Window::at(limit, charged).left.0);
        if self.end.0 == end {
            self.current = self.current.saturating_sub(cost.into());
        } else if self.end.0.checked_sub(end) == Some(limit.window.get()) {
            self.previous = self.previous.saturating_sub(cost.into());
        }
    }
}
