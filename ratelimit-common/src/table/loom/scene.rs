//! What a model begins with: keys, a limit, and what the slots hold.

use core::num::NonZeroU64;

use super::memory::{Cell, Loads, Word};
use crate::{
    algorithm,
    limit::{Algorithm, Limit, LimitSpec, Rate, StateStorage},
    table::{EMPTY, Key, LEAST_SETS, SLOTS, key::SECOND},
    time::{Nanos, Now},
};

/// The time in all models.
pub(super) const NOW: Now = Now(Nanos(1_000 * Nanos::SECOND.0));

/// The tag of all keys.
const TAG: u64 = 1 << (64 - 11);

/// The key of foreign buckets.
pub(super) const FOREIGN: u64 = TAG | 1_000_000;

/// A key whose first set is set 0. If it is odd, its bucket there moves when that is split.
pub(super) fn first_in_set_0(number: u64) -> Key {
    Key::of_slot(TAG | number, 0).unwrap()
}

/// A key whose second set is set 0.
pub(super) fn second_in_set_0(number: u64) -> Key {
    Key::of_slot(TAG | number | SECOND, 0).unwrap()
}

/// A bucket of so many units.
pub(super) fn bucket(units: u64) -> Limit {
    limit(Algorithm::TokenBucket, units, Nanos::SECOND)
}

/// So many units in a window. In it, two keys that have taken as many are in the same state.
pub(super) fn window(units: u64) -> Limit {
    limit(Algorithm::FixedWindow, units, Nanos::from_secs(86_400))
}

fn limit(algorithm: Algorithm, units: u64, per: Nanos) -> Limit {
    let rate = Rate { amount: NonZeroU64::new(units).unwrap(), per };
    LimitSpec::new(algorithm, rate).build(StateStorage::UserSpace).unwrap()
}

/// What a slot holds.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// Nothing, for so many seconds.
    Free(u64),
    /// The bucket of a key, which has been full again for so many seconds.
    Idle(Key, u64),
    /// The bucket of a key, with so many units taken.
    Live(Key, u32),
}

/// A set's slots: those given, and foreign ones so full that nobody would take them before any of the others.
pub(super) fn cells(starts: &[Start], is_set_0: bool, loads: Loads, limit: &Limit) -> [Cell; SLOTS] {
    let full = taken_at_once(limit, limit.capacity() as u32);
    core::array::from_fn(|index| match starts.get(index) {
        None => Cell::Foreign(full + 1),
        Some(start) => {
            let (word, state) = start.words(is_set_0, limit);
            Cell::Shared { key: Word::new(loads, word), state: Word::new(loads, state) }
        }
    })
}

impl Start {
    fn words(self, is_set_0: bool, limit: &Limit) -> (u64, u64) {
        match self {
            Self::Free(seconds) => (EMPTY, ago(seconds)),
            Self::Idle(key, seconds) => (word_in(&key, is_set_0), ago(seconds)),
            Self::Live(key, units) => (word_in(&key, is_set_0), taken_at_once(limit, units)),
        }
    }
}

/// What a slot in set 0, or in the other, holds if it is a bucket of `key`.
fn word_in(key: &Key, is_set_0: bool) -> u64 {
    let is_first = (key.first() % LEAST_SETS == 0) == is_set_0;
    if is_first { key.word } else { key.word | SECOND }
}

fn ago(seconds: u64) -> u64 {
    algorithm::fresh(Now(Nanos(NOW.0.0 - Nanos::from_secs(seconds).0)))
}

fn taken_at_once(limit: &Limit, units: u32) -> u64 {
    algorithm::decide(limit, algorithm::fresh(NOW), NOW, units).1
}
