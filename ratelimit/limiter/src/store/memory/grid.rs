//! The bucket table of `ratelimit-common` over atomics, growing one set at a time by linear hashing.
//!
//! The control word says how many sets there are, and whether the next one is being split off. Whoever charges or
//! claims a slot takes the control word first, makes the slot busy, and looks at the control word again: if it changed,
//! the slot may be another key's by now, and the attempt starts again. The one that splits publishes that in the
//! control word first and makes each slot busy then. So of the two, at least one sees the other, and no charge is lost.
//!
//! That takes a total order of the operations on both words, so they are sequentially consistent; only a slot's release
//! is not, since nobody who still finds it busy does harm.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use ratelimit_common::{
    algorithm::{self, realign::can_return},
    limit::Limit,
    table::{self, Home, Key, LEAST_SETS, Position, SLOTS, Tag},
    time::Now,
};

use super::{
    backoff::Backoff,
    control::Control,
    reserve::{Reserve, SlotWords},
    slots::MemorySet,
};
use crate::store::Limits;

/// Sets split off at a time, while whoever claims a slot waits.
const STEP: usize = 8;

/// A table grows when a new key leaves this many of its sixteen slots idle, or fewer.
const FEW_IDLE: u64 = 3;

/// The memory of a table.
#[derive(Debug)]
pub struct Grid {
    reserve: Reserve,
    control: AtomicU64,
    tally: GridCounters,
}

/// A bucket where it lies: the slot's number over all sets, and its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedBucket {
    /// Set and slot.
    pub place: u64,
    /// Whose it is.
    pub key: u64,
    /// Its state.
    pub state: u64,
}

/// What is written now and then, away from what everybody reads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct GridCounters {
    /// Held while the table grows.
    growing: Mutex<()>,
    live_evictions: AtomicU64,
}

impl Grid {
    /// A table that grows up to `most_sets`; `None` if there is no room for so many.
    pub fn new(most_sets: u64) -> Option<Self> {
        let most_sets = Some(most_sets.max(LEAST_SETS)).filter(|&sets| sets <= Control::MOST_SETS)?;
        let control = AtomicU64::new(Control::of(LEAST_SETS).0);
        Some(Self { reserve: Reserve::new(most_sets)?, control, tally: GridCounters::default() })
    }

    /// A table with what another one held, which had so many sets; `None` if there is no room for so many, or if a
    /// bucket can't be where it is.
    pub fn restore(
        most_sets: u64,
        sets: u64,
        buckets: impl IntoIterator<Item = SavedBucket>,
    ) -> Option<Self> {
        if !(LEAST_SETS..=Control::MOST_SETS).contains(&sets) {
            return None;
        }
        let grid = Self::new(most_sets.max(sets))?;
        for SavedBucket { place, key, state } in buckets {
            let set = usize::try_from(place).ok()? / SLOTS;
            let slot = &grid.reserve.get(set).filter(|_| (set as u64) < sets)?.0[place as usize % SLOTS];
            let is_good = key != table::EMPTY && state < table::BUSY;
            slot.key.store(if is_good { key } else { return None }, Ordering::Relaxed);
            slot.state.store(state, Ordering::Relaxed);
        }
        grid.control.store(Control::of(sets).0, Ordering::SeqCst);
        Some(grid)
    }

    /// All buckets in use, or that can be again, with the number of sets that they are in. Nobody waits for it: what is
    /// charged meanwhile is in it as it was or as it is.
    pub fn save(&self, limits: &Limits, now: Now) -> (u64, Vec<SavedBucket>) {
        let (mut number, mut buckets, mut backoff) = (0, Vec::new(), Backoff::default());
        let control = loop {
            let control = self.control();
            if number < control.sets() {
                self.save_set(number, limits, now, &mut buckets);
                number += 1;
            } else if control.is_splitting() {
                // A bucket that moves meanwhile moves up, to the set that is about to be there.
                backoff.wait();
            } else {
                break control;
            }
        };
        // What has moved since it was looked at is there twice.
        buckets.retain(|bucket| {
            let set = bucket.place / SLOTS as u64;
            let is_home =
                |key: Key| [key.first(), key.second()].map(|hash| control.number(hash)).contains(&set);
            Key::of_slot(bucket.key, set).is_some_and(is_home)
        });
        (control.sets(), buckets)
    }

    fn save_set(&self, number: u64, limits: &Limits, now: Now, buckets: &mut Vec<SavedBucket>) {
        for (index, slot) in self.reserve.get(number as usize).iter().flat_map(|set| &set.0).enumerate() {
            let (key, state) = words_of(slot);
            let limit = Key::of_slot(key, number).and_then(|key| limits.of(&key));
            let matters =
                limit.map_or(!algorithm::is_idle(state, now), |limit| can_return(limit, state, now));
            if key != table::EMPTY && matters {
                buckets.push(SavedBucket { place: number * SLOTS as u64 + index as u64, key, state });
            }
        }
    }

    /// How many buckets are in use.
    pub fn in_use(&self, now: Now) -> u64 {
        let slots = self.reserve.iter().take(self.sets() as usize).flat_map(|set| &set.0);
        let in_use = slots.filter(|slot| {
            let (key, state) = (slot.key.load(Ordering::Relaxed), slot.state.load(Ordering::Relaxed));
            key != table::EMPTY && state != table::BUSY && !algorithm::is_idle(state, now)
        });
        in_use.count() as u64
    }

    /// How many sets are in use.
    pub fn sets(&self) -> u64 {
        self.control().sets()
    }

    /// How many buckets in use have given way to others.
    pub fn live_evictions(&self) -> u64 {
        self.tally.live_evictions.load(Ordering::Relaxed)
    }

    /// [`Self::update_all`] for what must not be done twice: nothing moves meanwhile.
    pub fn update_each(&self, limits: &Limits, change: impl Fn(&Limit, u64) -> u64) {
        let _growing = self.tally.growing.lock().unwrap_or_else(PoisonError::into_inner);
        self.update_all(limits, change);
    }

    /// Replaces the state of each bucket that has a limit by what `change` makes of it.
    pub fn update_all(&self, limits: &Limits, change: impl Fn(&Limit, u64) -> u64) {
        let (mut number, mut backoff) = (0, Backoff::default());
        loop {
            let control = self.control();
            if number < control.sets() {
                self.update_set(number, limits, &change);
                number += 1;
            } else if control.is_splitting() {
                // A bucket that moves meanwhile moves up, to the set that is about to be there.
                backoff.wait();
            } else {
                return;
            }
        }
    }

    fn update_set(&self, number: u64, limits: &Limits, change: &impl Fn(&Limit, u64) -> u64) {
        let view = View { grid: self, limits };
        for slot in self.reserve.get(number as usize).iter().flat_map(|set| &set.0) {
            let key = Key::of_slot(slot.key.load(Ordering::SeqCst), number);
            let Some((key, limit)) = key.and_then(|key| Some((key, limits.of(&key)?))) else { continue };
            let mut backoff = Backoff::default();
            while !table::update(&view, &key, |state| change(limit, state)) {
                backoff.wait();
            }
        }
    }

    #[inline]
    fn control(&self) -> Control {
        Control(self.control.load(Ordering::SeqCst))
    }

    /// The two sets of a key.
    #[inline]
    fn home(&self, key: &Key, control: Control) -> Option<Home<MemorySet<'_>>> {
        let first = self.set(control.number(key.first()), control)?;
        let second = self.set(control.number(key.second()), control)?;
        Some(Home { first, second, stamp: control.0 })
    }

    /// The two sets of a key when neither is being split.
    #[cold]
    fn home_at_rest(&self, key: Key) -> Option<Home<MemorySet<'_>>> {
        let mut backoff = Backoff::default();
        loop {
            let control = self.control();
            let (splits, _) = control.splits_next();
            let at_rest = |hash| !control.is_splitting() || control.number(hash) != splits;
            if at_rest(key.first()) && at_rest(key.second()) {
                return self.home(&key, control);
            }
            backoff.wait();
        }
    }

    #[inline]
    fn set(&self, number: u64, control: Control) -> Option<MemorySet<'_>> {
        Some(MemorySet {
            words: self.reserve.get(number as usize)?,
            control: &self.control,
            stamp: control.0,
        })
    }

    /// Splits off a few sets; false if the table is as large as it can be. One at a time may do that.
    fn split(&self) -> bool {
        (0..STEP).filter(|_| self.split_one()).count() > 0
    }

    fn split_one(&self) -> bool {
        let control = self.control();
        let (sets, (from, half)) = (control.sets(), control.splits_next());
        let splitting = control.splitting();
        let (Some(source), Some(target)) = (self.set(from, splitting), self.set(sets, splitting)) else {
            return false;
        };
        self.control.swap(splitting.0, Ordering::SeqCst);
        let mut backoff = Backoff::default();
        table::split(source, target, from, half, || backoff.wait());
        self.control.swap(Control::of(sets + 1).0, Ordering::SeqCst);
        true
    }

    /// Makes room for a key that found none; false if the table is as large as it can be.
    #[cold]
    fn make_room(&self, stamp: u64) -> bool {
        if stamp == Control::of(self.reserve.len() as u64).0 {
            return false;
        }
        let _growing = self.tally.growing.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have made room meanwhile.
        self.control().0 != stamp || self.split()
    }

    #[cold]
    fn grow(&self) {
        if let Ok(_growing) = self.tally.growing.try_lock() {
            self.split();
        }
    }
}

/// A slot's key and its state, which belong together. Whoever charges it, or takes it for another key, is done in a
/// moment.
fn words_of(slot: &SlotWords) -> (u64, u64) {
    let mut backoff = Backoff::default();
    loop {
        let key = slot.key.load(Ordering::SeqCst);
        let state = slot.state.load(Ordering::SeqCst);
        if state != table::BUSY && slot.key.load(Ordering::SeqCst) == key {
            return (key, state);
        }
        backoff.wait();
    }
}

/// The table as one generation sees it.
#[derive(Clone, Copy, Debug)]
pub struct View<'g, 'l> {
    /// The memory.
    pub grid: &'g Grid,
    /// The limits by tag.
    pub limits: &'l Limits,
}

impl<'g> table::Table for View<'g, '_> {
    type Set = MemorySet<'g>;

    #[inline]
    fn home(&self, key: &Key) -> Option<Home<MemorySet<'g>>> {
        let control = self.grid.control();
        // Taken apart, so that the commoner one stays in registers.
        let Home { first, second, stamp } = match control.is_splitting() {
            true => self.grid.home_at_rest(*key)?,
            false => self.grid.home(key, control)?,
        };
        Reserve::prefetch(first.words);
        Reserve::prefetch(second.words);
        Some(Home { first, second, stamp })
    }

    #[inline]
    fn holds(&self, stamp: u64) -> bool {
        self.grid.control().0 == stamp
    }

    #[inline]
    fn limit(&self, tag: Tag) -> Option<&Limit> {
        self.limits.get(tag)
    }

    fn on_live_eviction(&self) {
        self.grid.tally.live_evictions.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    fn nearest_to_fresh(&self, home: &Home<MemorySet<'g>>, now: Now) -> Option<Position> {
        if self.grid.make_room(home.stamp) { None } else { table::nearest_to_fresh(self, home, now) }
    }

    #[inline]
    fn on_claim(&self, idle_left: u64) {
        if idle_left <= FEW_IDLE && (self.grid.sets() as usize) < self.grid.reserve.len() {
            self.grid.grow();
        }
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::table::{Secret, Set as _, Slot as _, Table as _};

    use super::*;

    /// Threads meet this too seldom: a bucket moves away between two of another thread's steps, and one with the same
    /// state comes to its place.
    #[test]
    fn who_looked_before_a_split_changes_nothing_after_it() {
        let grid = Grid::new(2 * LEAST_SETS).unwrap();
        let view = View { grid: &grid, limits: &Limits::default() };
        let key = Secret::new([1, 2, 3, 4]).key(Tag::new(1), 5);
        let home = view.home(&key).unwrap();
        assert!(view.holds(home.stamp) && home.second.slot(3).replace_state(0, 7));
        assert!(grid.split());
        assert!(!view.holds(home.stamp));
        assert!(!home.second.slot(3).replace_state(7, 8));
        assert_eq!(home.second.slot(3).state(), 7, "as it was, and free");
        let home = view.home(&key).unwrap();
        assert!(view.holds(home.stamp) && home.second.slot(3).replace_state(7, 8));
    }

    #[test]
    fn it_grows_a_few_sets_at_a_time_up_to_the_most() {
        let grid = Grid::new(LEAST_SETS + 12).unwrap();
        assert!(grid.split());
        assert_eq!(grid.sets(), LEAST_SETS + 8);
        assert!(grid.make_room(grid.control().0));
        assert_eq!(grid.sets(), LEAST_SETS + 12);
        assert!(!grid.split() && !grid.make_room(grid.control().0));
        assert!(grid.make_room(Control::of(LEAST_SETS).0), "there has been room since");
        assert!(Grid::new(Control::MOST_SETS + 1).is_none());
    }
}
