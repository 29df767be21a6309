//! Bans that rules make, in a table as large as the kernel's: in a full one the ban that ends soonest gives way.

use std::cell::Cell;

use ratelimit_common::{
    bans::{self, BanPrefix, BanRecord, BanRequest, BanSchedule, BanTable, Lengths},
    limit::Limit,
    packet::Address,
    table::{self, Home, Key, Position, SLOTS, Secret, Tag},
    time::Now,
};

use super::table::{FixedSet, FixedTable};

/// Bans, and which lengths have any.
#[derive(Debug)]
pub struct SimulatedBans {
    table: FixedTable,
    records: Vec<Cell<BanRecord>>,
    lengths: Cell<Lengths>,
    secret: Secret,
}

/// A claim may ask to be repeated.
const TRIES: usize = 8;

impl SimulatedBans {
    /// None yet; with room for some if a rule bans.
    pub fn new(has_room: bool, secret: Secret) -> Self {
        let sets = if has_room { bans::SETS as usize } else { 1 };
        let records = vec![Cell::default(); sets * SLOTS];
        Self { table: FixedTable::new(sets, &[]), records, lengths: Cell::default(), secret }
    }

    /// Whether a ban of a source is in force.
    pub fn contains(&self, source: &Address, now: Now) -> bool {
        let most = if source.family == 0 { 32 } else { 128 };
        let mut prefixes = (1..=most).map(|length| BanPrefix::of(source, length));
        self.lengths.get() != [0; 3]
            && prefixes.any(|prefix| {
                let (word, bit) = prefix.place();
                self.lengths.get()[word] & bit != 0
                    && bans::is_banned(&&self.table, &prefix.key(&self.secret), || now)
            })
    }

    /// Bans a prefix from now on, unless it is banned for longer.
    pub fn add(&self, prefix: &BanPrefix, now: Now, terms: &BanSchedule) {
        let key = prefix.key(&self.secret);
        let placing = SimulatedPlacing { bans: self, first: BanRecord::first(terms, 0, now) };
        let order = BanRequest { terms, maker: 0, now, replaces: false };
        if (0..TRIES).any(|_| bans::make(&placing, &key, &order, &placing.first)) {
            let (word, bit) = prefix.place();
            let mut lengths = self.lengths.get();
            lengths[word] |= bit;
            self.lengths.set(lengths);
        }
    }
}

/// The table while a ban is made.
struct SimulatedPlacing<'b> {
    bans: &'b SimulatedBans,
    /// The record of a prefix that has no slot.
    first: BanRecord,
}

impl SimulatedPlacing<'_> {
    fn record_of(&self, home: &Home<FixedSet<'_>>, place: Position) -> &Cell<BanRecord> {
        let rank = place.rank();
        let set = if rank < SLOTS { home.stamp >> 32 } else { home.stamp & u64::from(u32::MAX) };
        &self.bans.records[(set as usize * SLOTS + rank % SLOTS) % self.bans.records.len()]
    }
}

impl<'b> table::Table for SimulatedPlacing<'b> {
    type Set = FixedSet<'b>;

    fn home(&self, key: &Key) -> Option<Home<FixedSet<'b>>> {
        let (first, second) = (key.first(), key.second());
        let stamp = first << 32 | second & u64::from(u32::MAX);
        Some(Home { first: self.bans.table.set(first), second: self.bans.table.set(second), stamp })
    }

    fn limit(&self, _: Tag) -> Option<&Limit> {
        None
    }

    fn on_live_eviction(&self) {}

    fn on_place(&self, home: &Home<FixedSet<'b>>, place: Position) {
        self.note(home, place, &self.first);
    }
}

impl BanTable for SimulatedPlacing<'_> {
    fn record(&self, home: &Home<Self::Set>, place: Position) -> BanRecord {
        self.record_of(home, place).get()
    }

    fn note(&self, home: &Home<Self::Set>, place: Position, record: &BanRecord) {
        self.record_of(home, place).set(*record);
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::{bans::BanLength, time::Nanos};

    use super::*;

    /// Whoever has been banned before makes no room scarce: all memory of ended bans gives way to bans in force, which
    /// none of it displaces.
    #[test]
    fn what_is_remembered_displaces_no_ban() {
        let bans = SimulatedBans::new(
            true,
            Secret::new([5, 6, 7, 8].map(|word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        );
        let terms = BanSchedule::lengthening(Nanos::from_secs(60), 4, Nanos::YEAR, Nanos::YEAR);
        let of = |number: u64| BanPrefix::of(&Address { bits: [number << 32, 0], family: 0 }, 32);
        let room = SLOTS as u64 * u64::from(bans::SETS);
        let (before, now) = (Now(Nanos(5)), Now(Nanos::from_secs(3_600)));
        (0..2 * room).for_each(|number| bans.add(&of(number), before, &terms));
        let asked = 2 * room..2 * room + room / 2;
        asked.clone().for_each(|number| bans.add(&of(number), now, &terms));
        let lost = asked.clone().filter(|&number| !bans.contains(&of(number).address, now)).count();
        assert!(lost < 10, "{lost} of {}", room / 2);
        // Then bans are still longer for whom something is remembered.
        let known = asked.start + 1;
        let later = Now(Nanos::from_secs(3_700));
        bans.add(&of(known), later, &terms);
        assert!(bans.contains(&of(known).address, Now(Nanos::from_secs(3_700 + 239))));
        assert!(!bans.contains(&of(known).address, Now(Nanos::from_secs(3_700 + 241))));
    }

    #[test]
    fn bans_are_bounded_and_the_one_that_ends_soonest_gives_way() {
        let bans = SimulatedBans::new(
            true,
            Secret::new([1, 2, 3, 4].map(|word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        );
        let now = Now(Nanos(5));
        let source = |number: u64| Address { bits: [number << 32, 0], family: 0 };
        let ban = |number, seconds| {
            let terms = BanSchedule::constant(BanLength::For(Nanos::from_secs(seconds)));
            bans.add(&BanPrefix::of(&source(number), 32), now, &terms);
        };
        let all = 2 * 8 * u64::from(bans::SETS);
        ban(0, 1_000_000);
        (1..all).for_each(|number| ban(number, number));
        assert!(bans.contains(&source(0), now), "the longest");
        let in_force = (0..all).filter(|&number| bans.contains(&source(number), now)).count() as u64;
        assert!((all / 4..=all / 2).contains(&in_force), "{in_force} of {all}");
    }
}
