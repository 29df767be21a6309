//! Bans: source prefixes of which everything is dropped until a deadline.
//!
//! A table like that of the buckets, whose keys are prefixes and whose states are deadlines: a ban that has ended is an
//! idle slot, so bans expire by themselves, and in a full table the one that ends soonest gives way. A word for each half of
//! the lengths says which ones may have a ban; only these are looked up.

use crate::{
    algorithm,
    packet::Address,
    table::{self, Key, Secret, Table, Tag},
    time::Now,
};

/// Sets of the table: 131,072 bans.
pub const SETS: u32 = 1 << 14;

/// Which prefix lengths may have bans: of IPv4, of IPv6 up to 64, and of longer ones; the bit of a length is one below it.
pub type Lengths = [u64; 3];

/// A banned prefix: 1 to 32 or 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address; the bits behind the prefix are zero.
    pub address: Address,
    /// How many bits.
    pub length: u64,
}

impl Prefix {
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

    /// The prefix of `length` bits around a source that a rule bans. Of a link-local one it is the address alone: all
    /// neighbours share the rest, routers included.
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

/// When a ban ends whose prefix is banned again until `end`, of the state that it has: the longer ban stays.
#[must_use]
#[inline(always)]
pub const fn later_end(before: u64, end: u64, now: Now) -> u64 {
    let now_ticks = now.ticks().0;
    let is_later = before.wrapping_sub(now_ticks) > end.wrapping_sub(now_ticks);
    if is_later && !algorithm::is_idle(before, now) { before } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Nanos;

    #[test]
    fn a_longer_ban_is_not_shortened() {
        let (minutes, week) = (Nanos::from_secs(600).to_ticks(), Nanos::from_secs(604_800).to_ticks());
        // The last one is so late that ticks have wrapped.
        for age in [0, 1, 3_600, 86_400 * 1_800] {
            let now = Now(Nanos::from_secs(age));
            let [short, long] = [minutes, week].map(|length| now.plus(length).0);
            assert_eq!(later_end(long, short, now), long);
            assert_eq!(later_end(short, long, now), long);
            // None, one that has just ended, and one that ended long ago.
            for ended in [algorithm::fresh(now), now.ticks().0.saturating_sub(1), now.ticks().0 / 2] {
                assert_eq!(later_end(ended, short, now), short, "{ended}");
            }
        }
    }

    #[test]
    fn of_neighbours_only_the_one_is_banned() {
        let neighbour = Address { bits: [0xfe80 << 48, 7], family: 1 };
        assert_eq!(Prefix::of_banned(&neighbour, 64), Prefix { address: neighbour, length: 128 });
        let v4 = Address { bits: [0xfe80 << 48, 0], family: 0 };
        assert_eq!(Prefix::of_banned(&v4, 24).length, 24);
        assert_eq!(Prefix::of_banned(&Address { bits: [0xfec0 << 48, 7], family: 1 }, 64).length, 64);
    }

    #[test]
    fn a_key_tells_its_prefix() {
        let secret = Secret::new([0x1234_5678_9abc_def0, 0xdead_beef_cafe_f00d, 0x0bad_c0de_1357_9bdf, 77]);
        let bits = [0x2001_0db8_1234_5678, 0x9abc_def0_1234_5679];
        for (family, most) in [(0, 32), (1, 128)] {
            for length in 1..=most {
                let prefix = Prefix::of(&Address { bits, family }, length);
                let read = Prefix::of_key(&prefix.key(&secret), &secret, prefix.address.bits[0]);
                assert_eq!(read, prefix);
                let again = Prefix::of(&prefix.address, length);
                assert_eq!(again, prefix, "nothing is left behind the prefix");
                let (word, bit) = prefix.place();
                let base = if word == 2 { 64 } else { 0 };
                assert_eq!(u64::from(bit.trailing_zeros()) + base + 1, length);
            }
        }
    }
}
