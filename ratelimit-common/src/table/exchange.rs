//! Committing a state that was worked out elsewhere, if the bucket still is what it was worked out from.

use super::{Key, Slot as _, Table, change_slot, claim, find, read};
use crate::{algorithm, time::Now};

/// Replaces the state of a bucket if it is `before`, and says whether it was; `None` to try again. A key without a bucket has
/// any idle state.
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
    // As [`charge`] does, unless it gives back, which is for this key alone.
    let takes = after > before;
    let is_done =
        if takes { slot.replace_state(before, after) } else { change_slot(slot, word, before, after) };
    is_done.then_some(true)
}
