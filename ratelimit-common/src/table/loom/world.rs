//! A table, what threads do with it, and what came of it.
//!
//! It stands for [`LEAST_SETS`] sets, of which set 0 and one other have memory: all that the models' keys use. Set 0
//! can be split.

use core::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex};

use loom::{sync::atomic::fence, thread};

use super::{
    memory::{Cell, Loads, Row, Word},
    scene::{
        NOW,
        Start::{self, Free},
        cells,
    },
};
use crate::{
    algorithm,
    limit::Limit,
    table::{
        self, Attempt, BUSY, BucketRef, BucketRequest, Home, Key, LEAST_SETS, SLOTS, Set, Slot, Table, Tag,
        key::SECOND,
    },
};

pub(super) struct World {
    set_0: [Cell; SLOTS],
    /// What set 0 is split into besides itself.
    upper: [Cell; SLOTS],
    other: [Cell; SLOTS],
    /// How far the only split is.
    control: Word,
    limit: Limit,
    live_evictions: AtomicU32,
    /// The key of each request that was admitted.
    admitted: Mutex<Vec<Key>>,
    undone: Mutex<Vec<Job>>,
}

const WHOLE: u64 = 0;
const SPLITTING: u64 = 1;
const SPLIT: u64 = 2;

#[derive(Clone, Copy)]
enum Job {
    Charge(Key),
    ChargeKnown(Key),
    ChargeLater(Key),
    Exchange(Key),
    GiveBack(Key),
}

/// How often a thread tries.
const TRIES: u32 = 2;

impl World {
    pub(super) fn new(loads: Loads, limit: Limit, set_0: &[Start], other: &[Start]) -> Arc<Self> {
        let upper = vec![Free(1_000); set_0.len()];
        Arc::new(Self {
            set_0: cells(set_0, true, loads, &limit),
            upper: cells(&upper, true, loads, &limit),
            other: cells(other, false, loads, &limit),
            control: Word::new(loads, WHOLE),
            limit,
            live_evictions: AtomicU32::new(0),
            admitted: Mutex::default(),
            undone: Mutex::default(),
        })
    }

    /// One request of `key`.
    pub(super) fn charge(&self, key: Key) {
        self.begin(Job::Charge(key));
    }

    /// One request of `key`, which takes the fast path if its bucket is there.
    pub(super) fn charge_known(&self, key: Key) {
        self.begin(Job::ChargeKnown(key));
    }

    /// The same, found again by its place.
    pub(super) fn charge_later(&self, key: Key) {
        self.begin(Job::ChargeLater(key));
    }

    /// The same by one that reads the state, decides, and then exchanges it.
    pub(super) fn exchange(&self, key: Key) {
        self.begin(Job::Exchange(key));
    }

    /// Gives back a unit of `key`.
    pub(super) fn give_back(&self, key: Key) {
        self.begin(Job::GiveBack(key));
    }

    /// Whether somebody who looks at the bucket of `key` finds room in it, unless disturbed.
    pub(super) fn has_room(&self, key: Key) -> bool {
        matches!(table::peek(&self, &self.request(key)), Attempt::Done { allowed: true, .. })
    }

    /// Splits set 0.
    pub(super) fn split(&self) {
        let row = |cells| Row { cells, splits: true };
        self.control.store(SPLITTING);
        fence(SeqCst);
        table::split(row(&self.set_0), row(&self.upper), 0, LEAST_SETS, thread::yield_now);
        self.control.store(SPLIT);
    }

    /// Tries a few times and leaves it undone if somebody is always in the way: loom also tries that two threads wait
    /// for each other to go on and never run the third, which both wait for.
    fn begin(&self, job: Job) {
        for _ in 0..TRIES {
            if self.attempt(job) {
                return;
            }
            thread::yield_now();
        }
        self.undone.lock().unwrap().push(job);
    }

    /// Does what was left undone. For after all threads.
    pub(super) fn finish(&self) {
        for job in self.undone.lock().unwrap().drain(..) {
            assert!((0..3).any(|_| self.attempt(job)), "nobody is in the way, but it can't be done");
        }
    }

    fn attempt(&self, job: Job) -> bool {
        match job {
            Job::GiveBack(key) => table::undo(&self, &self.request(key), NOW),
            Job::ChargeKnown(key) if self.charge_in_place(key, false) => true,
            Job::ChargeLater(key) if self.charge_in_place(key, true) => true,
            Job::Exchange(key) => {
                let Some((before, seen)) = table::look(&self, &key, NOW) else { return false };
                let (allowed, after) = table::decide(&self.limit, before, NOW, 1);
                let is_exchanged = || match seen {
                    Some(seen) => seen.exchange(before, after),
                    None => table::exchange(&self, &key, NOW, before, after) == Some(true),
                };
                if allowed && !is_exchanged() {
                    return false;
                }
                self.admitted.lock().unwrap().extend(allowed.then_some(key));
                true
            }
            Job::Charge(key) | Job::ChargeKnown(key) | Job::ChargeLater(key) => {
                match table::charge(&self, &self.request(key)) {
                    Attempt::Again => false,
                    Attempt::Done { allowed, .. } => {
                        self.admitted.lock().unwrap().extend(allowed.then_some(key));
                        true
                    }
                }
            }
        }
    }

    /// Charges a bucket that is there and that nobody else is at.
    fn charge_in_place(&self, key: Key, is_later: bool) -> bool {
        let Some(home) = (&self).home(&key) else { return false };
        let Some(known) = BucketRef::find(home.first, || Some(home.second), &key) else { return false };
        let Some(before) = known.state() else { return false };
        let (allowed, after) = algorithm::decide_by_arrival(&self.limit, before, NOW, 1);
        let is_done = match is_later {
            _ if after == before => true,
            false => known.replace(before, after),
            true => known.address().replace(self.row(known.address().bits(), false), before, after),
        };
        self.admitted.lock().unwrap().extend((is_done && allowed).then_some(key));
        is_done
    }

    fn request(&self, key: Key) -> BucketRequest<'_> {
        BucketRequest { key, limit: &self.limit, now: NOW, cost: 1 }
    }

    /// How many requests of `key` were admitted.
    pub(super) fn admitted(&self, key: Key) -> u32 {
        self.admitted.lock().unwrap().iter().filter(|&&admitted| admitted == key).count() as u32
    }

    /// How many units are taken from the bucket of `key`, or `None` if it has none. For after all threads.
    ///
    /// # Panics
    /// If it has two, or lies where nobody looks for it, or a slot was left busy.
    pub(super) fn taken(&self, key: Key) -> Option<u32> {
        let mut states = Vec::new();
        for cells in [&self.set_0, &self.upper, &self.other] {
            let row = Row { cells, splits: false };
            for slot in (0..SLOTS).map(|index| row.slot(index)) {
                assert_ne!(slot.state(), BUSY);
                if slot.key() & !SECOND == key.word {
                    states.push(slot.state());
                }
            }
        }
        assert!(states.len() <= 1, "two buckets of one key");
        let found = table::find(&(&self).home(&key).unwrap(), key.word).map(|(slot, _)| slot.state());
        assert_eq!(found, states.pop(), "a bucket that its key does not lead to");
        let decision = algorithm::decide(&self.limit, found?, NOW, 0).0;
        Some((decision.limit() - decision.remaining()) as u32)
    }

    /// How many buckets in use had to give way.
    pub(super) fn live_evictions(&self) -> u32 {
        self.live_evictions.load(Relaxed)
    }

    fn row(&self, bits: u64, is_split: bool) -> Row<'_> {
        let cells = match (bits % LEAST_SETS, is_split && bits & LEAST_SETS != 0) {
            (0, false) => &self.set_0,
            (0, true) => &self.upper,
            _ => &self.other,
        };
        Row { cells, splits: false }
    }
}

impl<'m> Table for &'m World {
    type Set = Row<'m>;

    /// Where a real table waits for the end of a split, this one has the caller try again.
    fn home(&self, key: &Key) -> Option<Home<Row<'m>>> {
        let stamp = self.control.load();
        let row = |bits| self.row(bits, stamp == SPLIT);
        (stamp != SPLITTING).then(|| Home { first: row(key.first()), second: row(key.second()), stamp })
    }

    fn holds(&self, stamp: u64) -> bool {
        fence(SeqCst);
        self.control.load() == stamp
    }

    fn limit(&self, _tag: Tag) -> Option<&Limit> {
        Some(&self.limit)
    }

    fn on_live_eviction(&self) {
        self.live_evictions.fetch_add(1, Relaxed);
    }
}
