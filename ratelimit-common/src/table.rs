//! The bucket table: sets of eight slots, each a key and a state word, shared by any number of processors without a
//! lock.
//!
//! The state word is the lock of its slot. Charging a bucket loads the state, then the key, then exchanges the state if
//! it is still the same. Taking a slot for another key exchanges its state for [`BUSY`] first, so that nobody can
//! charge it meanwhile, writes the key, and then searches both sets for the same key: of two that claim at once,
//! whoever comes second sees the first and gives its slot back. A slot that is given back is left empty and with
//! another state than before, so that nobody who read it earlier can charge it.
//!
//! A slot whose state is idle (see [`crate::algorithm`]) can be taken without changing any later decision. Only if no
//! slot of the two sets is idle, the bucket nearest to fresh is lost, and counted.
//!
//! The memory is the caller's: [`Slot`], [`Set`] and [`Table`] say what it must do. A call makes one attempt, because a
//! loop looks different in the kernel: repeat it while it says [`Attempt::Again`].

mod bits;
#[cfg(feature = "network")]
mod bucket_ref;
mod choose;
mod elsewhere;
mod exchange;
mod find;
mod key;
#[cfg(all(test, loom))]
mod loom;
mod position;
mod split;

#[cfg(feature = "network")]
pub use self::bucket_ref::{BucketRef, SlotAddress};
pub use self::{
    choose::{nearest_to_fresh, share_used, survey},
    elsewhere::{holders_in, is_elsewhere},
    exchange::{SeenBucket, exchange, look},
    key::{Key, Keyed, LEAST_SETS, Secret, Tag},
    position::Position,
    split::split,
};
use self::{
    find::{find, find_index_in},
    key::SECOND,
};
use crate::{algorithm, limit::Limit, time::Now, verifier::opaque};

/// Slots in a set: with 16 bytes each, two cache lines.
pub const SLOTS: usize = 8;

/// The key of a slot that belongs to nobody.
pub const EMPTY: u64 = 0;

/// The state of a slot that is being taken; all others are below.
pub const BUSY: u64 = u64::MAX << crate::time::Ticks::SHIFT;

/// One slot's two words.
pub trait Slot: Copy {
    /// The key. Not reordered before an earlier [`Self::state`].
    fn key(self) -> u64;
    /// The state. What the key is afterwards is at least as new.
    fn state(self) -> u64;
    /// Replaces the key. A full barrier.
    fn swap_key(self, key: u64);
    /// Replaces the state if it is `current`, and says whether it was. A full barrier.
    fn replace_state(self, current: u64, new: u64) -> bool;
    /// Replaces the state of a slot that the caller has made [`BUSY`], after all it did before.
    fn release_state(self, new: u64);
}

/// [`SLOTS`] slots.
pub trait Set: Copy {
    /// Its slots.
    type Slot: Slot;
    /// The one at `index`, which is below [`SLOTS`].
    fn slot(self, index: usize) -> Self::Slot;

    /// Has its memory come while something else is done, where that is worth it.
    #[inline(always)]
    fn touch(self) {}

    /// [`survey`]: a call of its own in the kernel.
    #[inline(always)]
    fn survey(self, base: u64, present: u64) -> u64 {
        survey(self, base, present)
    }

    /// [`holders_in`]: a call of its own in the kernel.
    #[inline(always)]
    fn holders(self, word: u64) -> u64 {
        holders_in(self, word)
    }

    /// The index of the first one whose key is `word`. A process may look at all at once, since where a key lies can't
    /// be guessed.
    #[cfg(not(target_arch = "bpf"))]
    #[inline(always)]
    fn find(self, word: u64) -> Option<usize> {
        (0..SLOTS).find(|&index| self.slot(index).key() == word)
    }
}

/// The two sets of a key, as they were at one time.
#[derive(Clone, Copy, Debug)]
pub struct Home<S> {
    /// Where its bucket lies if there is room.
    pub first: S,
    /// Where it lies else.
    pub second: S,
    /// What [`Table::holds`] needs to tell whether these are still the two.
    pub stamp: u64,
}

/// The memory of a table, and what it must know about the limits in it.
pub trait Table {
    /// Its sets.
    type Set: Set;

    /// The two sets of `key`; `None` only if the memory can't be reached.
    fn home(&self, key: &Key) -> Option<Home<Self::Set>>;

    /// Whether a home is still right, asked after a slot in it was made busy. A table that never grows says yes.
    fn holds(&self, _stamp: u64) -> bool {
        true
    }

    /// The limit that a bucket of `tag` belongs to, for choosing whom to lose.
    fn limit(&self, tag: Tag) -> Option<&Limit>;

    /// Called when a bucket in use had to give way.
    fn on_live_eviction(&self);

    /// [`nearest_to_fresh`] of a home of which no slot is idle: a call of its own in the kernel. A table that can still
    /// grow does so and answers `None`.
    #[inline]
    fn nearest_to_fresh(&self, home: &Home<Self::Set>, now: Now) -> Option<Position>
    where
        Self: Sized,
    {
        nearest_to_fresh(self, home, now)
    }

    /// [`decide`] of what may take a slot: a call of its own in the kernel, because taking one needs the stack.
    #[inline(always)]
    fn decide(&self, request: &BucketRequest<'_>, state: u64) -> (bool, u64) {
        decide(request.limit, state, request.now, request.cost)
    }

    /// [`share_used`]: a call of its own in the kernel.
    #[inline(always)]
    fn share_used(&self, tag: Tag, state: u64, now: Now) -> u64
    where
        Self: Sized,
    {
        share_used(self, tag, state, now)
    }

    /// [`is_elsewhere`]: a call of its own in the kernel.
    #[inline(always)]
    fn is_elsewhere(&self, home: &Home<Self::Set>, word: u64, mine: Position) -> bool {
        is_elsewhere(home, word, mine)
    }

    /// Called while a slot that was taken for a new key is still [`BUSY`], with where it lies.
    #[inline(always)]
    fn on_place(&self, _home: &Home<Self::Set>, _place: Position) {}

    /// Called after a slot was taken for a new key, with the number of idle slots that its two sets have left. A table
    /// that grows does it here.
    #[inline(always)]
    fn on_claim(&self, _idle_left: u64) {}
}

/// What came of one try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Attempt {
    /// The decision, and the bucket's state before and after.
    Done {
        /// Whether the request may go on.
        allowed: bool,
        /// The state that decided.
        before: u64,
        /// The state now.
        after: u64,
        /// Whether the key had no bucket.
        is_new: bool,
    },
    /// Someone else was at the same slot: try again.
    Again,
}

/// One request against one limit.
#[derive(Clone, Copy, Debug)]
pub struct BucketRequest<'l> {
    /// Whose bucket.
    pub key: Key,
    /// The limit.
    pub limit: &'l Limit,
    /// The time.
    pub now: Now,
    /// The cost.
    pub cost: u32,
}

/// Decides and charges.
#[inline(always)]
pub fn charge<T: Table>(table: &T, request: &BucketRequest<'_>) -> Attempt {
    let Some(home) = table.home(&request.key) else { return Attempt::Again };
    let found = find(&home, request.key.word);
    let before = match found {
        Some((slot, word)) => match read(slot, word) {
            Some(state) => state,
            None => return Attempt::Again,
        },
        None => algorithm::fresh(request.now),
    };
    let (allowed, after) = table.decide(request, before);
    let is_done = match found {
        Some((slot, _)) => after == before || slot.replace_state(before, after),
        None if after == before => table.holds(home.stamp),
        None => claim(table, &home, &request.key, request.now, after),
    };
    if is_done { Attempt::Done { allowed, before, after, is_new: found.is_none() } } else { Attempt::Again }
}

/// [`charge`] for a bucket that is there, which is most of the time; `None` if it is not.
#[inline(always)]
pub fn charge_known<T: Table>(table: &T, request: &BucketRequest<'_>) -> Option<Attempt> {
    let Some(home) = table.home(&request.key) else { return Some(Attempt::Again) };
    find(&home, request.key.word).map(|(slot, word)| charge_slot(slot, word, request))
}

/// Decides without charging.
#[inline(always)]
pub fn peek<T: Table>(table: &T, request: &BucketRequest<'_>) -> Attempt {
    let Some(home) = table.home(&request.key) else { return Attempt::Again };
    let (state, is_new) = match find(&home, request.key.word) {
        Some((slot, word)) => match read(slot, word) {
            Some(state) => (state, false),
            None => return Attempt::Again,
        },
        None if table.holds(home.stamp) => (algorithm::fresh(request.now), true),
        None => return Attempt::Again,
    };
    let (allowed, _) = decide(request.limit, state, request.now, request.cost);
    Attempt::Done { allowed, before: state, after: state, is_new }
}

/// Gives a key a state, and a slot if it has none: `first` then, else what `change` makes of the one it had, while the
/// slot is [`BUSY`]. True when done. For states that are no limit's.
#[inline(always)]
pub fn put<T: Table>(
    table: &T,
    key: &Key,
    now: Now,
    first: u64,
    change: impl FnOnce(&Home<T::Set>, Position, u64) -> u64,
) -> bool {
    let Some(home) = table.home(key) else { return false };
    let Some(place) = place_in(&home, key) else { return claim(table, &home, key, now, first) };
    let (set, word) = if place.second { (home.second, key.word | SECOND) } else { (home.first, key.word) };
    let slot = set.slot(place.index);
    let Some(before) = read(slot, word) else { return false };
    if !slot.replace_state(before, BUSY) {
        return false;
    }
    // It may have become another key's since, in the same state.
    let is_same = slot.key() == word;
    slot.release_state(if is_same { change(&home, place, before) } else { before });
    is_same
}

/// Where the slot of a key lies, if it has one.
#[inline(always)]
pub fn place_in<S: Set>(home: &Home<S>, key: &Key) -> Option<Position> {
    if let Some(index) = find_index_in(home.first, key.word) {
        return Some(Position { second: false, index });
    }
    find_index_in(home.second, key.word | SECOND).map(|index| Position { second: true, index })
}

/// The state of a key's slot; `None` if it has none. One that is being changed is [`BUSY`].
#[inline(always)]
pub fn state<T: Table>(table: &T, key: &Key) -> Option<u64> {
    let home = table.home(key)?;
    let (slot, word) = find(&home, key.word)?;
    let state = slot.state();
    if slot.key() == word { Some(state) } else { None }
}

/// Gives back what an admitted request took, after a later limit denied it; true when done. `later` is the present.
#[inline(always)]
pub fn undo<T: Table>(table: &T, request: &BucketRequest<'_>, later: Now) -> bool {
    let change = |state| algorithm::undo(request.limit, state, request.now, later, request.cost);
    update(table, &request.key, change)
}

/// Replaces the state of a bucket by what `change` makes of it; true when done, or if there is no such bucket.
#[inline(always)]
pub fn update<T: Table>(table: &T, key: &Key, change: impl Fn(u64) -> u64) -> bool {
    let Some(home) = table.home(key) else { return false };
    let Some((slot, word)) = find(&home, key.word) else { return table.holds(home.stamp) };
    let Some(state) = read(slot, word) else { return false };
    let after = change(state);
    after == state || change_slot(slot, word, state, after)
}

/// Held while the key is read again: it may have become another key's since, in the same state.
#[inline(always)]
fn change_slot<S: Slot>(slot: S, word: u64, before: u64, after: u64) -> bool {
    if !slot.replace_state(before, BUSY) {
        return false;
    }
    let is_same = slot.key() == word;
    slot.release_state(if is_same { after } else { before });
    is_same
}

/// The state of a slot, if it still belongs to `word` and nobody is taking it.
#[inline(always)]
fn read<S: Slot>(slot: S, word: u64) -> Option<u64> {
    let state = slot.state();
    if slot.key() == word && state != BUSY { Some(state) } else { None }
}

#[inline(always)]
fn charge_slot<S: Slot>(slot: S, word: u64, request: &BucketRequest<'_>) -> Attempt {
    let Some(before) = read(slot, word) else { return Attempt::Again };
    let (allowed, after) = decide(request.limit, before, request.now, request.cost);
    if after == before || slot.replace_state(before, after) {
        Attempt::Done { allowed, before, after, is_new: false }
    } else {
        Attempt::Again
    }
}

/// Whether a limit allows a request in a state, and the state after it; see [`algorithm::decide`].
#[inline(always)]
pub fn decide(limit: &Limit, state: u64, now: Now, cost: u32) -> (bool, u64) {
    let (decision, after) = algorithm::decide(limit, state, now, cost);
    (decision.allowed, after)
}

/// Takes a slot for a key that has none, and gives it this state; true when done.
#[inline(always)]
fn claim<T: Table>(table: &T, home: &Home<T::Set>, key: &Key, now: Now, after: u64) -> bool {
    let Some((place, idle)) = choose::slot_to_take(table, home, now) else { return false };
    let (set, word) = if place.second { (home.second, key.word | SECOND) } else { (home.first, key.word) };
    let slot = set.slot(opaque(place.index as u64) as usize % SLOTS);
    let before = slot.state();
    let live = !algorithm::is_idle(before, now);
    // Somebody may have taken it since, or given it back.
    let has_changed = before == BUSY || live != (idle == 0);
    if has_changed || !slot.replace_state(before, BUSY) {
        return false;
    }
    let owner = slot.key();
    if owner == word {
        slot.release_state(before);
        return false;
    }
    if live && owner != EMPTY {
        table.on_live_eviction();
    }
    slot.swap_key(word);
    // In this order: a bucket that the search misses because a split moves it changes what holds.
    if table.is_elsewhere(home, key.word, place) || !table.holds(home.stamp) {
        slot.swap_key(EMPTY);
        slot.release_state(given_back(before, algorithm::fresh(now)));
        return false;
    }
    table.on_place(home, place);
    slot.release_state(after);
    table.on_claim(idle.saturating_sub(1));
    true
}

/// The state of a slot that is given back: idle, and another than it had. At one and the same time each is lower than
/// the one before, so that none comes back however often the slot is taken and given back.
#[inline(always)]
const fn given_back(before: u64, fresh: u64) -> u64 {
    let idle = fresh.saturating_sub(1);
    let is_recent = before > 0 && before <= idle && idle - before < 1 << 32;
    let next = if is_recent { before - 1 } else { idle };
    if next == before { next ^ 1 } else { next }
}
