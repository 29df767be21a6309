//! The bucket table of `ratelimit-common` over atomics, growing one set at a time by linear hashing.
//!
//! The control word says how many sets there are, and whether the next one is being split off. Whoever charges or claims
//! a slot takes the control word first, makes the slot busy, and looks at the control word again: if it changed, the slot
//! may be another key's by now, and the attempt starts again. The one that splits publishes that in the control word
//! first and makes each slot busy then. So of the two, at least one sees the other, and no charge is lost.
//!
//! That takes a total order of the operations on both words, so they are sequentially consistent; only a slot's release is
//! not, since nobody who still finds it busy does harm.

use std::{
    hint::select_unpredictable,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use ratelimit_common::{
    limit::Limit,
    table::{self, BUSY, Home, Key, LEAST_SETS, Position, SLOTS, Tag},
    time::Now,
};

use super::{
    backoff::Backoff,
    reserve::{Reserve, SetWords, SlotWords},
};
use crate::store::Limits;

/// Sets split off at a time, while whoever claims a slot waits.
const STEP: usize = 8;

/// A table grows when a new key leaves this many of its sixteen slots idle, or fewer.
const FEW_IDLE: u64 = 1;

/// Set numbers have 31 bits.
const MOST_SETS: u64 = 1 << 31;

/// The memory of a table.
#[derive(Debug)]
pub struct Grid {
    reserve: Reserve,
    control: AtomicU64,
    tally: Tally,
}

/// What is written now and then, away from what everybody reads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Tally {
    /// Held while the table grows.
    growing: Mutex<()>,
    live_evictions: AtomicU64,
}

impl Grid {
    /// A table that grows up to `most_sets`; `None` if there is no room for so many.
    pub fn new(most_sets: u64) -> Option<Self> {
        let most_sets = Some(most_sets.max(LEAST_SETS)).filter(|&sets| sets <= MOST_SETS)?;
        let control = AtomicU64::new(Control::of(LEAST_SETS).0);
        Some(Self { reserve: Reserve::new(most_sets)?, control, tally: Tally::default() })
    }

    /// How many sets are in use.
    pub fn sets(&self) -> u64 {
        self.control().sets()
    }

    /// How many buckets in use have given way to others.
    pub fn live_evictions(&self) -> u64 {
        self.tally.live_evictions.load(Ordering::Relaxed)
    }

    /// Replaces the state of each bucket that has a limit by what `change` makes of it.
    pub fn update_all(&self, limits: &Limits, change: impl Fn(&Limit, u64) -> u64) {
        let view = View { grid: self, limits };
        let mut number = 0;
        // A bucket that moves meanwhile moves up.
        while number < self.sets() {
            for slot in self.reserve.get(number as usize).iter().flat_map(|set| &set.0) {
                let word = slot.key.load(Ordering::SeqCst);
                let Some(key) = Key::of_slot(word, number) else { continue };
                let Some(limit) = limits.of(&key) else { continue };
                let mut backoff = Backoff::default();
                while !table::update(&view, &key, |state| change(limit, state)) {
                    backoff.wait();
                }
            }
            number += 1;
        }
    }

    #[inline]
    fn control(&self) -> Control {
        Control(self.control.load(Ordering::SeqCst))
    }

    /// The two sets of a key.
    #[inline]
    fn home(&self, key: &Key, control: Control) -> Option<Home<Set<'_>>> {
        let first = self.set(control.number(key.first()), control)?;
        let second = self.set(control.number(key.second()), control)?;
        Some(Home { first, second, stamp: control.0 })
    }

    /// The two sets of a key when neither is being split.
    #[cold]
    fn home_at_rest(&self, key: Key) -> Option<Home<Set<'_>>> {
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
    fn set(&self, number: u64, control: Control) -> Option<Set<'_>> {
        Some(Set { words: self.reserve.get(number as usize)?, control: &self.control, stamp: control.0 })
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

/// What the control word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Control(u64);

impl Control {
    /// The next set is being split off.
    const SPLITTING: u64 = 1 << 63;

    const fn of(sets: u64) -> Self {
        Self(sets | ((sets.next_power_of_two() - 1) << 32))
    }

    const fn splitting(self) -> Self {
        Self(self.0 | Self::SPLITTING)
    }

    const fn is_splitting(self) -> bool {
        self.0 & Self::SPLITTING != 0
    }

    /// How many sets there are.
    const fn sets(self) -> u64 {
        self.0 & 0xffff_ffff
    }

    /// The number of a set: the low bits of `hash`, of which the sets that are not split yet use one less.
    #[inline]
    const fn number(self, hash: u64) -> u64 {
        let mask = (self.0 & !Self::SPLITTING) >> 32;
        let number = hash & mask;
        if number < self.sets() { number } else { number & (mask >> 1) }
    }

    /// Which set is split next, and how much higher its other half will lie.
    const fn splits_next(self) -> (u64, u64) {
        let half = 1 << self.sets().ilog2();
        (self.sets() - half, half)
    }
}

/// The table as one generation sees it.
#[derive(Clone, Copy, Debug)]
pub struct View<'g> {
    /// The memory.
    pub grid: &'g Grid,
    /// The limits by tag.
    pub limits: &'g Limits,
}

impl<'g> table::Table for View<'g> {
    type Set = Set<'g>;

    #[inline]
    fn home(&self, key: &Key) -> Option<Home<Set<'g>>> {
        let control = self.grid.control();
        let home =
            if control.is_splitting() { self.grid.home_at_rest(*key) } else { self.grid.home(key, control) };
        if let Some(home) = &home {
            Reserve::prefetch(home.first.words);
            Reserve::prefetch(home.second.words);
        }
        home
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
    fn nearest_to_fresh(&self, home: &Home<Set<'g>>, now: Now) -> Option<Position> {
        if self.grid.make_room(home.stamp) { None } else { table::nearest_to_fresh(self, home, now) }
    }

    #[inline]
    fn on_claim(&self, idle_left: u64) {
        if idle_left <= FEW_IDLE && (self.grid.sets() as usize) < self.grid.reserve.len() {
            self.grid.grow();
        }
    }
}

/// A set, as it was at the time of `stamp`.
#[derive(Clone, Copy, Debug)]
pub struct Set<'g> {
    words: &'g SetWords,
    control: &'g AtomicU64,
    stamp: u64,
}

impl<'g> table::Set for Set<'g> {
    type Slot = Slot<'g>;

    #[inline]
    fn slot(self, index: usize) -> Slot<'g> {
        Slot { words: &self.words.0[index % SLOTS], control: self.control, stamp: self.stamp }
    }

    /// Looks at all eight: where a key lies can't be predicted, and a wrong guess takes longer.
    #[inline]
    fn find(self, word: u64) -> Option<Slot<'g>> {
        let mut found = SLOTS;
        for (index, slot) in self.words.0.iter().enumerate().rev() {
            found = select_unpredictable(slot.key.load(Ordering::SeqCst) == word, index, found);
        }
        if found == SLOTS { None } else { Some(table::Set::slot(self, found)) }
    }
}

/// A slot, as it was at the time of `stamp`.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'g> {
    words: &'g SlotWords,
    control: &'g AtomicU64,
    stamp: u64,
}

impl table::Slot for Slot<'_> {
    #[inline]
    fn key(self) -> u64 {
        self.words.key.load(Ordering::SeqCst)
    }

    #[inline]
    fn state(self) -> u64 {
        self.words.state.load(Ordering::SeqCst)
    }

    #[inline]
    fn swap_key(self, key: u64) {
        self.words.key.swap(key, Ordering::SeqCst);
    }

    /// Makes the slot busy first, so that it can't be moved while the control word is looked at. Comparing states alone
    /// would not do: the bucket may have moved away, and another come here that has the same state.
    #[inline]
    fn replace_state(self, current: u64, new: u64) -> bool {
        if self.words.state.compare_exchange(current, BUSY, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        let holds = self.control.load(Ordering::SeqCst) == self.stamp;
        if !holds || new != BUSY {
            self.release_state(if holds { new } else { current });
        }
        holds
    }

    #[inline]
    fn release_state(self, new: u64) {
        self.words.state.store(new, Ordering::Release);
    }
}
