//! Fixed window: a counter for each window, which starts at zero with it.
//!
//! The state is the window's end and the count. A state whose window has not begun (the clock stepped back) goes on
//! counting there, so that stepping back admits nothing extra.

use super::{
    asked,
    window::{self, Window},
};
use crate::{
    limit::Limit,
    time::{Nanos, Now, Ticks},
};

/// The window that a request at `now` counts in, as a code, and what was counted there. As long as a state's window has
/// certainly not ended, nothing is divided: it is the present one, or one ahead.
#[inline(always)]
fn read(limit: &Limit, state: u64, now: Now) -> (u64, u64) {
    let stored = window::code_of(limit, state);
    if limit.lies_ahead(now, Ticks(stored), window::low_bits(limit.count_bits)) {
        return (stored, state & window::low_bits(limit.count_bits));
    }
    let current = window::code(limit, Window::at(limit, now).end);
    if stored == current
        || limit.ahead_of(now, Ticks(current), Ticks(stored), || limit.far_of_windows()).0 > 0
    {
        (stored, state & window::low_bits(limit.count_bits))
    } else {
        (current, 0)
    }
}

/// Decides and charges.
#[inline(always)]
pub(super) fn decide(limit: &Limit, state: u64, now: Now, cost: u32) -> (bool, u64) {
    let (code, used) = read(limit, state, now);
    let sum = used.saturating_add(asked(cost) as u64);
    let allowed = sum <= limit.capacity;
    if cost > 0 && (allowed || limit.counts_denied()) {
        let most = window::low_bits(limit.count_bits);
        (allowed, window::not_busy(code | if sum > most { most } else { sum }))
    } else {
        (allowed, state)
    }
}

/// Only while the window counts that was charged.
#[inline(always)]
pub(super) fn undo(limit: &Limit, state: u64, charged: Now, cost: u32) -> u64 {
    let code = window::code(limit, Window::at(limit, charged).end);
    if window::code_of(limit, state) == code {
        code | (state & window::low_bits(limit.count_bits)).saturating_sub(cost as u64)
    } else {
        state
    }
}

/// What the current window has counted.
#[inline(always)]
pub(super) fn used(limit: &Limit, state: u64, now: Now) -> u64 {
    read(limit, state, now).1
}

/// The time until the window ends that the state counts in.
pub(super) fn reset(limit: &Limit, state: u64, now: Now) -> Nanos {
    let window = Window::at(limit, now);
    let (code, _) = read(limit, state, now);
    let later = window::windows_between(limit, now, window.end, code);
    Nanos(window.left.0.saturating_add(later.saturating_mul(limit.window.get())))
}
