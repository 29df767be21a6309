//! The table of bans: what a key is, and how a ban is made.

use super::{BanRecord, BanSchedule};
use crate::{
    algorithm,
    packet::Address,
    table::{self, Home, Key, Position, Secret, Table, Tag},
    time::Now,
};

/// Sets of the table: 131,072 bans.
pub const SETS: u32 = 1 << 14;

/// Room for what is said of one ban: see [`REASON_BYTES`].
pub const TEXT_BYTES: usize = 8 + 128 + REASON_BYTES;

/// Bytes of the reason for a ban at most.
pub const REASON_BYTES: usize = 64;

/// Which prefix lengths may have bans: of IPv4, of IPv6 up to 64, and of longer ones; the bit of a length is one below
/// it.
pub type Lengths = [u64; 3];

/// A banned prefix: 1 to 32 or 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanPrefix {
    /// The address; the bits behind the prefix are zero.
    pub address: Address,
    /// How many bits.
    pub length: u64,
}

impl BanPrefix {
    /// The prefix of `length` bits that an address is in.
    #[must_use]
    #[inline(always)]
    pub const fn of(address: &Address, length: u64) -> Self {
        let [high, low] = address.bits;
        // Shifted twice: by 64 at once would be by none.
        let bits = if length <= 64 {
            [high & (u64::MAX << (64_u64.wrapping_sub(length) & 63)), 0]
        } else {
            [high, low & (u64::MAX << (128_u64.wrapping_sub(length) & 63))]
        };
        Self { address: Address { bits, family: address.family }, length }
    }

    /// The prefix of `length` bits around a source that a rule bans. For a link-local source that is its
    /// address alone, since all neighbours share the rest, routers included.
    #[must_use]
    #[inline(always)]
    pub const fn of_banned(source: &Address, length: u64) -> Self {
        let is_link_local = source.family != 0 && source.bits[0] >> 54 == 0xfe80 >> 6;
        Self::of(source, if is_link_local { 128 } else { length })
    }

    /// Its key. Prefixes beyond 64 bits are hashed.
    #[must_use]
    #[inline(always)]
    pub const fn key(&self, secret: &Secret) -> Key {
        let [high, low] = self.address.bits;
        let identity = if self.length <= 64 { high } else { secret.fold(high, low) };
        secret.key(Tag::new((self.length << 1 | self.address.family) as u16), identity)
    }

    /// The prefix of a key. `high` are the first 64 bits, kept beside the slot, of one that has more.
    #[must_use]
    pub const fn of_key(key: &Key, secret: &Secret, high: u64) -> Self {
        let number = key.tag().number() as u64;
        let (length, family) = (number >> 1, number & 1);
        let identity = secret.identity(key);
        let bits = if length <= 64 { [identity, 0] } else { [high, secret.unfold(high, identity)] };
        Self { address: Address { bits, family }, length }
    }

    /// Its word in [`Lengths`], and its bit there.
    #[must_use]
    #[inline(always)]
    pub const fn place(&self) -> (usize, u64) {
        let word = if self.address.family == 0 { 0 } else { 1 + (self.length > 64) as usize };
        (word, 1 << ((self.length - 1) & 63))
    }
}

/// Whether the ban with this key is in force.
#[inline(always)]
pub fn is_banned<T: Table>(table: &T, key: &Key, now: impl Fn() -> Now) -> bool {
    match table::state(table, key) {
        Some(state) => !algorithm::is_idle(state, now()),
        None => false,
    }
}

/// A table of bans while one is made.
pub trait BanTable: Table {
    /// The record beside a slot.
    fn record(&self, home: &Home<Self::Set>, place: Position) -> BanRecord;
    /// Replaces it. The slot is busy.
    fn note(&self, home: &Home<Self::Set>, place: Position, record: &BanRecord);
}

/// Whom a ban is made by, and how.
#[derive(Clone, Copy, Debug)]
pub struct BanRequest<'t> {
    /// For how long.
    pub terms: &'t BanSchedule,
    /// By whom.
    pub maker: u64,
    /// When.
    pub now: Now,
    /// Whether a ban that ends later is replaced.
    pub replaces: bool,
}

/// Tries to make a ban. `first` is the record of a prefix that has no slot, which [`Table::on_place`] notes.
#[inline(always)]
pub fn make<T: BanTable>(table: &T, key: &Key, order: &BanRequest<'_>, first: &BanRecord) -> bool {
    let change = |home: &Home<T::Set>, place, state| {
        let last = table.record(home, place);
        let Some(next) = last.next(order.terms, order.maker, state, order.now, order.replaces) else {
            return state;
        };
        table.note(home, place, &next);
        next.state
    };
    table::put(table, key, order.now, first.state, change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_neighbours_only_the_one_is_banned() {
        let neighbour = Address { bits: [0xfe80 << 48, 7], family: 1 };
        assert_eq!(BanPrefix::of_banned(&neighbour, 64), BanPrefix { address: neighbour, length: 128 });
        let v4 = Address { bits: [0xfe80 << 48, 0], family: 0 };
        assert_eq!(BanPrefix::of_banned(&v4, 24).length, 24);
        assert_eq!(BanPrefix::of_banned(&Address { bits: [0xfec0 << 48, 7], family: 1 }, 64).length, 64);
    }

    #[test]
    fn a_key_tells_its_prefix() {
        let secret = Secret::new([0x1234_5678_9abc_def0, 0xdead_beef_cafe_f00d, 0x0bad_c0de_1357_9bdf, 77]);
        let bits = [0x2001_0db8_1234_5678, 0x9abc_def0_1234_5679];
        for (family, most) in [(0, 32), (1, 128)] {
            for length in 1..=most {
                let prefix = BanPrefix::of(&Address { bits, family }, length);
                let read = BanPrefix::of_key(&prefix.key(&secret), &secret, prefix.address.bits[0]);
                assert_eq!(read, prefix);
                let again = BanPrefix::of(&prefix.address, length);
                assert_eq!(again, prefix, "nothing is left behind the prefix");
                let (word, bit) = prefix.place();
                let base = if word == 2 { 64 } else { 0 };
                assert_eq!(u64::from(bit.trailing_zeros()) + base + 1, length);
            }
        }
    }
}
