//! Bans, made and listed from outside the kernel: by the daemon, or by a command where there is none.

mod maker;
mod notes;
mod placing;
mod reading;
mod status;

use std::{
    cell::Cell,
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use aya::maps::Map;
use ratelimit_common::{
    algorithm,
    bans::{self, BanLength, BanRecord, BanRequest, BanSchedule, Lengths},
    packet::Address,
    table::{self, SLOTS, Secret},
    time::{Nanos, Now},
};

pub(crate) use self::maker::number_of;
pub use self::{
    maker::{BanReason, BanReasonError, Maker},
    reading::around,
    status::BanStatus,
};
use self::{notes::BanNotes, placing::Placing, reading::BanEntry};
use super::{
    Error,
    buckets::BucketTable,
    check, clock, denied,
    notes::read_state,
    pins::{Pins, map_at},
    sets::{Sets, Words},
    state::InstanceState,
};
use crate::policy::{InstanceName, PacketBan, Prefix};

/// An instance's bans.
#[derive(Debug)]
pub struct Bans {
    table: Sets,
    /// The first 64 bits of prefixes that have more, for each slot.
    prefixes: Words,
    lengths: Words,
    /// `None` in the maps of a version that knew none; likewise the texts.
    records: Option<Words>,
    texts: Option<BanNotes>,
    pins: Pins,
    secret: Secret,
    made_at: Nanos,
    replaced: AtomicU64,
}

/// A ban in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanInForce {
    /// Who.
    pub prefix: Prefix,
    /// For how long still.
    pub left: BanLength,
    /// Who has made it.
    pub maker: Maker,
    /// Why.
    pub reason: Option<BanReason>,
    /// When it was made, since the Unix epoch; `None` if nobody knows.
    pub made: Option<Nanos>,
    /// Until when, since the Unix epoch; `None` if it has no end.
    pub until: Option<Nanos>,
}

/// A ban to make.
#[derive(Clone, Debug)]
pub struct NewBan {
    /// For how long.
    pub terms: BanSchedule,
    /// By whom.
    pub maker: Maker,
    /// Why.
    pub reason: Option<BanReason>,
    /// Whether a longer one is shortened.
    pub replaces: bool,
}

impl NewBan {
    /// What somebody asks for.
    #[must_use]
    pub const fn asked(length: BanLength) -> Self {
        Self { terms: BanSchedule::constant(length), maker: Maker::Command, reason: None, replaces: false }
    }
}

/// What came of making a ban.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Banned {
    /// The ban in force now.
    pub ban: BanInForce,
    /// Whether it is an earlier one, which ends later than what was asked for and stays.
    pub is_longer: bool,
}

/// Why a prefix can't be banned, or not be let go.
#[derive(Debug, thiserror::Error)]
pub enum BanError {
    /// Everybody.
    #[error("{0} is everybody: a ban needs a prefix of at least 1 bit")]
    Everybody(Prefix),
    /// Longer than states can say.
    #[error("a ban lasts from 1 nanosecond to 365 days, or `forever`")]
    Length,
    /// Others are at the same slots all the time.
    #[error("the table of bans is too busy: try again")]
    Busy,
    /// The kernel.
    #[error(transparent)]
    Dataplane(#[from] Error),
}

impl Bans {
    /// Opens the bans of an instance, whether or not a daemon serves it.
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
        let has = |name: &str| fs::exists(directory.join(name)).unwrap_or(false);
        Ok(Self {
            table: Sets::map(&map("BANS")?, bans::SETS)?,
            prefixes: Words::map(&map("BAN_PREFIXES")?, bans::SETS as usize * SLOTS)?,
            lengths: Words::map(&map("BAN_LENGTHS")?, size_of::<Lengths>() / size_of::<u64>())?,
            records: if has(RECORDS) {
                let count = bans::SETS as usize * SLOTS * BanRecord::WORDS;
                Some(Words::map(&map(RECORDS)?, count)?)
            } else {
                None
            },
            texts: if has(TEXTS) { Some(BanNotes::new(map_at(directory, TEXTS)?)?) } else { None },
            secret,
            made_at,
            replaced: AtomicU64::new(0),
            pins,
        })
    }

    /// Drops everything of a prefix from now on. A ban that it has already and that ends later stays as it is, unless
    /// the new one replaces it.
    ///
    /// # Errors
    /// The prefix or the length can't be, or the table is too busy.
    pub fn ban(&self, prefix: Prefix, new: &NewBan) -> Result<Banned, BanError> {
        self.check(prefix, new.terms.shortest())?;
        let banned = banned(prefix)?;
        let now = self.now()?;
        let maker = new.maker.number(new.reason.is_some());
        let first = BanRecord::first(&new.terms, maker, now);
        let noted = Cell::new(None);
        let table = Placing { bans: self, high: banned.address.bits[0], first, noted: &noted };
        let key = banned.key(&self.secret);
        let order = BanRequest { terms: &new.terms, maker, now, replaces: new.replaces };
        if !(0..TRIES).any(|_| bans::make(&table, &key, &order, &first)) {
            return Err(BanError::Busy);
        }
        if let Some((slot, record)) = noted.get()
            && Maker::has_text(maker)
            && let Some(texts) = &self.texts
        {
            texts.set(slot, record.state, new.maker.rule().unwrap_or_default(), new.reason.as_ref())?;
        }
        let (word, bit) = banned.place();
        // After the ban itself: see `forget_lengths`.
        if let Some(lengths) = self.lengths.all().get(word) {
            lengths.fetch_or(bit, Ordering::SeqCst);
        }
        let is_longer = noted.get().is_none();
        let ban = match self.find(prefix, &key, now)? {
            Some(ban) => ban,
            // It has ended already.
            None => self.described(
                BanEntry { prefix, left: BanLength::For(Nanos(0)), slot: 0, record: first },
                now,
            )?,
        };
        Ok(Banned { ban, is_longer })
    }

    /// Whether such a ban can be.
    ///
    /// # Errors
    /// The prefix or the length can't be.
    pub fn check(&self, prefix: Prefix, length: BanLength) -> Result<(), BanError> {
        if let BanLength::For(length) = length
            && (length == Nanos(0) || length > PacketBan::LONGEST)
        {
            return Err(BanError::Length);
        }
        banned(prefix).map(drop)
    }

    /// Ends the bans of these prefixes, and returns those that had one. What rules have counted of them is forgotten
    /// first: else the next denied packet could make a ban again.
    ///
    /// # Errors
    /// A prefix can't be banned, or the table is too busy.
    pub fn unban(&self, prefixes: &[Prefix]) -> Result<Vec<BanInForce>, BanError> {
        let now = self.now()?;
        let mut ended = Vec::new();
        for prefix in prefixes {
            let key = banned(*prefix)?.key(&self.secret);
            ended.extend(self.find(*prefix, &key, now)?.map(|ban| (ban, key)));
        }
        self.forget_denied(&ended.iter().map(|(ban, _)| ban.prefix).collect::<Vec<_>>(), now)?;
        let noted = Cell::new(None);
        let table = Placing::looking(self, &noted);
        for (_, key) in &ended {
            if !(0..TRIES).any(|_| table::update(&table, key, |_| algorithm::fresh(now))) {
                return Err(BanError::Busy);
            }
        }
        Ok(ended.into_iter().map(|(ban, _)| ban).collect())
    }

    fn forget_denied(&self, prefixes: &[Prefix], now: Now) -> Result<(), Error> {
        let state = read_state(&self.pins)?.filter(|_| !prefixes.is_empty());
        let Some(InstanceState { sets, in_force: Some(in_force), .. }) = state else { return Ok(()) };
        if !in_force.denied.is_empty() {
            let buckets = BucketTable::map(&Map::Array(self.pins.map("BUCKETS")?), sets)?;
            denied::forget(&buckets, &self.secret, &in_force.denied, prefixes, now);
        }
        Ok(())
    }

    /// How many bans in force had to give way to those made here.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
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
        // Whoever made a ban meanwhile has noted its length after making it: before this look at the table, which finds
        // it then, or after it.
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

/// The maps that versions before had not.
const RECORDS: &str = "BAN_RECORDS";
const TEXTS: &str = "BAN_TEXTS";

fn banned(prefix: Prefix) -> Result<bans::BanPrefix, BanError> {
    if prefix.len() == 0 {
        return Err(BanError::Everybody(prefix));
    }
    Ok(bans::BanPrefix { address: Address::from(prefix.address()), length: prefix.len().into() })
}
