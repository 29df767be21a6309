//! Bans that rules make, in a table as large as the kernel's: in a full one the ban that ends soonest gives way.

use std::cell::Cell;

use ratelimit_common::{
    bans::{self, Lengths, Prefix},
    packet::Address,
    table::{self, Secret},
    time::{Nanos, Now},
};

use super::table::FixedTable;

/// Bans, and which lengths have any.
#[derive(Debug)]
pub struct Bans {
    table: FixedTable,
    lengths: Cell<Lengths>,
    secret: Secret,
}

/// A claim may ask to be repeated.
const TRIES: usize = 8;

impl Bans {
    /// None yet; with room for some if a rule bans.
    pub fn new(has_room: bool, secret: Secret) -> Self {
        let sets = if has_room { bans::SETS as usize } else { 1 };
        Self { table: FixedTable::new(sets, &[]), lengths: Cell::default(), secret }
    }

    /// Whether a ban of a source is in force.
    pub fn contains(&self, source: &Address, now: Now) -> bool {
        let most = if source.family == 0 { 32 } else { 128 };
        let mut prefixes = (1..=most).map(|length| Prefix::of(source, length));
        self.lengths.get() != [0; 3]
            && prefixes.any(|prefix| {
                let (word, bit) = prefix.place();
                self.lengths.get()[word] & bit != 0
                    && bans::is_banned(&&self.table, &prefix.key(&self.secret), || now)
            })
    }

    /// Bans a prefix from now on for so long, unless it is for longer.
    pub fn add(&self, prefix: &Prefix, now: Now, length: Nanos) {
        let (key, end) = (prefix.key(&self.secret), now.plus(length.to_ticks()).0);
        let put = || table::put(&&self.table, &key, now, |before| bans::later_end(before, end, now));
        if (0..TRIES).any(|_| put()) {
            let (word, bit) = prefix.place();
            let mut lengths = self.lengths.get();
            lengths[word] |= bit;
            self.lengths.set(lengths);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bans_are_bounded_and_the_one_that_ends_soonest_gives_way() {
        let bans = Bans::new(
            true,
            Secret::new([1, 2, 3, 4].map(|word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        );
        let now = Now(Nanos(5));
        let source = |number: u64| Address { bits: [number << 32, 0], family: 0 };
        let ban =
            |number, seconds| bans.add(&Prefix::of(&source(number), 32), now, Nanos::from_secs(seconds));
        let all = 2 * 8 * u64::from(bans::SETS);
        ban(0, 1_000_000);
        (1..all).for_each(|number| ban(number, number));
        assert!(bans.contains(&source(0), now), "the longest");
        let in_force = (0..all).filter(|&number| bans.contains(&source(number), now)).count() as u64;
        assert!((all / 4..=all / 2).contains(&in_force), "{in_force} of {all}");
    }
}
