//! Which bans are in force, and what is known of them.

use std::{cell::Cell, sync::atomic::Ordering};

use aya::maps::Map;
use ratelimit_common::{
    bans::{self, BanLength, BanRecord},
    table::{self, BUSY, Key, SLOTS, Table as _},
    time::{Nanos, Now},
};

use super::{
    BanInForce, Bans, Maker, TRIES, maker,
    placing::{Placing, slot_of},
};
use crate::{
    Error, clock, counters,
    notes::read_state,
    policy::{Prefix, PrefixList},
};

/// A ban as it lies in the table.
pub(super) struct BanEntry {
    pub prefix: Prefix,
    pub left: BanLength,
    pub slot: usize,
    pub record: BanRecord,
}

impl Bans {
    /// The ban of a prefix with this key, if one is in force.
    pub(super) fn find(&self, prefix: Prefix, key: &Key, now: Now) -> Result<Option<BanInForce>, Error> {
        let noted = Cell::new(None);
        let table = Placing::looking(self, &noted);
        let Some(home) = table.home(key) else { return Ok(None) };
        // One that is being changed will be something else in a moment.
        let found = (0..TRIES).find_map(|_| {
            let Some(place) = table::place_in(&home, key) else { return Some(None) };
            let slot = slot_of(&home, place);
            match self.slot(slot) {
                Some((_, BUSY, ..)) | None => None,
                Some((_, state, _, record)) => {
                    let is_here = table::place_in(&home, key) == Some(place);
                    is_here.then(|| {
                        let left = BanLength::left(state, now)?;
                        Some(BanEntry { prefix, left, slot, record })
                    })
                }
            }
        });
        found.flatten().map(|found| self.described(found, now)).transpose()
    }

    /// All that are in force, by prefix.
    ///
    /// # Errors
    /// The clock can't be read, or the notes of which rule is which.
    pub fn list(&self) -> Result<Vec<BanInForce>, Error> {
        let now = self.now()?;
        let found = self.sorted(now);
        self.describe(found, now)
    }

    /// The prefixes of all that are in force.
    ///
    /// # Errors
    /// The clock can't be read.
    pub fn prefixes(&self) -> Result<PrefixList, Error> {
        let now = self.now()?;
        Ok(PrefixList::new(self.in_force(now).map(|found| found.prefix).collect()))
    }

    /// How many are in force.
    ///
    /// # Errors
    /// The clock can't be read.
    pub fn count(&self) -> Result<usize, Error> {
        Ok(self.sorted(self.now()?).len())
    }

    /// How many rules have made in the kernel so far.
    ///
    /// # Errors
    /// The counter can't be read.
    pub fn made_by_rules(&self) -> Result<u64, Error> {
        Ok(counters::table(&Map::PerCpuArray(self.pins.map("TABLE_COUNTERS")?))?.bans_made)
    }

    /// Those in force that rules on packets have made after a time, on the table's clock, by when they did; and the
    /// time of the last one.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn made_by_rules_after(&self, time: Nanos) -> Result<(Vec<BanInForce>, Nanos), Error> {
        let now = self.now()?;
        let mut found = self.sorted(now);
        found.retain(|found| found.record.maker >= maker::RULE && found.record.made > time.0);
        found.sort_by_key(|found| found.record.made);
        let last = found.last().map_or(time, |found| Nanos(found.record.made));
        Ok((self.describe(found, now)?, last))
    }

    /// The time on the table's clock.
    ///
    /// # Errors
    /// The clock can't be read.
    pub fn time(&self) -> Result<Nanos, Error> {
        Ok(self.now()?.0)
    }

    fn sorted(&self, now: Now) -> Vec<BanEntry> {
        let mut found: Vec<BanEntry> = self.in_force(now).collect();
        found.sort_unstable_by_key(|found| found.prefix);
        // A ban that is moved while it is read may be seen twice.
        found.dedup_by_key(|found| found.prefix);
        found
    }

    pub(super) fn in_force(&self, now: Now) -> impl Iterator<Item = BanEntry> {
        (0..self.table.slots().len()).filter_map(move |slot| self.at(slot, now))
    }

    fn at(&self, slot: usize, now: Now) -> Option<BanEntry> {
        let (word, state, high, record) = self.slot(slot).filter(|(_, state, ..)| *state != BUSY)?;
        let left = BanLength::left(state, now)?;
        let key = Key::of_slot(word, (slot / SLOTS) as u64)?;
        let found = bans::BanPrefix::of_key(&key, &self.secret, high);
        let prefix = Prefix::new(found.address.to_ip(), u8::try_from(found.length).ok()?).ok()?;
        Some(BanEntry { prefix, left, slot, record })
    }

    /// A slot's key and state, what is beside it, and its record if that is about this state. `None` if it is being
    /// changed.
    fn slot(&self, slot: usize) -> Option<(u64, u64, u64, BanRecord)> {
        let [key, state] = self.table.slots().get(slot)?;
        let before = (key.load(Ordering::SeqCst), state.load(Ordering::SeqCst));
        // Most slots are empty.
        if before.1 == 0 {
            return Some((before.0, 0, 0, BanRecord::default()));
        }
        let high = self.prefixes.all().get(slot)?.load(Ordering::SeqCst);
        let record = self.record(slot);
        let is_same = before == (key.load(Ordering::SeqCst), state.load(Ordering::SeqCst));
        let record = if record.state == before.1 { record } else { BanRecord::default() };
        is_same.then_some((before.0, before.1, high, record))
    }

    pub(super) fn described(&self, found: BanEntry, now: Now) -> Result<BanInForce, Error> {
        let names = if found.record.maker >= maker::RULE { self.names()? } else { Vec::new() };
        Ok(self.describe_by(found, &names, clock::unix()?, now))
    }

    fn describe(&self, found: Vec<BanEntry>, now: Now) -> Result<Vec<BanInForce>, Error> {
        let has_rules = found.iter().any(|found| found.record.maker >= maker::RULE);
        let names = if has_rules { self.names()? } else { Vec::new() };
        let wall = clock::unix()?;
        Ok(found.into_iter().map(|found| self.describe_by(found, &names, wall, now)).collect())
    }

    fn describe_by(&self, found: BanEntry, names: &[String], wall: Nanos, now: Now) -> BanInForce {
        let BanEntry { prefix, left, slot, record } = found;
        let text = self.texts.as_ref().filter(|_| Maker::has_text(record.maker));
        let text = text.and_then(|texts| texts.get(slot, &record));
        let age = now.0.0.saturating_sub(record.made);
        BanInForce {
            prefix,
            left,
            maker: Maker::of(record.maker, names, text.as_ref()),
            reason: text.and_then(|text| text.reason),
            made: (record.state != 0).then(|| Nanos(wall.0.saturating_sub(age))),
            until: match left {
                BanLength::For(left) => Some(Nanos(wall.0.saturating_add(left.0))),
                BanLength::Forever => None,
            },
        }
    }

    /// The names of rules that ban, or have.
    fn names(&self) -> Result<Vec<String>, Error> {
        Ok(read_state(&self.pins)?.map_or_else(Vec::new, |state| state.ban_rules))
    }
}

/// The ban in force around an address or a prefix, if there is one: of several the one that ends last.
#[must_use]
pub fn around(bans: &[BanInForce], prefix: &Prefix) -> Option<BanInForce> {
    bans.iter().filter(|ban| ban.prefix.contains(prefix)).max_by_key(|ban| ban.left).cloned()
}
