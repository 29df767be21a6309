//! Token bucket that is refilled in batches: `amount` tokens at the end of each epoch-aligned interval.
//!
//! The state is the end of the interval at which the bucket will be full, and what is missing from the intervals
//! before: the last refill brings between 1 and `amount` of the missing tokens, all earlier ones bring `amount`.
//!
//! A fixed window that can be overrun is such a bucket, of as many tokens as a refill brings: what a window has counted
//! above its limit is what a refill leaves missing.

use super::{
    asked,
    window::{self, Window},
};
use crate::{
    limit::Limit,
    time::{Nanos, Now, Ticks},
    wide,
};

/// Refills until the last one, and what that one brings.
#[inline(always)]
fn read(limit: &Limit, state: u64, now: Now, current: Ticks) -> (u64, u64) {
    let code = window::code(limit, current);
    let stored = window::code_of(limit, state);
    let last = state & window::low_bits(limit.count_bits);
    if stored == code {
        (0, last)
    } else if now.ahead_of(Ticks(code), Ticks(stored), limit.far_of_intervals()).0 > 0 {
        (window::windows_between(limit, now, current, stored), last)
    } else {
        (0, 0)
    }
}

/// The state in which `missing` tokens are missing, which are at least 1.
#[inline(always)]
fn write(limit: &Limit, window: Window, missing: u64) -> u64 {
    let (refills, rest) = limit.amount.divide(missing.wrapping_sub(1));
    window::not_busy(window::code(limit, window.end_after(limit, refills)) | (rest + 1))
}

/// What is missing from a full bucket.
#[inline(always)]
pub(super) fn missing(limit: &Limit, state: u64, now: Now) -> u64 {
    let (refills, last) = read(limit, state, now, Window::at(limit, now).end);
    wide::saturating_multiply(refills, limit.amount.get()).saturating_add(last)
}

/// Decides and charges.
#[inline(always)]
pub(super) fn decide(limit: &Limit, state: u64, now: Now, cost: u32) -> (bool, u64) {
    let missing = missing(limit, state, now);
    if limit.overruns() {
        return overrun(limit, state, now, missing, cost);
    }
    let sum = missing.saturating_add(asked(cost) as u64);
    let allowed = sum <= limit.capacity;
    if allowed && cost > 0 {
        (true, write(limit, Window::at(limit, now), sum))
    } else if !allowed && limit.counts_denied() && missing < limit.capacity {
        (false, write(limit, Window::at(limit, now), limit.capacity))
    } else {
        (allowed, state)
    }
}

/// Charges the whole cost, up to what can be owed; allowed if one token was left before.
fn overrun(limit: &Limit, state: u64, now: Now, missing: u64, cost: u32) -> (bool, u64) {
    let allowed = missing < limit.capacity;
    if cost == 0 {
        return (allowed, state);
    }
    let sum = missing.saturating_add(cost.into()).min(limit.most_used()).max(missing);
    (allowed, write(limit, Window::at(limit, now), sum))
}

/// Tokens that are owed.
pub(super) fn owed(limit: &Limit, state: u64, now: Now) -> u64 {
    missing(limit, state, now).saturating_sub(limit.capacity)
}

/// How many tokens a charge in `state` does not take because no more can be owed.
pub(super) fn cut(limit: &Limit, state: u64, now: Now, cost: u32) -> u64 {
    let room = limit.most_used().saturating_sub(missing(limit, state, now));
    u64::from(cost).saturating_sub(room)
}

/// Only while no refill has come since: after one, it can't be told whether the bucket was full in between.
#[inline(always)]
pub(super) fn undo(limit: &Limit, state: u64, charged: Now, later: Now, cost: u32) -> u64 {
    let window = Window::at(limit, later);
    if window.end.0 != Window::at(limit, charged).end.0 {
        return state;
    }
    match missing(limit, state, later).saturating_sub(cost as u64) {
        0 => super::fresh(later),
        missing => write(limit, window, missing),
    }
}

/// The last refill may be more than a smaller amount brings now; the bucket is full when it would have been.
pub(super) fn clamp(limit: &Limit, state: u64, now: Now) -> u64 {
    let (missing_now, amount) = (missing(limit, state, now), limit.amount.get());
    let cut = state & window::low_bits(limit.count_bits) > amount;
    let kept = if missing_now > 0 && cut { window::code_of(limit, state) | amount } else { state };
    if missing(limit, kept, now) > limit.most_used() {
        write(limit, Window::at(limit, now), limit.most_used())
    } else {
        kept
    }
}

/// The time until `cost`, which is at most the capacity, is there.
pub(super) fn wait(limit: &Limit, state: u64, now: Now, cost: u32) -> Nanos {
    let short = missing(limit, state, now).saturating_add(cost as u64).saturating_sub(limit.capacity);
    until_refilled(limit, now, short)
}

/// The time until the bucket is full.
pub(super) fn reset(limit: &Limit, state: u64, now: Now) -> Nanos {
    until_refilled(limit, now, missing(limit, state, now))
}

/// The time until `tokens` have come.
fn until_refilled(limit: &Limit, now: Now, tokens: u64) -> Nanos {
    if tokens == 0 {
        return Nanos(0);
    }
    let (later, _) = limit.amount.divide(tokens - 1);
    let left = Window::at(limit, now).left.0;
    Nanos(left.saturating_add(later.saturating_mul(limit.window.get())))
}
