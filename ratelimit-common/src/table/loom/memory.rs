//! A table in loom's atomics with the orderings that [`Slot`] promises and no stronger ones, so that a model fails if the
//! protocol needs more.
//!
//! It stands for [`LEAST_SETS`] sets, of which set 0 and one other have memory: all that the models' keys use. Set 0 can
//! be split. To keep models small, a slot is either shared memory or a [`Cell::Foreign`] bucket without any.

use core::{
    num::NonZeroU64,
    sync::atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    },
};
use std::sync::{Arc, Mutex};

use loom::{
    sync::atomic::{AtomicU64, fence},
    thread,
};

use crate::{
    algorithm,
    limit::{Algorithm, Limit, LimitSpec, Place, Rate},
    table::{self, Attempt, BUSY, EMPTY, Home, Key, LEAST_SETS, Request, SLOTS, Set, Slot, Table, Tag, key::SECOND},
    time::{Nanos, Now},
};

/// The time in all models.
const NOW: Now = Now(Nanos(1_000 * Nanos::SECOND.0));

/// The tag of all keys that models use.
const TAG: u64 = 1 << (64 - 11);

/// A key whose first set is set 0. If it is odd, its bucket there moves when that is split.
pub(super) fn first_in_set_0(number: u64) -> Key {
    Key::of_slot(TAG | number, 0).unwrap()
}

/// A key whose second set is set 0.
pub(super) fn second_in_set_0(number: u64) -> Key {
    Key::of_slot(TAG | number | SECOND, 0).unwrap()
}

/// `units` in a second, and as many at once.
pub(super) fn bucket(units: u64) -> Limit {
    limit(Algorithm::TokenBucket, units, Nanos::SECOND)
}

/// `units` in a window that has begun and does not end: buckets with equal counts have equal states.
pub(super) fn window(units: u64) -> Limit {
    limit(Algorithm::FixedWindow, units, Nanos::from_secs(86_400))
}

fn limit(algorithm: Algorithm, units: u64, per: Nanos) -> Limit {
    let rate = Rate { amount: NonZeroU64::new(units).unwrap(), per };
    LimitSpec::new(algorithm, rate).build(Place::UserSpace).unwrap()
}

/// What a slot holds when a model begins.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// Nothing, for so many seconds.
    Free(u64),
    /// The bucket of a key, which has been full again for so many seconds.
    Idle(Key, u64),
    /// The bucket of a key, with so many units taken.
    Live(Key, u32),
}

impl Start {
    fn cell(self, limit: &Limit, set: u64) -> Cell {
        let ago = |seconds| Now(Nanos(NOW.0.0 - Nanos::from_secs(seconds).0)).ticks().0;
        let (word, state) = match self {
            Self::Free(seconds) => (EMPTY, ago(seconds)),
            Self::Idle(key, seconds) => (word_in(&key, set), ago(seconds)),
            Self::Live(key, units) => (word_in(&key, set), algorithm::decide(limit, ago(0), NOW, units).1),
        };
        Cell::Shared { key: AtomicU64::new(word), state: AtomicU64::new(state) }
    }
}

/// What a slot in `set` holds if it is a bucket of `key`.
fn word_in(key: &Key, set: u64) -> u64 {
    if key.first() % LEAST_SETS == set { key.word } else { key.word | SECOND }
}

/// A slot.
pub(super) enum Cell {
    Shared {
        key: AtomicU64,
        state: AtomicU64,
    },
    /// A full bucket of somebody else who charges it again just before anybody can take it.
    Foreign,
}

/// The key and the state of a foreign bucket: full, so that it is the last to be chosen.
const FOREIGN: (u64, u64) = ((2 << (64 - 11)) | 7, (NOW.0.0 + 100 * Nanos::SECOND.0) << 7);

impl Slot for &Cell {
    fn key(self) -> u64 {
        match self {
            Cell::Shared { key, .. } => key.load(Acquire),
            Cell::Foreign => FOREIGN.0,
        }
    }

    fn state(self) -> u64 {
        match self {
            Cell::Shared { state, .. } => state.load(Acquire),
            Cell::Foreign => FOREIGN.1,
        }
    }

    fn swap_key(self, new: u64) {
        let Cell::Shared { key, .. } = self else { unreachable!("nobody takes a foreign bucket") };
        key.swap(new, AcqRel);
        fence(SeqCst);
    }

    fn replace_state(self, current: u64, new: u64) -> bool {
        let Cell::Shared { state, .. } = self else { return false };
        let replaced = state.compare_exchange(current, new, AcqRel, Acquire).is_ok();
        fence(SeqCst);
        replaced
    }

    fn release_state(self, new: u64) {
        let Cell::Shared { state, .. } = self else { unreachable!("nobody takes a foreign bucket") };
        state.store(new, Release);
    }
}

#[derive(Clone, Copy)]
pub(super) struct Row<'m>(&'m [Cell; SLOTS]);

impl<'m> Set for Row<'m> {
    type Slot = &'m Cell;

    fn slot(self, index: usize) -> &'m Cell {
        &self.0[index]
    }
}

/// The control word: how far the only split is.
const WHOLE: u64 = 0;
const SPLITTING: u64 = 1;
const SPLIT: u64 = 2;

pub(super) struct Memory {
    set0: [Cell; SLOTS],
    /// What set 0 is split into besides itself.
    upper: [Cell; SLOTS],
    other: [Cell; SLOTS],
    control: AtomicU64,
    limit: Limit,
    live_evictions: AtomicU32,
    /// The key of each request that was admitted.
    admitted: Mutex<Vec<Key>>,
    begun: Mutex<Vec<Job>>,
}

#[derive(Clone, Copy)]
enum Job {
    Charge(Key),
    Undo(Key),
}

/// How often a thread tries.
const TRIES: u32 = 2;

impl Memory {
    /// A table whose keys have `limit`. What is not given of the slots of the two sets is foreign.
    pub(super) fn new(limit: Limit, set0: &[Start], other: &[Start]) -> Arc<Self> {
        let cells = |starts: &[Start], set| {
            core::array::from_fn(|index| starts.get(index).map_or(Cell::Foreign, |start| start.cell(&limit, set)))
        };
        Arc::new(Self {
            set0: cells(set0, 0),
            upper: cells(&vec![Start::Free(1_000); set0.len()], 0),
            other: cells(other, 1),
            control: AtomicU64::new(WHOLE),
            limit,
            live_evictions: AtomicU32::new(0),
            admitted: Mutex::default(),
            begun: Mutex::default(),
        })
    }

    /// One request of `key`.
    pub(super) fn charge(&self, key: Key) {
        self.begin(Job::Charge(key));
    }

    /// Gives back one unit of `key`.
    pub(super) fn undo(&self, key: Key) {
        self.begin(Job::Undo(key));
    }

    /// Tries a few times, and leaves the rest for later: a checker also runs threads that wait for each other while the one
    /// they wait for stands still, for ever.
    fn begin(&self, job: Job) {
        for _ in 0..TRIES {
            if self.attempt(job) {
                return;
            }
            thread::yield_now();
        }
        self.begun.lock().unwrap().push(job);
    }

    /// Does what is left, after all threads.
    pub(super) fn finish(&self) {
        for job in self.begun.lock().unwrap().drain(..) {
            assert!((0..3).any(|_| self.attempt(job)), "undisturbed, and not done");
        }
    }

    fn attempt(&self, job: Job) -> bool {
        match job {
            Job::Undo(key) => table::undo(&self, &self.request(key), NOW),
            Job::Charge(key) => match table::charge(&self, &self.request(key)) {
                Attempt::Again => false,
                Attempt::Done { allowed, .. } => {
                    if allowed {
                        self.admitted.lock().unwrap().push(key);
                    }
                    true
                }
            },
        }
    }

    fn request(&self, key: Key) -> Request<'_> {
        Request { key, limit: &self.limit, now: NOW, cost: 1 }
    }

    /// Splits set 0.
    pub(super) fn split(&self) {
        self.control.store(SPLITTING, SeqCst);
        fence(SeqCst);
        table::split(Row(&self.set0), Row(&self.upper), 0, LEAST_SETS, thread::yield_now);
        self.control.store(SPLIT, Release);
    }

    /// How many requests of `key` were admitted.
    pub(super) fn admitted(&self, key: Key) -> u32 {
        self.admitted.lock().unwrap().iter().filter(|&&admitted| admitted == key).count() as u32
    }

    pub(super) fn live_evictions(&self) -> u32 {
        self.live_evictions.load(Relaxed)
    }

    /// How many units are taken from the bucket of `key`, or `None` if it has none. For after all threads.
    ///
    /// # Panics
    /// If it has two, or lies where nobody looks for it, or a slot was left busy.
    pub(super) fn taken(&self, key: Key) -> Option<u32> {
        let mut found = Vec::new();
        for cell in self.set0.iter().chain(&self.upper).chain(&self.other) {
            assert_ne!(cell.state(), BUSY);
            if cell.key() & !SECOND == key.word {
                found.push(cell.state());
            }
        }
        assert!(found.len() <= 1, "two buckets of one key");
        let leads_to = table::find(&(&self).home(&key).unwrap(), key.word).map(|(cell, _)| cell.state());
        assert_eq!(leads_to, found.pop(), "a bucket that its key does not lead to");
        let decision = algorithm::decide(&self.limit, leads_to?, NOW, 0).0;
        Some((decision.limit() - decision.remaining()) as u32)
    }

    fn row(&self, bits: u64, grown: bool) -> Row<'_> {
        Row(match (bits % LEAST_SETS, grown && bits & LEAST_SETS != 0) {
            (0, false) => &self.set0,
            (0, true) => &self.upper,
            _ => &self.other,
        })
    }
}

impl<'m> Table for &'m Memory {
    type Set = Row<'m>;

    fn home(&self, key: &Key) -> Option<Home<Row<'m>>> {
        let stamp = loop {
            match self.control.load(Acquire) {
                SPLITTING => thread::yield_now(),
                stamp => break stamp,
            }
        };
        let grown = stamp == SPLIT;
        Some(Home { first: self.row(key.first(), grown), second: self.row(key.second(), grown), stamp })
    }

    fn holds(&self, stamp: u64) -> bool {
        fence(SeqCst);
        self.control.load(Acquire) == stamp
    }

    fn limit(&self, tag: Tag) -> Option<&Limit> {
        (tag.number() == 1).then_some(&self.limit)
    }

    fn on_live_eviction(&self) {
        self.live_evictions.fetch_add(1, Relaxed);
    }
}
