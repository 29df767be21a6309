//! Committing a state that was worked out elsewhere, if the bucket still is what it was worked out from.

use super::{Key, Set, Slot, Table, change_slot, claim, find, read};
use crate::{algorithm, time::Now};

/// A bucket's slot as it was when its state was read.
#[derive(Clone, Copy, Debug)]
pub struct SeenBucket<S> {
    slot: S,
    word: u64,
}

/// What [`look`] finds: a state, and its slot if it has one.
pub type FoundSlot<T> = (u64, Option<SeenBucket<<<T as Table>::Set as Set>::Slot>>);

/// The state of a bucket, and its slot if it has one: without, a fresh state. `None` to try again.
#[inline(always)]
pub fn look<T: Table>(table: &T, key: &Key, now: Now) -> Option<FoundSlot<T>> {
    let home = table.home(key)?;
    match find(&home, key.word) {
        Some((slot, word)) => Some((read(slot, word)?, Some(SeenBucket { slot, word }))),
        None => table.holds(home.stamp).then(|| (algorithm::fresh(now), None)),
    }
}

/// Replaces the state of a bucket if it is `before`, and says whether it was; `None` to try again. A key without a
/// bucket has any idle state.
#[inline]
pub fn exchange<T: Table>(table: &T, key: &Key, now: Now, before: u64, after: u64) -> Option<bool> {
    let home = table.home(key)?;
    let Some((slot, word)) = find(&home, key.word) else {
        if algorithm::is_idle(before, now) {
            return claim(table, &home, key, now, after).then_some(true);
        }
        return table.holds(home.stamp).then_some(false);
    };
    if read(slot, word)? != before {
        return Some(false);
    }
    replace(slot, word, before, after).then_some(true)
}

impl<S: Slot> SeenBucket<S> {
    /// [`exchange`] without looking for the slot; false if that has to be tried.
    #[inline(always)]
    #[must_use]
    pub fn exchange(self, before: u64, after: u64) -> bool {
        read(self.slot, self.word) == Some(before) && replace(self.slot, self.word, before, after)
    }
}

/// As [`super::charge`] does, unless it gives back, which is for this key alone.
#[inline(always)]
fn replace<S: Slot>(slot: S, word: u64, before: u64, after: u64) -> bool {
    let takes = after > before;
    if takes { slot.replace_state(before, after) } else { change_slot(slot, word, before, after) }
}
