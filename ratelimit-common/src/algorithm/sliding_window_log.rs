//! Sliding window log: the times of the requests in the last window, `(now - window, now]`. Exact, and as large as the
//! limit: an entry for each unit of cost.
//!
//! The newest `amount` entries are kept even when they have left the window, so that a clock that steps back finds
//! them.
//!
//! Units that a limit that can be overrun owes have no entries yet. They enter a full window, each as the oldest leaves
//! it.

mod overrun;

use super::{LimitDecision, Units, asked, reported};
use crate::{
    limit::Limit,
    time::{Nanos, Now},
};

/// The entries of one key, oldest first; the memory is the caller's.
pub trait Entries {
    /// How many there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The one at `index`, counted from the oldest; zero if there is none.
    fn get(&self, index: usize) -> Nanos;
    /// Forgets the oldest.
    fn pop_oldest(&mut self);
    /// Adds one that is not older than any other. There are never more than `most`.
    fn push(&mut self, time: Nanos, most: u64);
    /// Takes the one at `index` out.
    fn remove(&mut self, index: usize);
    /// How many units are owed: they have no entries, and only where there are as many as may be.
    fn owed(&self) -> u64;
    /// Changes how many units are owed.
    fn owe(&mut self, units: u64);
}

/// How many entries have left the window; they are the first ones.
fn expired(limit: &Limit, entries: &impl Entries, now: Now) -> usize {
    let (mut low, mut high) = (0, entries.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let leaves = entries.get(middle).0.saturating_add(limit.window.get());
        if leaves <= now.0.0 { low = middle + 1 } else { high = middle }
    }
    low
}

/// Adds `count` entries at `now`, or at the newest entry's time if the clock stepped back, keeps `amount`, and says how
/// many it added.
fn append(limit: &Limit, entries: &mut impl Entries, now: Now, count: u64) -> usize {
    let newest = entries.len().checked_sub(1).map_or(Nanos(0), |last| entries.get(last));
    let added = count.min(limit.capacity);
    for _ in 0..added {
        if entries.len() as u64 >= limit.capacity {
            entries.pop_oldest();
        }
        entries.push(now.0.max(newest), limit.capacity);
    }
    added as usize
}

/// Decides and charges, as [`super::decide`] does.
pub fn decide<'l>(limit: &'l Limit, entries: &mut impl Entries, now: Now, cost: u32) -> LimitDecision<'l> {
    if limit.overruns() {
        return overrun::decide(limit, entries, now, cost);
    }
    if entries.owed() > 0 {
        entries.owe(0);
    }
    let (len, mut expired) = (entries.len(), expired(limit, entries, now));
    let used = (len - expired) as u64;
    let allowed = used + u64::from(asked(cost)) <= limit.capacity;
    if allowed || limit.counts_denied() {
        let added = append(limit, entries, now, cost.into());
        // The oldest have made room, first those that have left the window.
        expired = expired.saturating_sub(len + added - entries.len());
    }
    let used = (entries.len() - expired) as u64;
    let reset = until_leaves(limit, entries, now, entries.len().wrapping_sub(1));
    let short = (used + u64::from(asked(cost))).saturating_sub(limit.capacity) as usize;
    let wait = until_leaves(limit, entries, now, (expired + short).wrapping_sub(1));
    let next = until_leaves(limit, entries, now, expired);
    let units = Units { remaining: limit.capacity.saturating_sub(used), owed: 0, cut: 0 };
    LimitDecision::known(limit, (allowed, cost, now), units, [wait, reset, next])
}

/// Charges as far as there is room, and denies nothing; see [`super::report`].
pub fn report<'l>(limit: &'l Limit, entries: &mut impl Entries, now: Now, cost: u32) -> LimitDecision<'l> {
    let left = decide(limit, entries, now, 0).remaining();
    decide(limit, entries, now, reported(limit, left, cost))
}

/// Gives back what an admitted request took at `charged`, after a later limit denied it; first what is owed.
pub fn undo(entries: &mut impl Entries, charged: Now, cost: u32) {
    let (time, mut left) = (charged.0, pay(entries, cost));
    for index in (0..entries.len()).rev() {
        if left == 0 || entries.get(index) < time {
            break;
        }
        if entries.get(index) == time {
            entries.remove(index);
            left -= 1;
        }
    }
}

/// Gives back `count` units of those that are owed, then of those that the window holds, the newest first.
pub fn refund(limit: &Limit, entries: &mut impl Entries, now: Now, count: u32) {
    if limit.overruns() {
        overrun::settle(limit, entries, now);
    }
    let count = pay(entries, count);
    for _ in 0..count.min(entries.len() as u32) {
        entries.remove(entries.len() - 1);
    }
}

/// Pays what is owed with `units`, and says how many are left.
fn pay(entries: &mut impl Entries, units: u32) -> u32 {
    let owed = entries.owed();
    if owed > 0 {
        entries.owe(owed.saturating_sub(units.into()));
    }
    units.saturating_sub(u32::try_from(owed).unwrap_or(u32::MAX))
}

/// The time until the entry at `index` leaves the window.
fn until_leaves(limit: &Limit, entries: &impl Entries, now: Now, index: usize) -> Nanos {
    if index >= entries.len() {
        return Nanos(0);
    }
    Nanos(entries.get(index).0.saturating_add(limit.window.get()).saturating_sub(now.0.0))
}

/// Whether forgetting the entries changes no decision.
pub fn is_idle(limit: &Limit, entries: &impl Entries, now: Now) -> bool {
    if limit.overruns() && entries.owed() > 0 {
        return overrun::is_idle(limit, entries, now);
    }
    expired(limit, entries, now) == entries.len()
}
