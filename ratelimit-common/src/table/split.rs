//! Growing: a table doubles one set at a time, in place, while others use it (linear hashing, Litwin 1980).
//!
//! The caller publishes that set `from` is being split, so that nobody finds a home in it or in its other half and
//! whoever claims a slot there finds that its home no longer holds, then calls [`split`], then publishes the larger
//! table.

use super::{BUSY, EMPTY, Key, SLOTS, Set, Slot};

/// Moves the buckets of set number `set` that belong into the set `sets` higher, which must be empty.
///
/// `wait` is called while somebody else is about to give a slot back or to publish it.
pub fn split<S: Set>(from: S, to: S, set: u64, sets: u64, mut wait: impl FnMut()) {
    for index in 0..SLOTS {
        let slot = from.slot(index);
        let state = loop {
            let state = slot.state();
            if state != BUSY && slot.replace_state(state, BUSY) {
                break state;
            }
            wait();
        };
        let word = slot.key();
        match Key::of_slot(word, set) {
            Some(key) if key.home(word) & sets != 0 => {
                let target = to.slot(index);
                target.swap_key(word);
                target.release_state(state);
                slot.swap_key(EMPTY);
                slot.release_state(u64::from(state == 0));
            }
            _ => slot.release_state(state),
        }
    }
}
