//! Bucket keys: where a bucket may lie, and what its slot says about whose it is.
//!
//! A keyed permutation spreads 64-bit identities (a masked address, or a hash) evenly, so that nobody who does not know
//! the secret can fill one set. Its low 12 bits are the set number's low bits and are not stored; the other 52 are, and
//! give the set number's higher bits. So a slot and its set tell the identity, and two identities never share a bucket.

/// What a bucket belongs to besides its identity: the limit, and the address family. Zero is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(u16);

impl Tag {
    /// Tags are below this.
    pub const END: u16 = 1 << 11;

    /// `number` is taken modulo [`Tag::END`].
    #[must_use]
    #[inline(always)]
    pub const fn new(number: u16) -> Self {
        Self(number & (Self::END - 1))
    }

    /// The number.
    #[must_use]
    #[inline(always)]
    pub const fn number(self) -> u16 {
        self.0
    }
}

const SET_BITS: u32 = 12;
const REST_BITS: u32 = 64 - SET_BITS;
/// Set in the key of a bucket that lies in its second set.
pub(super) const SECOND: u64 = 1 << REST_BITS;

/// The smallest number of sets: the bits that keys do not store must be set numbers.
pub const LEAST_SETS: u64 = 1 << SET_BITS;

/// One bucket's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The permuted identity.
    number: u64,
    /// What the slot holds: tag, one bit for the second set, the number without its low bits.
    pub(super) word: u64,
}

impl Key {
    /// What its slot holds if it lies in its first set.
    #[must_use]
    #[inline(always)]
    pub const fn first_word(&self) -> u64 {
        self.word
    }

    /// What its slot holds if it lies in its second set.
    #[must_use]
    #[inline(always)]
    pub const fn second_word(&self) -> u64 {
        self.word | SECOND
    }

    /// The bits that pick its first set: the lowest ones of as many as there are sets.
    #[must_use]
    #[inline(always)]
    pub const fn first(&self) -> u64 {
        self.number
    }

    /// The bits that pick its second set, which is another one.
    #[must_use]
    #[inline(always)]
    pub const fn second(&self) -> u64 {
        self.number ^ distance(self.word)
    }

    /// The key of a bucket whose slot in set `set` holds `word`; `None` for an empty slot.
    #[must_use]
    pub const fn of_slot(word: u64, set: u64) -> Option<Self> {
        if word == super::EMPTY {
            return None;
        }
        let first = word & !SECOND;
        let low = if word & SECOND == 0 { set } else { set ^ distance(first) };
        Some(Self { number: (first << SET_BITS) | (low & (LEAST_SETS - 1)), word: first })
    }

    /// The set bits of a slot that holds `word` and belongs to this key.
    pub(super) const fn home(&self, word: u64) -> u64 {
        if word & SECOND == 0 { self.first() } else { self.second() }
    }

    /// The tag.
    #[must_use]
    #[inline(always)]
    pub const fn tag(&self) -> Tag {
        tag_of(self.word)
    }
}

/// The tag of what a slot holds.
#[inline(always)]
pub(super) const fn tag_of(word: u64) -> Tag {
    Tag((word >> (REST_BITS + 1)) as u16)
}

/// How the second set's number differs from the first one's; odd, so that they are never the same.
#[inline(always)]
const fn distance(word: u64) -> u64 {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) | 1
}

/// What all keys under one tag have in common, worked out once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Keyed {
    /// The secret and the tag, to be mixed into identities.
    mask: u64,
    /// The tag, where slots have it.
    tag: u64,
}

/// What the permutation is keyed with: drawn when a table is made, and kept with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Secret {
    mask: u64,
    multipliers: [u64; 2],
    fold: u64,
}

impl Secret {
    /// From random numbers.
    #[must_use]
    pub const fn new(random: [u64; 4]) -> Self {
        // An odd factor can be undone modulo 2^64.
        Self { mask: random[0], multipliers: [random[1] | 1, random[2] | 1], fold: random[3] | 1 }
    }

    /// The key of `identity` under `tag`; different pairs have different keys.
    #[must_use]
    #[inline(always)]
    pub const fn key(&self, tag: Tag, identity: u64) -> Key {
        self.key_under(&self.keyed(tag), identity)
    }

    /// What the keys under `tag` have in common.
    #[must_use]
    #[inline(always)]
    pub const fn keyed(&self, tag: Tag) -> Keyed {
        Keyed { mask: self.mask ^ tag_mask(tag), tag: (tag.0 as u64) << (REST_BITS + 1) }
    }

    /// The key of `identity` under the tag that `keyed` was made for.
    #[must_use]
    #[inline(always)]
    pub const fn key_under(&self, keyed: &Keyed, identity: u64) -> Key {
        let mut number = identity ^ keyed.mask;
        number = number.wrapping_mul(self.multipliers[0]);
        number ^= number >> 32;
        number = number.wrapping_mul(self.multipliers[1]);
        number ^= number >> 32;
        Key { number, word: keyed.tag | number >> SET_BITS }
    }

    /// The identity that [`Self::key`] was given.
    #[must_use]
    pub const fn identity(&self, key: &Key) -> u64 {
        let mut number = key.number ^ (key.number >> 32);
        number = number.wrapping_mul(inverse(self.multipliers[1]));
        number ^= number >> 32;
        number = number.wrapping_mul(inverse(self.multipliers[0]));
        number ^ self.mask ^ tag_mask(key.tag())
    }

    /// An identity for 128 bits: distinct for distinct `low` under the same `high`, else hashed.
    #[must_use]
    #[inline(always)]
    pub const fn fold(&self, high: u64, low: u64) -> u64 {
        let mixed = (high ^ self.mask).wrapping_mul(self.fold);
        low.wrapping_add((mixed ^ (mixed >> 32)).wrapping_mul(self.multipliers[1]))
    }

    /// The `low` that [`Self::fold`] was given with this `high`.
    #[must_use]
    pub const fn unfold(&self, high: u64, folded: u64) -> u64 {
        folded.wrapping_sub(self.fold(high, 0))
    }
}

#[inline(always)]
const fn tag_mask(tag: Tag) -> u64 {
    (tag.0 as u64).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// The number that undoes multiplication by an odd one (Newton's iteration doubles the right bits each time).
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut step = 0;
    while step < 5 {
        x = x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Secret =
        Secret::new([0x1234_5678_9abc_def0, 0xdead_beef_cafe_f00d, 0x0bad_c0de_1357_9bdf, 77]);

    #[test]
    fn a_slot_tells_whose_it_is() {
        for (tag, identity) in [(1, 0), (1, u64::MAX), (255, 0xc0a8_0001_0000_0000), (2047, 1), (3, 1 << 63)]
        {
            let key = SECRET.key(Tag::new(tag), identity);
            for sets in [1 << 12, 1 << 17, 1 << 24] {
                for word in [key.word, key.word | SECOND] {
                    let set = key.home(word) & (sets - 1);
                    let read = Key::of_slot(word, set).unwrap();
                    assert_eq!(read, key);
                    assert_eq!((read.tag().number(), SECRET.identity(&read)), (tag, identity));
                }
            }
        }
    }

    #[test]
    fn the_second_set_is_another_one() {
        for identity in 0..10_000 {
            let key = SECRET.key(Tag::new(9), identity);
            assert_ne!(key.first() & (LEAST_SETS - 1), key.second() & (LEAST_SETS - 1));
        }
    }

    #[test]
    fn consecutive_addresses_spread_evenly() {
        let mut counts = vec![0_u32; LEAST_SETS as usize];
        for address in 0..(8 * LEAST_SETS) {
            counts[(SECRET.key(Tag::new(1), address << 32).first() % LEAST_SETS) as usize] += 1;
        }
        // A Poisson variable of mean 8 is above 30 once in ten million sets.
        assert!(counts.iter().all(|&count| count < 30), "{:?}", counts.iter().max());
    }
}
