//! The store of one process: the bucket table, which takes no lock, and maps under locks for what is not a word.
//!
//! Keys are hashed to 64 bits with a secret that is drawn when the store is made. Two keys share a bucket if their
//! hashes are equal: among a million keys at once, in one store of 37 million. The hash (foldhash) is not a
//! cryptographic one: it keeps those from filling one set who can't see the secret, not those who could.
//!
//! What is word-sized in state is never in two places and never lost while there is room. Memory is reserved for the
//! most keys and used as keys come; it is not given back.

pub(crate) mod backoff;
mod control;
mod grid;
mod reserve;
mod saved;
mod slots;
mod turns;
mod wide;

use std::{
    cell::Cell,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{Mutex, PoisonError},
};

use foldhash::{SharedSeed, fast::FoldHasher};
use ratelimit_common::{
    algorithm::{
        self,
        realign::{realign, settle as settle_window},
    },
    limit::StateKind,
    table::{self, Attempt, BucketRequest, SLOTS, Secret, SeenBucket},
    time::Now,
};

pub use self::saved::{NoState, Restored, Saved, most_bytes};
use self::{
    backoff::Backoff,
    grid::{Grid, View},
    slots::MemorySlot,
    turns::{Turn, Turns},
    wide::Wide,
};
use super::{
    Account, Answer, Buckets, Charge, Enrolment, KeyHash, Limits, State, Store, Zero,
    tags::{Owner, Tags},
};

/// How many keys a store has room for unless told otherwise.
pub const DEFAULT_MAX_KEYS: u64 = 1_000_000;

/// A store could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory for {max_keys} keys")]
pub struct NoMemory {
    /// How many it was to have room for.
    pub max_keys: u64,
}

/// Buckets in this process's memory.
#[derive(Debug)]
pub struct MemoryStore {
    secrets: Secrets,
    turns: Turns,
    grid: Grid,
    wide: Wide,
    tags: Mutex<Tags>,
}

/// Where a bucket lay in a [`MemoryStore`]; nowhere if it is fresh, or beside the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemorySpot<'s>(Option<SeenBucket<MemorySlot<'s>>>);

/// A [`MemoryStore`] while others wait.
#[derive(Debug)]
pub struct MemoryTurn<'s> {
    store: &'s MemoryStore,
    _turn: Turn<'s>,
}

impl MemoryStore {
    /// A store with room for at least `max_keys` buckets in use. If there are far more, those nearest to fresh give
    /// way.
    ///
    /// # Errors
    /// There is no memory for so many.
    pub fn new(max_keys: u64) -> Result<Self, NoMemory> {
        let error = NoMemory { max_keys };
        let grid = most_sets(max_keys).and_then(Grid::new).ok_or(error)?;
        let wide = Wide::new(usize::try_from(max_keys).map_err(|_| error)?);
        Ok(Self { secrets: Secrets::draw(), turns: Turns::default(), grid, wide, tags: Mutex::default() })
    }

    /// How many buckets in use have given way to others because there was no room.
    #[must_use]
    pub fn live_evictions(&self) -> u64 {
        self.grid.live_evictions() + self.wide.live_evictions()
    }

    /// How many buckets are in use at a time of the store. It looks at all of them.
    #[must_use]
    pub fn in_use(&self, now: Now) -> u64 {
        self.grid.in_use(now) + self.wide.in_use(now)
    }

    /// About how many bytes it takes: the table, and what is beside it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.table_bytes() + self.wide.bytes()
    }

    /// The size that the table has grown to, in bytes; its memory never gets smaller.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.grid.sets() * size_of::<reserve::ReservedSet>() as u64
    }

    /// Charges any bucket, and makes it if there is none. Away from the rest, and with its arguments by value, so that
    /// they need no memory before.
    #[cold]
    #[inline(never)]
    fn charge_any(&self, limits: &Limits, charge: Charge<'_>) -> (bool, u64) {
        let (view, request) = (View { grid: &self.grid, limits }, self.request(&charge));
        settle(|| table::charge(&view, &request))
    }

    /// Whether the bucket is beside the table. A sliding counter that was too wide for a word stays there until it is
    /// idle, though its limit may have shrunk meanwhile.
    #[inline]
    fn is_wide(&self, charge: &Charge<'_>) -> bool {
        match charge.limit.kind() {
            StateKind::Log | StateKind::WideSlidingCounter => true,
            StateKind::SlidingCounter => self.wide.has_counter(charge),
            StateKind::ArrivalTime | StateKind::Interval | StateKind::Window => false,
        }
    }

    /// Takes the state of a bucket out of the table, for a limit that has grown beyond words. A fresh one stays.
    fn take_word(&self, limits: &Limits, charge: &Charge<'_>) -> u64 {
        let (view, key) = (View { grid: &self.grid, limits }, self.request(charge).key);
        let fresh = algorithm::fresh(charge.now);
        let taken = Cell::new(fresh);
        let mut backoff = Backoff::default();
        while !table::update(&view, &key, |state| {
            taken.set(state);
            fresh
        }) {
            taken.set(fresh);
            backoff.wait();
        }
        taken.get()
    }

    #[inline]
    fn read_now<'s>(&'s self, limits: &Limits, charge: &Charge<'_>) -> (State, MemorySpot<'s>) {
        if self.is_wide(charge) {
            let record = self.wide.read(charge, || self.take_word(limits, charge));
            return (State::wide(record), MemorySpot::default());
        }
        let (view, key) = (View { grid: &self.grid, limits }, self.request(charge).key);
        let mut backoff = Backoff::default();
        loop {
            if let Some((state, seen)) = table::look(&view, &key, charge.now) {
                return (State::Word(state), MemorySpot(seen));
            }
            backoff.wait();
        }
    }

    #[inline]
    fn exchange_now(
        &self,
        limits: &Limits,
        charge: &Charge<'_>,
        MemorySpot(seen): MemorySpot<'_>,
        before: State,
        after: State,
    ) -> bool {
        match (before, after) {
            (State::Word(before), State::Word(after)) => {
                seen.is_some_and(|seen| seen.exchange(before, after))
                    || self.exchange_word(limits, *charge, before, after)
            }
            (State::Wide(before), State::Wide(after)) => self.wide.exchange(charge, *before, *after),
            _ => false,
        }
    }

    /// Exchanges a state that may lie anywhere. With its arguments by value, as [`Self::charge_any`].
    #[cold]
    #[inline(never)]
    fn exchange_word(&self, limits: &Limits, charge: Charge<'_>, before: u64, after: u64) -> bool {
        let (view, key) = (View { grid: &self.grid, limits }, self.request(&charge).key);
        let mut backoff = Backoff::default();
        loop {
            if let Some(is_done) = table::exchange(&view, &key, charge.now, before, after) {
                return is_done;
            }
            backoff.wait();
        }
    }

    #[inline(always)]
    fn request<'l>(&self, charge: &Charge<'l>) -> BucketRequest<'l> {
        let Charge { limit, now, cost, .. } = *charge;
        let bucket = charge.bucket();
        BucketRequest { key: self.secrets.table.key(bucket.tag, bucket.identity), limit, now, cost }
    }
}

impl Buckets for MemoryStore {
    type Spot<'s> = MemorySpot<'s>;

    #[inline]
    fn read(&self, limits: &Limits, charge: &Charge<'_>) -> (State, MemorySpot<'_>) {
        self.turns.wait();
        self.read_now(limits, charge)
    }

    #[inline]
    fn exchange(
        &self,
        limits: &Limits,
        charge: &Charge<'_>,
        spot: MemorySpot<'_>,
        before: State,
        after: State,
    ) -> bool {
        self.turns.wait();
        self.exchange_now(limits, charge, spot, before, after)
    }
}

impl Buckets for MemoryTurn<'_> {
    type Spot<'s>
        = MemorySpot<'s>
    where
        Self: 's;

    fn read(&self, limits: &Limits, charge: &Charge<'_>) -> (State, MemorySpot<'_>) {
        self.store.read_now(limits, charge)
    }

    fn exchange(
        &self,
        limits: &Limits,
        charge: &Charge<'_>,
        spot: MemorySpot<'_>,
        before: State,
        after: State,
    ) -> bool {
        self.store.exchange_now(limits, charge, spot, before, after)
    }
}

impl Store for MemoryStore {
    type Turn<'s> = MemoryTurn<'s>;

    #[inline]
    fn hash<K: Hash + ?Sized>(&self, key: &K) -> KeyHash {
        KeyHash(self.secrets.hash(key))
    }

    fn enroll(&self, rules: &[Enrolment<'_>]) -> (Vec<Account>, Limits) {
        let owner = |rule: &Enrolment<'_>| Owner::new(self.secrets.hash(rule.name), rule.limit);
        let owners: Vec<Owner> = rules.iter().map(owner).collect();
        let tags = self.tags.lock().unwrap_or_else(PoisonError::into_inner).assign(&owners);
        let limits = Limits::new(tags.iter().copied().zip(rules.iter().map(|rule| rule.limit)));
        let account = |(&tag, owner)| Account { tag, seed: self.secrets.hash(owner) };
        (tags.iter().zip(&owners).map(account).collect(), limits)
    }

    #[inline(always)]
    fn charge<'l>(&self, limits: &Limits, charge: &Charge<'l>) -> Answer<'l> {
        self.turns.wait();
        if self.is_wide(charge) {
            return Answer::known(self.wide.charge(*charge, || self.take_word(limits, charge)));
        }
        let (view, request) = (View { grid: &self.grid, limits }, self.request(charge));
        let (allowed, before) = match table::charge_known(&view, &request) {
            Some(Attempt::Done { allowed, before, .. }) => (allowed, before),
            Some(Attempt::Again) | None => self.charge_any(limits, *charge),
        };
        Answer::word(charge.limit, charge.now, charge.cost, (allowed, before))
    }

    fn turn(&self) -> MemoryTurn<'_> {
        MemoryTurn { store: self, _turn: self.turns.take() }
    }

    fn realign(&self, limits: &Limits, from: Zero, to: Zero, now: Now) {
        let Some(step) = from.step_to(to) else { return };
        self.grid.update_each(limits, |limit, state| {
            realign(&from.align(*limit), &to.align(*limit), step, state, now)
        });
        self.wide.realign(step, |window| to.phase(window), now);
    }

    fn settle(&self, limits: &Limits, now: Now) {
        self.grid.update_all(limits, |limit, state| settle_window(limit, state, now));
    }

    fn clamp(&self, limits: &Limits, now: Now) {
        // What a log or a counter holds above its limit reads as nothing remaining, until it leaves the window.
        self.grid.update_all(limits, |limit, state| algorithm::clamp(limit, state, now));
    }
}

/// Sets of a table with room for so many keys.
fn most_sets(max_keys: u64) -> Option<u64> {
    // At two thirds, two sets of eight are practically never full at once.
    let slots = max_keys.checked_mul(3)?.div_ceil(2).checked_next_power_of_two()?;
    Some(slots / SLOTS as u64)
}

/// Makes attempts until one is not disturbed: whether the request is allowed, and the state that decided.
#[inline]
fn settle(mut attempt: impl FnMut() -> Attempt) -> (bool, u64) {
    let mut backoff = Backoff::default();
    loop {
        if let Attempt::Done { allowed, before, .. } = attempt() {
            return (allowed, before);
        }
        backoff.wait();
    }
}

/// What keys are hashed with.
#[derive(Clone, Debug)]
struct Secrets {
    table: Secret,
    shared: SharedSeed,
    seed: u64,
    /// What all of them are made of.
    random: [u64; 6],
}

impl Secrets {
    /// From the system's random numbers.
    fn draw() -> Self {
        let random = RandomState::new();
        Self::of(std::array::from_fn(|index| random.hash_one(index)))
    }

    fn of(random: [u64; 6]) -> Self {
        let [table @ .., shared, seed] = random;
        Self { table: Secret::new(table), shared: SharedSeed::from_u64(shared), seed, random }
    }

    #[inline]
    fn hash<K: Hash + ?Sized>(&self, key: &K) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        key.hash(&mut hasher);
        hasher.finish()
    }
}
