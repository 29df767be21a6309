//! The log of a limit that can be overrun: entries, and a debt beside them.
//!
//! While units are owed, the window is full. As its oldest entry leaves, one unit that is owed enters at that time. So
//! when each unit leaves follows from the entries alone: those of a full window leave again and again, a window's
//! length later each time.

use super::{Entries, append, expired, until_leaves};
use crate::{
    algorithm::{LimitDecision, Units},
    limit::Limit,
    time::{Nanos, Now},
};

/// A full window and what is owed; the log may have to be [`settle`]d before.
struct Debt<'e, E> {
    entries: &'e E,
    window: u64,
    owed: u64,
}

impl<'e, E: Entries> Debt<'e, E> {
    fn of(limit: &Limit, entries: &'e E) -> Self {
        Self { entries, window: limit.window.get(), owed: entries.owed() }
    }

    /// When the unit leaves that is at `index`, counted from the oldest entry through those that are owed.
    fn leaves(&self, index: u64) -> u64 {
        let len = (self.entries.len() as u64).max(1);
        let (turns, place) = (index / len, index % len);
        let newest = self.entries.get(self.entries.len().saturating_sub(1)).0;
        let after = |time: u64, windows: u64| time.saturating_add(windows.saturating_mul(self.window));
        let by_itself = after(self.entries.get(place as usize).0, turns.saturating_add(1));
        // After a clock that stepped back the newest may lie further ahead, and none comes before the one before it.
        if turns == 0 { by_itself } else { by_itself.max(after(newest, turns)) }
    }

    /// How many of the units that are owed have entered the window.
    fn paid(&self, now: Now) -> u64 {
        let (mut low, mut high) = (0, self.owed);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.leaves(middle) <= now.0.0 { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// When nothing is left of entries and debt.
    fn ends(&self) -> u64 {
        let units = (self.entries.len() as u64).saturating_add(self.owed);
        units.checked_sub(1).map_or(0, |last| self.leaves(last))
    }
}

/// Lets units that are owed enter the window, as far as others have left it. There may be too many entries or too few,
/// and more that is owed than can be, after a limit that was another one.
pub(super) fn settle(limit: &Limit, entries: &mut impl Entries, now: Now) {
    if entries.owed() == 0 {
        return;
    }
    while entries.len() as u64 > limit.capacity {
        entries.remove(entries.len() - 1);
        entries.owe(entries.owed().saturating_add(1));
    }
    entries.owe(entries.owed().min(limit.most_used().saturating_sub(limit.capacity)));
    let newest = entries.len().checked_sub(1).map_or(Nanos(0), |last| entries.get(last));
    let lacking = limit.capacity.saturating_sub(entries.len() as u64).min(entries.owed());
    for _ in 0..lacking {
        entries.push(now.0.max(newest), limit.capacity);
    }
    entries.owe(entries.owed() - lacking);
    let paid = Debt::of(limit, entries).paid(now);
    let len = (entries.len() as u64).max(1);
    turn(limit, entries, paid / len);
    for _ in 0..paid % len {
        let newest = entries.get(entries.len() - 1);
        let entered = Nanos(entries.get(0).0.saturating_add(limit.window.get())).max(newest);
        entries.pop_oldest();
        entries.push(entered, limit.capacity);
    }
    entries.owe(entries.owed() - paid);
}

/// Replaces each entry by the one that has its place when all others have left so many times, as above, at once.
fn turn(limit: &Limit, entries: &mut impl Entries, turns: u64) {
    let Some(last) = entries.len().checked_sub(1).filter(|_| turns > 0) else { return };
    let after = |time: Nanos, windows: u64| time.0.saturating_add(limit.window.get().saturating_mul(windows));
    let earliest = after(entries.get(last), turns - 1);
    for _ in 0..=last {
        let entered = after(entries.get(0), turns).max(earliest);
        entries.pop_oldest();
        entries.push(Nanos(entered), limit.capacity);
    }
}

/// Charges the whole cost, up to what can be owed; allowed if one unit was left before.
pub(super) fn decide<'l>(
    limit: &'l Limit,
    entries: &mut impl Entries,
    now: Now,
    cost: u32,
) -> LimitDecision<'l> {
    settle(limit, entries, now);
    let room = left(limit, entries, now);
    let allowed = room > 0;
    let mut cut = 0;
    if cost > 0 {
        let taken = room.min(cost.into());
        append(limit, entries, now, taken);
        let owed = entries.owed().saturating_add(u64::from(cost) - taken);
        let most = limit.most_used().saturating_sub(limit.capacity);
        cut = owed.saturating_sub(most);
        entries.owe(owed - cut);
    }
    let units = Units { remaining: left(limit, entries, now), owed: entries.owed(), cut };
    let debt = Debt::of(limit, entries);
    let until = |time: u64| Nanos(time.saturating_sub(now.0.0));
    let next = match units.owed {
        0 => {
            let expired = expired(limit, entries, now);
            let above = (entries.len() - expired).saturating_sub(limit.capacity as usize);
            until_leaves(limit, entries, now, expired + above)
        }
        owed => until(debt.leaves(owed)),
    };
    LimitDecision::known(limit, (allowed, cost, now), units, [next, until(debt.ends()), next])
}

/// Units that are left; none while any are owed.
fn left(limit: &Limit, entries: &impl Entries, now: Now) -> u64 {
    let used = (entries.len() - expired(limit, entries, now)) as u64;
    if entries.owed() > 0 { 0 } else { limit.capacity.saturating_sub(used) }
}

/// Whether nothing is left of entries and debt.
pub(super) fn is_idle(limit: &Limit, entries: &impl Entries, now: Now) -> bool {
    Debt::of(limit, entries).ends() <= now.0.0
}
