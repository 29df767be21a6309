//! The counter for limits that count more in a window than half a word can.

use super::{Counts, begins_after, overrun, read};
use crate::{
    algorithm::{
        LimitDecision, Units, asked_of,
        realign::{ClockStep, slack},
        reported,
        window::Window,
    },
    limit::Limit,
    time::{Nanos, Now},
};

/// The counter for limits that count more in a window than half a word can: it needs a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WideState {
    /// The end of the current window, since the table was made; zero if nothing was counted.
    end: Nanos,
    previous: u64,
    current: u64,
    /// What the current window has counted above the limit, which is what is in `current` then; zero unless it can be
    /// overrun.
    owed: u64,
}

impl WideState {
    /// What a state word of the same window has counted.
    #[must_use]
    pub fn of_word(limit: &Limit, word: u64, now: Now) -> Self {
        let (code, counts) = read(limit, word, now);
        let left = begins_after(limit, code, now).saturating_add(counts.left.0);
        Self::of_counts(limit, Nanos(now.0.0.saturating_add(left)), counts)
    }

    fn of_counts(limit: &Limit, end: Nanos, Counts { previous, current, .. }: Counts) -> Self {
        let owed = if limit.overruns() { current.saturating_sub(limit.capacity) } else { 0 };
        Self { end, previous, current: current.saturating_sub(owed), owed }
    }

    /// From what [`Self::parts`] gave.
    #[must_use]
    pub const fn of_parts([end, previous, current, owed]: [u64; 4]) -> Self {
        Self { end: Nanos(end), previous, current, owed }
    }

    /// Its numbers, to be kept elsewhere: when the current window ends, what the previous one and itself have counted,
    /// and what it has counted above the limit.
    #[must_use]
    pub const fn parts(&self) -> [u64; 4] {
        [self.end.0, self.previous, self.current, self.owed]
    }

    /// How many windows last until nothing counts any more, the current one not included.
    #[must_use]
    pub const fn windows_after(&self) -> u64 {
        match self.owed.checked_div(self.current) {
            Some(windows) if self.owed > 0 => 1 + windows + (!self.owed.is_multiple_of(self.current)) as u64,
            _ => 1,
        }
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

    /// The same after the wall clock was set, as [`realign`](crate::algorithm::realign::realign) does it with words:
    /// windows are of this length, and one of them begins so long before the table's time as `phase` says.
    #[must_use]
    pub fn realigned(self, step: ClockStep, window: Nanos, phase: Nanos, now: Now) -> Self {
        let first_from = |time: u64| {
            let into = time.wrapping_add(phase.0).checked_rem(window.0).unwrap_or(0);
            Nanos(time.saturating_add(if into == 0 { 0 } else { window.0 - into }))
        };
        let ClockStep::Forward(by) = step else { return Self { end: first_from(self.end.0), ..self } };
        if self.owed > 0 {
            return self.owing_forward(by, window, now, first_from);
        }
        let next = first_from(self.end.0.saturating_sub(slack(window).0));
        let moved = self.end.0.saturating_sub(by.0);
        match moved.saturating_add(window.0) {
            _ if moved > now.0.0 || self.end <= now.0 => Self { end: Nanos(moved), ..self },
            // It has become the one before, which counts in the next, and so long as that lasts at least.
            after if after > now.0.0 => Self { end: next, previous: self.current, current: 0, owed: 0 },
            _ => Self { end: next, previous: 0, current: 0, owed: 0 },
        }
    }

    /// After a step forward a window that is over by it has paid for itself alone, however many were skipped.
    fn owing_forward(self, by: Nanos, window: Nanos, now: Now, first_from: impl Fn(u64) -> Nanos) -> Self {
        let over = (now.0.0.saturating_add(1).saturating_sub(self.end.0)).div_ceil(window.0.max(1));
        let total = self.current.saturating_add(self.owed);
        // What is owed is above the limit, and that is what is counted then.
        let (previous, total) = match over {
            0 => (self.previous, total),
            over => overrun::after_windows(self.current, total, over),
        };
        let of = |end, previous, total: u64| {
            let current = total.min(self.current);
            Self { end, previous, current, owed: total - current }
        };
        let end = self.end.0.saturating_add(over.saturating_mul(window.0));
        let moved = end.saturating_sub(by.0);
        if moved > now.0.0 {
            return of(Nanos(moved), previous, total);
        }
        let (previous, total) = match overrun::after_windows(self.current, total, 1) {
            (_, 0) if moved.saturating_add(window.0) <= now.0.0 => (0, 0),
            next => next,
        };
        of(first_from(end.saturating_sub(slack(window).0)), previous, total)
    }

    /// The counts as they stand at `now`, and the end of their window.
    fn read(&self, limit: &Limit, now: Now) -> (Nanos, Counts) {
        let left = Window::at(limit, now).left;
        let end = Nanos(now.0.0.saturating_add(left.0));
        let current = match self.current.saturating_add(self.owed) {
            // No more than can be owed, after a limit that was another one.
            total if limit.overruns() => total.min(limit.most_used()),
            _ => self.current,
        };
        let stored = Counts { previous: self.previous, current, left: Nanos(limit.window.get()) };
        if self.end > end {
            return (self.end, stored);
        }
        let counts = match limit.window.divide(end.0 - self.end.0).0 {
            // One that began when windows lay elsewhere goes on until the current one ends.
            0 => stored,
            windows => stored.after(limit, windows),
        };
        (end, Counts { left, ..counts })
    }

    /// Whether forgetting it changes no decision.
    #[must_use]
    pub fn is_idle(&self, limit: &Limit, now: Now) -> bool {
        let (_, counts) = self.read(limit, now);
        counts.previous == 0 && counts.current == 0
    }

    /// Decides and charges, as [`crate::algorithm::decide`] does.
    pub fn decide<'l>(&mut self, limit: &'l Limit, now: Now, cost: u32) -> LimitDecision<'l> {
        let (end, mut counts) = self.read(limit, now);
        let asked = u64::from(asked_of(limit, cost));
        let allowed = counts.admit(limit, asked);
        let mut cut = 0;
        if cost > 0 && (allowed || limit.always_charges()) {
            cut = overrun::cut(limit, counts.current, cost.into());
            counts.current = counts.current.saturating_add(u64::from(cost) - cut);
            *self = Self::of_counts(limit, end, counts);
        }
        let begins = end.0.saturating_sub(counts.left.0).saturating_sub(now.0.0);
        let after = |wait: Nanos| Nanos(begins.saturating_add(wait.0));
        let remaining = limit.capacity.saturating_sub(counts.sum(limit));
        let next = match remaining.checked_add(1) {
            Some(more) if more <= limit.capacity => after(counts.wait(limit, more)),
            _ => Nanos(0),
        };
        let times = [after(counts.wait(limit, asked)), after(counts.reset(limit)), next];
        let owed = if limit.overruns() { counts.current.saturating_sub(limit.capacity) } else { 0 };
        LimitDecision::known(limit, (allowed, cost, now), Units { remaining, owed, cut }, times)
    }

    /// Charges as far as there is room, and denies nothing; see [`crate::algorithm::report`].
    pub fn report<'l>(&mut self, limit: &'l Limit, now: Now, cost: u32) -> LimitDecision<'l> {
        let left = { *self }.decide(limit, now, 0).remaining();
        self.decide(limit, now, reported(limit, left, cost))
    }

    /// Gives back what an admitted request took at `charged`, after a later limit denied it.
    pub fn undo(&mut self, limit: &Limit, charged: Now, cost: u32) {
        let end = charged.0.0.saturating_add(Window::at(limit, charged).left.0);
        if limit.overruns() {
            let (stored, mut counts) = self.read(limit, charged);
            // What was owed and is counted by now can't be told from what others took since.
            if stored.0 == end && counts.current > 0 {
                counts.current = counts.current.saturating_sub(cost.into());
                *self = Self::of_counts(limit, stored, counts);
            }
            return;
        }
        if self.end.0 == end {
            self.current = self.current.saturating_sub(cost.into());
        } else if self.end.0.checked_sub(end) == Some(limit.window.get()) {
            self.previous = self.previous.saturating_sub(cost.into());
        }
    }
}
