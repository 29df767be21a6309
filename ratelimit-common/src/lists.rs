//! Whether an address is on the allow or the deny list: a look-up whose cost does not grow with the lists.
//!
//! Both lists are one trie in an array of words. A node skips the bits that all its prefixes share and takes about as
//! many of the next ones as it needs to tell them apart, so that a look-up takes two or three steps, however many
//! prefixes there are; its worst case is 64. What was skipped is compared at the end, with the prefix that the way led
//! to: first with its last bits, which are beside its index, so that most addresses that are on no list need no look at
//! the prefix. Before all that one bit says whether any prefix can contain an address, so that of most that are on no
//! list nothing else is read. Building it is for user space.

use crate::packet::Address;

/// What lists say about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Listed {
    /// Nothing.
    No = 0,
    /// It is on the allow list.
    Allowed = 1,
    /// It is on the deny list, and not on the allow list.
    Denied = 2,
}

impl Listed {
    /// From its number.
    #[must_use]
    #[inline(always)]
    pub const fn of(number: u64) -> Self {
        match number {
            1 => Self::Allowed,
            2 => Self::Denied,
            _ => Self::No,
        }
    }
}

/// The array that holds the trie.
pub trait TrieWords {
    /// The word at `index`; 0 outside.
    fn word(&self, index: u64) -> u64;
}

/// Where the look-up of a family's addresses begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TrieRoot {
    /// The first step; 0 if there is no prefix.
    pub step: u64,
    /// The [`Filter`] before it; 0 if there is none.
    pub filter: u64,
}

impl TrieRoot {
    /// Whether an address may be in a prefix.
    #[must_use]
    #[inline(always)]
    pub fn may_contain<W: TrieWords + ?Sized>(&self, words: &W, bits: [u64; 2]) -> bool {
        self.step != 0 && (self.filter == 0 || Filter(self.filter).may_contain(words, bits))
    }
}

/// A bit for each number that so many bits of an address make: whether a prefix has addresses with these. As one word,
/// like that of a node of the trie: where the bits begin (32 bits), the shifts, the half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter(pub u64);

impl Filter {
    /// A filter by `count` bits from `start` on, which lie in one half; the words begin at `index`.
    #[must_use]
    pub const fn new(index: u32, start: u32, count: u32) -> Self {
        Self(TrieEntry::node(index, start, count).0)
    }

    #[inline(always)]
    fn may_contain<W: TrieWords + ?Sized>(self, words: &W, bits: [u64; 2]) -> bool {
        let place = TrieEntry(self.0).place(bits);
        words.word(TrieEntry(self.0).index() + (place >> 6)) >> (place & 63) & 1 != 0
    }
}

/// The most steps that a look-up takes. Each but one decides at least two of 128 bits.
pub const MOST_STEPS: u32 = 64;

/// A step of the trie, as one word: nothing, a node, or a prefix to compare with.
///
/// A node: where its entries begin (32 bits), by how much the address is shifted left to lose what is behind the node
/// (6 bits), by how much then right so that only the node's own bits are left (6 bits), and whether these are of the
/// address's second half (1 bit).
///
/// A prefix: where it is kept (28 bits), its last bits, as many as there is room for (24 bits), its length less one (7
/// bits), and whether an address that it does not contain may be in another one, behind it (1 bit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrieEntry(pub u64);

impl TrieEntry {
    /// No prefix.
    pub const NOTHING: Self = Self(0);
    const PREFIX: u64 = 1 << 63;
    const NODE: u64 = 1 << 62;
    const LEFT: u32 = 32;
    const RIGHT: u32 = 40;
    const HALF: u32 = 48;

    /// A node whose entries begin at `index` and that looks at `count` bits from `start` on, which lie in one half.
    #[must_use]
    pub const fn node(index: u32, start: u32, count: u32) -> Self {
        let right = 64_u32.saturating_sub(count);
        let place = (start as u64 % 64) << Self::LEFT | (right as u64 & 63) << Self::RIGHT;
        Self(Self::NODE | place | ((start >= 64) as u64) << Self::HALF | index as u64)
    }

    /// A prefix of 1 to 128 bits, kept at `index`, which is below [`Self::END`]. `more`: as in [`prefix`].
    #[must_use]
    pub const fn prefix(index: u32, bits: [u64; 2], length: u8, more: bool) -> Self {
        let length = length as u64;
        let place =
            last_bits(bits, length) << Self::LAST_BITS | (length.wrapping_sub(1) & 0x7f) << Self::LENGTH;
        Self(Self::PREFIX | place | (more as u64) << Self::HAS_MORE | index as u64 & (Self::END - 1))
    }

    /// The indices of prefixes are below this.
    pub const END: u64 = 1 << Self::LAST_BITS;
    const LAST_BITS: u32 = 28;
    const LENGTH: u32 = 52;
    const HAS_MORE: u32 = 61;

    /// Whether the prefix that it leads to, or the one behind it, may contain an address.
    #[inline(always)]
    const fn may_contain(self, bits: [u64; 2]) -> bool {
        let length = (self.0 >> Self::LENGTH & 0x7f) + 1;
        let same = last_bits(bits, length) == self.0 >> Self::LAST_BITS & LAST_MASK;
        same || self.0 >> Self::HAS_MORE & 1 != 0
    }

    /// What it leads to.
    #[must_use]
    pub const fn leads_to(self) -> TrieTarget {
        if self.0 & Self::NODE != 0 {
            return TrieTarget::Node { first: self.index(), count: 1 << (64 - (self.0 >> Self::RIGHT & 63)) };
        }
        if self.0 & Self::PREFIX != 0 { TrieTarget::Prefix(self.prefix_index()) } else { TrieTarget::Nowhere }
    }

    #[inline(always)]
    const fn prefix_index(self) -> u64 {
        self.0 & (Self::END - 1)
    }

    #[inline(always)]
    const fn index(self) -> u64 {
        self.0 & 0xffff_ffff
    }

    /// Where the entry of an address is.
    #[inline(always)]
    const fn entry(self, bits: [u64; 2]) -> u64 {
        self.index() + self.place(bits)
    }

    /// The number that an address's bits make which it looks at.
    #[inline(always)]
    const fn place(self, bits: [u64; 2]) -> u64 {
        let half = if self.0 >> Self::HALF & 1 == 0 { bits[0] } else { bits[1] };
        half << (self.0 >> Self::LEFT & 63) >> (self.0 >> Self::RIGHT & 63)
    }
}

/// What a step leads to, for those who read all of a trie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrieTarget {
    /// Nothing.
    Nowhere,
    /// So many steps from an index on.
    Node {
        /// The first one.
        first: u64,
        /// How many.
        count: u64,
    },
    /// A prefix at an index.
    Prefix(u64),
}

const LAST_MASK: u64 = 0xff_ffff;

/// The last bits of the first `length` ones, in the half that these end in.
#[inline(always)]
const fn last_bits(bits: [u64; 2], length: u64) -> u64 {
    let half = if length <= 64 { bits[0] } else { bits[1] };
    half >> (128_u64.wrapping_sub(length) & 63) & LAST_MASK
}

/// Words of a prefix: both halves of its address, and its length with what it says.
pub const PREFIX_WORDS: usize = 3;
const LISTED: u32 = 8;
const MORE: u32 = 16;

/// The words of a prefix of 1 to 128 bits. `more`: behind it is one that contains it, for addresses that it does not.
#[must_use]
pub const fn prefix(bits: [u64; 2], length: u8, listed: Listed, more: bool) -> [u64; PREFIX_WORDS] {
    [bits[0], bits[1], length as u64 | (listed as u64) << LISTED | (more as u64) << MORE]
}

/// The address, the length and what is said of the prefix of those words.
#[must_use]
pub const fn of_prefix(prefix: [u64; PREFIX_WORDS]) -> ([u64; 2], u8, Listed) {
    ([prefix[0], prefix[1]], prefix[2] as u8, Listed::of(prefix[2] >> LISTED & 0xff))
}

/// Whether behind those words are those of a prefix that contains this one, for addresses that it does not.
#[must_use]
#[inline(always)]
pub const fn has_more(prefix: [u64; PREFIX_WORDS]) -> bool {
    prefix[2] >> MORE & 1 != 0
}

/// Whether an address is in the prefix of those words.
#[inline(always)]
const fn contains(prefix: [u64; PREFIX_WORDS], bits: [u64; 2]) -> bool {
    let length = prefix[2] & 0xff;
    let first = bits[0] ^ prefix[0];
    let second = bits[1] ^ prefix[1];
    if length <= 64 {
        first >> (64_u64.wrapping_sub(length) & 63) == 0
    } else {
        first | second >> (128_u64.wrapping_sub(length) & 63) == 0
    }
}

/// Looks an address up. `root` is that of its family.
#[inline(always)]
pub fn find<W: TrieWords + ?Sized>(words: &W, root: TrieRoot, address: &Address) -> Listed {
    if root.may_contain(words, address.bits) { follow(words, root.step, address.bits) } else { Listed::No }
}

/// What the prefixes say about an address that may be in one of them, from a step on.
#[inline(always)]
pub fn follow<W: TrieWords + ?Sized>(words: &W, step: u64, bits: [u64; 2]) -> Listed {
    let mut step = TrieEntry(step);
    for _ in 0..MOST_STEPS {
        if step.0 & TrieEntry::NODE == 0 {
            break;
        }
        step = TrieEntry(words.word(step.entry(bits)));
    }
    if step.0 & TrieEntry::PREFIX == 0 || !step.may_contain(bits) {
        return Listed::No;
    }
    let index = step.prefix_index();
    let prefix = read(words, index);
    if contains(prefix, bits) {
        return Listed::of(prefix[2] >> LISTED & 0xff);
    }
    if has_more(prefix) {
        let outer = read(words, index + PREFIX_WORDS as u64);
        if contains(outer, bits) {
            return Listed::of(outer[2] >> LISTED & 0xff);
        }
    }
    Listed::No
}

#[inline(always)]
fn read<W: TrieWords + ?Sized>(words: &W, index: u64) -> [u64; PREFIX_WORDS] {
    [words.word(index), words.word(index + 1), words.word(index + 2)]
}

impl TrieWords for [u64] {
    #[inline]
    fn word(&self, index: u64) -> u64 {
        self.get(index as usize).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_contain_what_begins_with_their_bits() {
        let half = 0x2001_0db8_0000_0000;
        for (length, bits, expected) in [
            (1, [0, u64::MAX], true),
            (1, [1 << 63, 0], false),
            (32, [half | 0xffff_ffff, 7], true),
            (32, [half ^ 1 << 32, 0], false),
            (64, [half, u64::MAX], true),
            (64, [half | 1, 0], false),
            (65, [half, u64::MAX >> 1], true),
            (65, [half, 1 << 63], false),
            (128, [half, 0], true),
            (128, [half, 1], false),
            (128, [half | 1, 0], false),
        ] {
            let words = prefix([if length < 32 { 0 } else { half }, 0], length, Listed::Denied, false);
            assert_eq!(contains(words, bits), expected, "{length} {bits:x?}");
        }
    }

    #[test]
    fn steps_and_prefixes_are_read_as_they_were_made() {
        for count in 1..=16 {
            let node = TrieTarget::Node { first: 7, count: 1 << count };
            assert_eq!(TrieEntry::node(7, 128 - count, count).leads_to(), node);
        }
        for length in [1, 24, 64, 65, 128] {
            let step = TrieEntry::prefix(9, [u64::MAX; 2], length, false);
            assert_eq!(step.leads_to(), TrieTarget::Prefix(9));
            assert!(step.may_contain([u64::MAX; 2]) && !step.may_contain([0; 2]), "{length}");
            assert!(TrieEntry::prefix(9, [u64::MAX; 2], length, true).may_contain([0; 2]), "{length}");
        }
        assert_eq!(TrieEntry::NOTHING.leads_to(), TrieTarget::Nowhere);
        for (length, listed) in [(1, Listed::Allowed), (128, Listed::Denied)] {
            assert_eq!(of_prefix(prefix([1 << 63, 5], length, listed, true)), ([1 << 63, 5], length, listed));
        }
    }

    #[test]
    fn a_broken_trie_ends() {
        let words: &[u64] = &[TrieEntry::node(0, 0, 1).0, TrieEntry::node(0, 0, 1).0];
        let address = Address { bits: [u64::MAX; 2], family: 1 };
        let find = |step: TrieEntry, filter| find(words, TrieRoot { step: step.0, filter }, &address);
        assert_eq!(find(TrieEntry(words[0]), 0), Listed::No);
        assert_eq!(find(TrieEntry::prefix(100, address.bits, 9, false), 0), Listed::No);
        assert_eq!(find(TrieEntry::node(1000, 70, 16), 0), Listed::No);
        assert_eq!(find(TrieEntry(words[0]), Filter::new(1000, 70, 16).0), Listed::No);
    }
}
