//! Bans, made and listed from outside the kernel: by the daemon, or by a command where there is none.

use std::{
    cell::Cell,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use aya::maps::Map;
use ratelimit_common::{
    algorithm,
    bans::{self, Lengths},
    limit::Limit,
    packet::Address,
    table::{self, BUSY, Home, Key, Position, SLOTS, Secret, Tag},
    time::{Nanos, Now, Ticks},
};
use serde::{Deserialize, Serialize};

use super::{
    Error,
    buckets::Buckets,
    check, clock, denied, lists,
    notes::read_state,
    pins::{Pins, map_at},
    sets::{Set, Sets, Words},
    state::State,
};
use crate::policy::{Ban, InstanceName, Prefix, PrefixList};

/// An instance's bans.
#[derive(Debug)]
pub struct Bans {
    table: Sets,
    /// The first 64 bits of prefixes that have more, for each slot.
    prefixes: Words,
    lengths: Words,
    pins: Pins,
    secret: Secret,
    made_at: Nanos,
    replaced: AtomicU64,
}

/// A ban in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BanInForce {
    /// Who.
    pub prefix: Prefix,
    /// For how long still.
    pub left: Nanos,
}

/// What came of making a ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Banned {
    /// The ban in force now.
    pub ban: BanInForce,
    /// Whether it is an earlier one, which ends later than what was asked for and stays.
    pub is_longer: bool,
}

/// A ban as outputs have it, whoever lists, makes or ends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanStatus {
    /// The prefix.
    pub prefix: String,
    /// For how many seconds still, rounded up.
    pub seconds_left: u64,
    /// What passes all the same: a prefix on the allow list that it is inside, or the first one that is inside it.
    pub allowed: Option<String>,
    /// Only of bans that are made: whether it is an earlier one, which ends later than what was asked for and stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub longer: bool,
}

impl BanStatus {
    /// Of each of these, with this allow list in force.
    pub fn all(bans: impl IntoIterator<Item = BanInForce>, allow: &PrefixList) -> Vec<Self> {
        let status = |ban: BanInForce| Self {
            prefix: ban.prefix.to_string(),
            seconds_left: ban.left.0.div_ceil(Nanos::SECOND.0),
            allowed: allow.meeting(&ban.prefix).map(|allowed| allowed.to_string()),
            longer: false,
        };
        bans.into_iter().map(status).collect()
    }

    /// Of each that was made, or that stays because it is longer.
    #[must_use]
    pub fn of_made(made: &[Banned], allow: &PrefixList) -> Vec<Self> {
        let mut all = Self::all(made.iter().map(|made| made.ban), allow);
        all.iter_mut().zip(made).for_each(|(status, made)| status.longer = made.is_longer);
        all
    }

    /// What its maker must know of it.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let (allowed, prefix) = (self.allowed.as_ref()?, &self.prefix);
        Some(format!(
            "{allowed} is on the allow list, which wins over the ban of {prefix}: it passes until `allow` is without it"
        ))
    }
}

/// Why a prefix can't be banned, or not be let go.
#[derive(Debug, thiserror::Error)]
pub enum BanError {
    /// Everybody.
    #[error("{0} is everybody: a ban is for 1 bit of an address at least")]
    Everybody(Prefix),
    /// Longer than states can say.
    #[error("a ban lasts from 1 nanosecond to 365 days")]
    Length,
    /// Others are at the same slots all the time.
    #[error("the table of bans is too busy: try again")]
    Busy,
    /// The kernel.
    #[error(transparent)]
    Dataplane(#[from] Error),
}

impl Bans {
    /// Of an instance, whether or not a daemon serves it.
    ///
    /// # Errors
    /// It is not attached, or its pins can't be used.
    pub fn open(instance: &InstanceName) -> Result<Self, Error> {
        check("change bans")?;
        let pins = Pins::new(instance)?;
        let state = read_state(&pins)?.ok_or(Error::NotAttached { instance: instance.to_string() })?;
        let maps = pins.maps();
        Self::map(pins, &maps, state.secret(), state.made_at())
    }

    /// Those in the maps of a directory, of which these are the facts.
    pub(super) fn map(pins: Pins, directory: &Path, secret: Secret, made_at: Nanos) -> Result<Self, Error> {
        let map = |name: &str| map_at(directory, name).map(Map::Array);
        Ok(Self {
            table: Sets::map(&map("BANS")?, bans::SETS)?,
            prefixes: Words::map(&map("BAN_PREFIXES")?, bans::SETS as usize * SLOTS)?,
            lengths: Words::map(&map("BAN_LENGTHS")?, size_of::<Lengths>() / size_of::<u64>())?,
            secret,
            made_at,
            replaced: AtomicU64::new(0),
            pins,
        })
    }

    /// Drops everything of a prefix from now on for `length`. A longer ban that it has already stays as it is, unless
    /// `replaces`.
    ///
    /// # Errors
    /// The prefix or the length can't be, or the table is too busy.
    pub fn ban(&self, prefix: Prefix, length: Nanos, replaces: bool) -> Result<Banned, BanError> {
        self.check(prefix, length)?;
        let banned = banned(prefix)?;
        let now = self.now()?;
        let table = Placing { bans: self, high: banned.address.bits[0] };
        let end = now.plus(length.to_ticks()).0;
        let key = banned.key(&self.secret);
        let made = Cell::new(end);
        let later = |before| {
            made.set(if replaces { end } else { bans::later_end(before, end, now) });
            made.get()
        };
        if !(0..TRIES).any(|_| table::put(&table, &key, now, later)) {
            return Err(BanError::Busy);
        }
        let (word, bit) = banned.place();
        // After the ban itself: see `forget_lengths`.
        if let Some(lengths) = self.lengths.all().get(word) {
            lengths.fetch_or(bit, Ordering::SeqCst);
        }
        let is_longer = made.get() != end;
        let left = if is_longer { left(made.get(), now).unwrap_or(length) } else { length };
        Ok(Banned { ban: BanInForce { prefix, left }, is_longer })
    }

    /// Whether such a ban can be.
    ///
    /// # Errors
    /// The prefix or the length can't be.
    pub fn check(&self, prefix: Prefix, length: Nanos) -> Result<(), BanError> {
        if length == Nanos(0) || length > Ban::LONGEST {
            return Err(BanError::Length);
        }
        banned(prefix).map(drop)
    }

    /// Ends the bans of these prefixes, and returns those that had one. What rules have counted of them is forgotten first:
    /// else the next denied packet could make a ban again.
    ///
    /// # Errors
    /// A prefix can't be banned, or the table is too busy.
    pub fn unban(&self, prefixes: &[Prefix]) -> Result<Vec<BanInForce>, BanError> {
        let now = self.now()?;
        let mut ended = Vec::new();
        for prefix in prefixes {
            let key = banned(*prefix)?.key(&self.secret);
            ended.extend(self.left(&key, now).map(|left| (BanInForce { prefix: *prefix, left }, key)));
        }
        self.forget_denied(&ended.iter().map(|(ban, _)| ban.prefix).collect::<Vec<_>>(), now)?;
        let table = Placing { bans: self, high: 0 };
        for (_, key) in &ended {
            if !(0..TRIES).any(|_| table::update(&table, key, |_| algorithm::fresh(now))) {
                return Err(BanError::Busy);
            }
        }
        Ok(ended.into_iter().map(|(ban, _)| ban).collect())
    }

    /// For how long a key's ban is in force still.
    fn left(&self, key: &Key, now: Now) -> Option<Nanos> {
        let table = Placing { bans: self, high: 0 };
        // One that is being changed will be something else in a moment.
        let end = (0..TRIES).find_map(|_| match table::state(&table, key) {
            Some(BUSY) => None,
            found => Some(found),
        });
        end.flatten().and_then(|end| left(end, now))
    }

    fn forget_denied(&self, prefixes: &[Prefix], now: Now) -> Result<(), Error> {
        let state = read_state(&self.pins)?.filter(|_| !prefixes.is_empty());
        let Some(State { sets, in_force: Some(in_force), .. }) = state else { return Ok(()) };
        if !in_force.denied.is_empty() {
            let buckets = Buckets::map(&Map::Array(self.pins.map("BUCKETS")?), sets)?;
            denied::forget(&buckets, &self.secret, &in_force.denied, prefixes, now);
        }
        Ok(())
    }

    /// How many bans in force had to give way to those made here.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }

    /// The allow list in force, which wins over bans.
    ///
    /// # Errors
    /// It can't be read.
    pub fn allow_list(&self) -> Result<PrefixList, Error> {
        lists::allow_list(&self.pins)
    }

    /// All that are in force, by prefix.
    ///
    /// # Errors
    /// The clock can't be read.
    pub fn list(&self) -> Result<Vec<BanInForce>, Error> {
        let now = self.now()?;
        let mut found: Vec<BanInForce> = self.in_force(now).collect();
        found.sort_unstable();
        // A ban that is moved while it is read may be seen twice.
        found.dedup_by_key(|ban| ban.prefix);
        Ok(found)
    }

    fn in_force(&self, now: Now) -> impl Iterator<Item = BanInForce> {
        let slots = self.table.slots().iter().zip(self.prefixes.all()).enumerate();
        slots.filter_map(move |(index, ([key, state], high))| self.at(index, key, state, high, now))
    }

    fn at(
        &self,
        index: usize,
        key: &AtomicU64,
        state: &AtomicU64,
        high: &AtomicU64,
        now: Now,
    ) -> Option<BanInForce> {
        let word = key.load(Ordering::SeqCst);
        let end = state.load(Ordering::SeqCst);
        let high = high.load(Ordering::SeqCst);
        // It may have become another ban's meanwhile.
        let left = left(end, now).filter(|_| key.load(Ordering::SeqCst) == word)?;
        let key = Key::of_slot(word, (index / SLOTS) as u64)?;
        let found = bans::Prefix::of_key(&key, &self.secret, high);
        let prefix = Prefix::new(found.address.to_ip(), u8::try_from(found.length).ok()?).ok()?;
        Some(BanInForce { prefix, left })
    }

    /// Takes prefix lengths that have no ban any more out of the kernel's look-ups.
    ///
    /// # Errors
    /// The clock can't be read.
    pub fn forget_lengths(&self) -> Result<(), Error> {
        let unused = self.unused_lengths()?;
        for (word, unused) in self.lengths.all().iter().zip(unused) {
            word.fetch_and(!unused, Ordering::SeqCst);
        }
        // Whoever made a ban meanwhile has noted its length after making it: before this look at the table, which finds it
        // then, or after it.
        let now = self.now()?;
        for ban in self.in_force(now) {
            if let Ok(banned) = banned(ban.prefix)
                && let Some(word) = self.lengths.all().get(banned.place().0)
            {
                word.fetch_or(banned.place().1, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    fn unused_lengths(&self) -> Result<Lengths, Error> {
        let mut unused = [0; 3];
        for (unused, word) in unused.iter_mut().zip(self.lengths.all()) {
            *unused = word.load(Ordering::SeqCst);
        }
        let now = self.now()?;
        for ban in self.in_force(now).filter_map(|ban| banned(ban.prefix).ok()) {
            let (word, bit) = ban.place();
            unused[word] &= !bit;
        }
        Ok(unused)
    }

    fn now(&self) -> Result<Now, Error> {
        Ok(Now(Nanos(clock::monotonic()?.0.saturating_sub(self.made_at.0))))
    }
}

/// How often others may be met at a slot. Each change takes some nanoseconds.
const TRIES: u32 = 1_000;

/// How far a ban's end lies ahead, if it does.
fn left(end: u64, now: Now) -> Option<Nanos> {
    let is_in_force = end != BUSY && !algorithm::is_idle(end, now);
    is_in_force.then(|| Ticks(end.wrapping_sub(now.ticks().0)).to_nanos_up())
}

fn banned(prefix: Prefix) -> Result<bans::Prefix, BanError> {
    if prefix.len() == 0 {
        return Err(BanError::Everybody(prefix));
    }
    Ok(bans::Prefix { address: Address::from(prefix.address()), length: prefix.len().into() })
}

/// The table, as it is while a prefix is looked for or gets a slot.
struct Placing<'b> {
    bans: &'b Bans,
    high: u64,
}

impl<'b> table::Table for Placing<'b> {
    type Set = Set<'b>;

    fn home(&self, key: &Key) -> Option<Home<Set<'b>>> {
        let (first, second) = (key.first(), key.second());
        let stamp = first << 32 | second & 0xffff_ffff;
        let table = &self.bans.table;
        Some(Home { first: table.set(first)?, second: table.set(second)?, stamp })
    }

    fn limit(&self, _: Tag) -> Option<&Limit> {
        None
    }

    fn on_live_eviction(&self) {
        self.bans.replaced.fetch_add(1, Ordering::Relaxed);
    }

    fn on_place(&self, home: &Home<Set<'b>>, place: Position) {
        let rank = place.rank();
        let set = if rank < SLOTS { home.stamp >> 32 } else { home.stamp } as usize % bans::SETS as usize;
        if let Some(high) = self.bans.prefixes.all().get(set * SLOTS + rank % SLOTS) {
            high.store(self.high, Ordering::SeqCst);
        }
    }
}

/// The ban in force around an address or a prefix, if there is one: of several the one that ends last.
#[must_use]
pub fn around(bans: &[BanInForce], prefix: &Prefix) -> Option<BanInForce> {
    bans.iter().filter(|ban| ban.prefix.contains(prefix)).max_by_key(|ban| ban.left).copied()
}
