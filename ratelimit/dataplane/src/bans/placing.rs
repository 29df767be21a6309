//! The table of bans while a prefix is looked for or gets a slot, and the records beside its slots.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

use ratelimit_common::{
    bans::{self, BanRecord, BanTable},
    limit::Limit,
    table::{self, Home, Key, Position, SLOTS, Tag},
};

use super::Bans;
use crate::sets::MappedSet;

/// With what is written beside a slot that a prefix gets.
pub(super) struct Placing<'b> {
    pub bans: &'b Bans,
    pub high: u64,
    pub first: BanRecord,
    /// The slot that got a ban, and its record.
    pub noted: &'b Cell<Option<(usize, BanRecord)>>,
}

impl<'b> Placing<'b> {
    /// To look at what is there.
    pub(super) const fn looking(bans: &'b Bans, noted: &'b Cell<Option<(usize, BanRecord)>>) -> Self {
        Self { bans, high: 0, first: BanRecord { state: 0, made: 0, maker: 0, multiple: 0 }, noted }
    }
}

/// The number of a slot in the table.
pub(super) fn slot_of(home: &Home<MappedSet<'_>>, place: Position) -> usize {
    let rank = place.rank();
    let set = if rank < SLOTS { home.stamp >> 32 } else { home.stamp } as usize % bans::SETS as usize;
    set * SLOTS + rank % SLOTS
}

impl<'b> table::Table for Placing<'b> {
    type Set = MappedSet<'b>;

    fn home(&self, key: &Key) -> Option<Home<MappedSet<'b>>> {
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

    fn on_place(&self, home: &Home<MappedSet<'b>>, place: Position) {
        if let Some(high) = self.bans.prefixes.all().get(slot_of(home, place)) {
            high.store(self.high, Ordering::SeqCst);
        }
        self.note(home, place, &self.first);
    }
}

impl BanTable for Placing<'_> {
    fn record(&self, home: &Home<Self::Set>, place: Position) -> BanRecord {
        self.bans.record(slot_of(home, place))
    }

    fn note(&self, home: &Home<Self::Set>, place: Position, record: &BanRecord) {
        let slot = slot_of(home, place);
        self.noted.set(Some((slot, *record)));
        let words = self.bans.record_words(slot);
        for (word, value) in words.iter().zip([record.state, record.made, record.maker, record.multiple]) {
            word.store(value, Ordering::SeqCst);
        }
    }
}

impl Bans {
    /// What is known of the ban in a slot; nothing if a version without records made the maps.
    pub(super) fn record(&self, slot: usize) -> BanRecord {
        let words = self.record_words(slot);
        let word = |index: usize| words.get(index).map_or(0, |word| word.load(Ordering::SeqCst));
        BanRecord { state: word(0), made: word(1), maker: word(2), multiple: word(3) }
    }

    fn record_words(&self, slot: usize) -> &[AtomicU64] {
        let words = self.records.as_ref().map_or(&[][..], |records| records.all());
        words.chunks_exact(BanRecord::WORDS).nth(slot).unwrap_or_default()
    }
}
