//! The allow and the deny list, as one trie: see [`ratelimit_common::lists`].

mod listed;

use std::net::IpAddr;

use ratelimit_common::lists::{self, Filter, Listed, TrieEntry, TrieRoot};

pub use self::listed::listed;
use crate::policy::{Prefix, PrefixList};

/// The words of a trie, and the first step for IPv4 and IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledLists {
    /// The first steps, for those who have nothing but the words; then filters, nodes and prefixes.
    pub words: Vec<u64>,
    /// Where to begin.
    pub roots: [TrieRoot; 2],
}

/// A prefix and what it says: its address in the first bits.
#[derive(Clone, Copy, Debug)]
struct ListedPrefix {
    bits: u128,
    length: u8,
    listed: Listed,
}

impl ListedPrefix {
    const fn covers(&self, other: &Self) -> bool {
        self.length <= other.length && common_bits(self.bits, other.bits) >= self.length as u32
    }
}

const fn common_bits(one: u128, other: u128) -> u32 {
    (one ^ other).leading_zeros()
}

/// A node takes no more bits than this at once: half a mebibyte.
const MOST_BITS: u32 = 16;
/// So that [`lists::MOST_STEPS`] are enough.
const LEAST_BITS: u32 = 2;

/// A filter has so many bits more than its prefixes need to be told apart, so that it lets one in 16 to 32 others pass.
const FILTER_BITS: u32 = 4;
/// At most two mebibytes.
const MOST_FILTER_BITS: u32 = 24;
const WORD_BITS: u32 = u64::BITS.trailing_zeros();

/// Builds the trie of both lists. What is on both is allowed.
#[must_use]
pub fn lists(allow: &PrefixList, deny: &PrefixList) -> CompiledLists {
    let mut lists = CompiledLists { words: vec![0; 2], roots: [TrieRoot::default(); 2] };
    for (family, root) in [(true, 0), (false, 1)] {
        let of_family = |prefix: &&Prefix| prefix.address().is_ipv4() == family;
        let allowed = allow.iter().filter(of_family).map(|prefix| (prefix, Listed::Allowed));
        let denied = deny.iter().filter(of_family).map(|prefix| (prefix, Listed::Denied));
        let mut entries: Vec<ListedPrefix> =
            allowed.chain(denied).flat_map(|(prefix, listed)| entries(prefix, listed)).collect();
        entries.sort_unstable_by_key(|entry| (entry.bits, entry.length, entry.listed as u64));
        leave_out_covered(&mut entries);
        let filter = lists.filter(&entries);
        lists.roots[root] = TrieRoot { step: lists.build(&entries, None).0, filter };
    }
    lists.words[..2].copy_from_slice(&lists.roots.map(|root| root.step));
    lists
}

/// Everything is two halves, because a step takes at least a bit.
fn entries(prefix: &Prefix, listed: Listed) -> impl Iterator<Item = ListedPrefix> {
    let bits = match prefix.address() {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    };
    let halves = if prefix.len() == 0 { [Some(0), Some(1 << 127)] } else { [Some(bits), None] };
    let length = prefix.len().max(1);
    halves.into_iter().flatten().map(move |bits| ListedPrefix { bits, length, listed })
}

/// What is inside an allowed prefix says nothing new. Then at most one other prefix contains a prefix: a denied one an
/// allowed one.
fn leave_out_covered(entries: &mut Vec<ListedPrefix>) {
    let mut last: Option<ListedPrefix> = None;
    entries.retain(|entry| {
        let is_covered = last.is_some_and(|last| last.covers(entry));
        if !is_covered && entry.listed == Listed::Allowed {
            last = Some(*entry);
        }
        !is_covered
    });
}

impl CompiledLists {
    /// A filter of these prefixes, which are sorted; 0 if it would let most pass.
    fn filter(&mut self, entries: &[ListedPrefix]) -> u64 {
        let ([first, ..], [.., last]) = (entries, entries) else { return 0 };
        let wanted = usize::BITS - entries.len().leading_zeros() + FILTER_BITS;
        let count = wanted.clamp(WORD_BITS, MOST_FILTER_BITS);
        let shortest = entries.iter().map(|entry| u32::from(entry.length)).min().unwrap_or_default();
        let start = common_bits(first.bits, last.bits).min(shortest.saturating_sub(count));
        // In one half.
        let start = if start < 64 { start.min(64 - count) } else { start };
        let mut words = vec![0_u64; 1 << (count - WORD_BITS)];
        for entry in entries {
            let from = (entry.bits << start >> (128 - count)) as u64;
            let covered = 1 << (start + count).saturating_sub(u32::from(entry.length)).min(count);
            set_bits(&mut words, from, covered);
        }
        let ones: u64 = words.iter().map(|word| u64::from(word.count_ones())).sum();
        if ones > words.len() as u64 * 64 / 2 {
            return 0;
        }
        let index = self.words.len() as u32;
        self.words.extend(words);
        Filter::new(index, start, count).0
    }

    /// The step for these prefixes, which are sorted, inside `outer`.
    fn build(&mut self, entries: &[ListedPrefix], outer: Option<ListedPrefix>) -> TrieEntry {
        match entries {
            [] => outer.map_or(TrieEntry::NOTHING, |outer| self.prefix(outer, None)),
            [only] => self.prefix(*only, outer),
            [first, rest @ ..] if rest.iter().all(|entry| first.covers(entry)) => {
                self.build(rest, Some(*first))
            }
            [first, .., last] => self.node(entries, common_bits(first.bits, last.bits), outer),
        }
    }

    fn prefix(&mut self, entry: ListedPrefix, outer: Option<ListedPrefix>) -> TrieEntry {
        let index = self.words.len() as u32;
        let halves = |bits: u128| [(bits >> 64) as u64, bits as u64];
        self.words.extend(lists::prefix(halves(entry.bits), entry.length, entry.listed, outer.is_some()));
        if let Some(outer) = outer {
            self.words.extend(lists::prefix(halves(outer.bits), outer.length, outer.listed, false));
        }
        TrieEntry::prefix(index, halves(entry.bits), entry.length, outer.is_some())
    }

    /// A node that looks at bits from `start` on.
    fn node(&mut self, entries: &[ListedPrefix], start: u32, outer: Option<ListedPrefix>) -> TrieEntry {
        let wanted = usize::BITS - entries.len().saturating_sub(1).leading_zeros();
        let count = wanted.clamp(LEAST_BITS, MOST_BITS).min(64 - start % 64);
        let index = self.words.len();
        self.words.resize(index + (1 << count), TrieEntry::NOTHING.0);
        let place = |entry: &ListedPrefix| (entry.bits << start >> (128 - count)) as usize;
        let mut rest = entries;
        // Prefixes that end in this node: a denied one, and an allowed one inside it.
        let mut covering: [Option<ListedPrefix>; 2] = [outer, None];
        for slot in 0..1_usize << count {
            let here = rest.partition_point(|entry| place(entry) <= slot);
            let (mine, later) = rest.split_at(here);
            rest = later;
            let ending = mine.partition_point(|entry| u32::from(entry.length) < start + count);
            let reaches = |entry: &ListedPrefix| {
                let length = u32::from(entry.length);
                length <= start || place(entry) + (1 << (start + count).saturating_sub(length)) > slot
            };
            covering = covering.map(|entry| entry.filter(reaches));
            for entry in &mine[..ending] {
                covering[usize::from(entry.listed == Listed::Allowed)] = Some(*entry);
            }
            let step = match covering {
                [outer, Some(allowed)] => self.prefix(allowed, outer),
                [outer, None] => self.build(&mine[ending..], outer),
            };
            if let Some(word) = self.words.get_mut(index + slot) {
                *word = step.0;
            }
        }
        TrieEntry::node(index as u32, start, count)
    }
}

/// Sets so many bits from a place on.
fn set_bits(words: &mut [u64], from: u64, count: u64) {
    for place in from..from + count {
        if let Some(word) = words.get_mut((place >> WORD_BITS) as usize) {
            *word |= 1 << (place & 63);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratelimit_common::{lists::find, packet::Address};

    use super::*;

    fn plain(allow: &[Prefix], deny: &[Prefix], address: IpAddr) -> Listed {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let host = Prefix::new(address, bits).unwrap();
        let is_in = |list: &[Prefix]| list.iter().any(|prefix| prefix.contains(&host));
        if is_in(allow) {
            Listed::Allowed
        } else if is_in(deny) {
            Listed::Denied
        } else {
            Listed::No
        }
    }

    fn check(allow: &[Prefix], deny: &[Prefix], addresses: impl IntoIterator<Item = IpAddr>) {
        let lists = lists(&PrefixList::new(allow.to_vec()), &PrefixList::new(deny.to_vec()));
        let [allowed, denied] = [Listed::Allowed, Listed::Denied].map(|list| listed(&lists.words, list));
        for ip in addresses {
            if !matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
                let host = Prefix::around(ip, if ip.is_ipv4() { 32 } else { 128 }).unwrap();
                let read = match (allowed.around(&host), denied.around(&host)) {
                    (Some(_), _) => Listed::Allowed,
                    (None, Some(_)) => Listed::Denied,
                    (None, None) => Listed::No,
                };
                assert_eq!(read, plain(allow, deny, ip), "{ip} allow {allow:?} deny {deny:?}");
                assert_eq!(found(&lists, ip), plain(allow, deny, ip), "{ip} allow {allow:?} deny {deny:?}");
            }
        }
    }

    fn found(lists: &CompiledLists, ip: IpAddr) -> Listed {
        let address = Address::from(ip);
        find(lists.words.as_slice(), lists.roots[address.family as usize], &address)
    }

    /// A prefix's first and last address, and the ones before and behind.
    fn edges(prefix: &Prefix) -> Vec<IpAddr> {
        match prefix.address() {
            IpAddr::V4(first) => {
                let size = 1_u32.checked_shl(32 - u32::from(prefix.len())).unwrap_or(0);
                let first = first.to_bits();
                let last = first.wrapping_add(size.wrapping_sub(1));
                let all = [first.wrapping_sub(1), first, first ^ 1, last, last.wrapping_add(1)];
                all.map(|bits| IpAddr::V4(bits.into())).to_vec()
            }
            IpAddr::V6(first) => {
                let size = 1_u128.checked_shl(128 - u32::from(prefix.len())).unwrap_or(0);
                let first = first.to_bits();
                let last = first.wrapping_add(size.wrapping_sub(1));
                let all = [first.wrapping_sub(1), first, first ^ 1, last, last.wrapping_add(1)];
                all.map(|bits| IpAddr::V6(bits.into())).to_vec()
            }
        }
    }

    fn parse(texts: &[&str]) -> Vec<Prefix> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn what_is_allowed_inside_what_is_denied_is_allowed() {
        let allow = parse(&["10.1.0.0/16", "10.2.3.4", "192.0.2.0/24", "2001:db8::/32", "::1"]);
        let deny = parse(&["10.0.0.0/8", "192.0.2.128/25", "10.1.2.0/24", "2000::/3", "2001:db8:1::/48"]);
        check(&allow, &deny, allow.iter().chain(&deny).flat_map(edges));
    }

    #[test]
    fn everything_can_be_denied_but_some() {
        let allow = parse(&["10.0.0.0/8", "192.0.2.1", "fe80::/10", "2001:db8::1"]);
        let deny = parse(&["0.0.0.0/0", "::/0"]);
        check(&allow, &deny, allow.iter().chain(&deny).flat_map(edges));
        check(&deny, &allow, allow.iter().chain(&deny).flat_map(edges));
        check(&[], &[], deny.iter().flat_map(edges));
    }

    #[test]
    fn nested_chains_of_all_lengths_are_told_apart() {
        for family in ["255.255.255.255", "0.0.0.0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::"] {
            let address: IpAddr = family.parse().unwrap();
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let sibling = |length: u8| {
                let flip = 1_u128 << (127 - u32::from(length - 1));
                let address = match address {
                    IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() ^ (flip >> 96) as u32).into()),
                    IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() ^ flip).into()),
                };
                let masked = match address {
                    IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & (u32::MAX << (32 - length))).into()),
                    IpAddr::V6(v6) => {
                        IpAddr::V6((v6.to_bits() & (u128::MAX << (128 - u32::from(length)))).into())
                    }
                };
                Prefix::new(masked, length).ok()
            };
            let chain: Vec<Prefix> = (1..=bits).filter_map(sibling).collect();
            check(&chain, &[], chain.iter().flat_map(edges));
            check(&[], &chain, chain.iter().flat_map(edges));
        }
    }

    #[test]
    fn a_hundred_thousand_prefixes_take_few_steps_and_little_memory() {
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 32
        };
        let v6 = |bits: u128| IpAddr::V6((bits & (u128::MAX << 80)).into());
        let mut prefixes = Vec::new();
        for _ in 0..100_000 {
            prefixes.push(Prefix::new(v6(u128::from(next()) << 93 | 1 << 125), 48).unwrap());
            let address = IpAddr::V4(((next() as u32) & 0xffff_ff00).into());
            prefixes.push(Prefix::new(address, 24).unwrap());
        }
        let listed = PrefixList::new(prefixes.clone());
        let lists = lists(&listed, &PrefixList::default());
        assert!(lists.words.len() * 8 < 12 << 20, "{} words", lists.words.len());
        for ip in prefixes.iter().flat_map(edges) {
            let host = Prefix::new(ip, if ip.is_ipv4() { 32 } else { 128 }).unwrap();
            let before = &listed[..listed.partition_point(|prefix| *prefix <= host)];
            let is_listed = before.last().is_some_and(|prefix| prefix.contains(&host));
            let expected = if is_listed { Listed::Allowed } else { Listed::No };
            assert_eq!(found(&lists, ip), expected, "{ip}");
        }
    }

    fn prefix_of(bits: u128, length: u8, is_v4: bool) -> Prefix {
        let length = if is_v4 { length % 33 } else { length % 129 };
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        let address = if is_v4 {
            IpAddr::V4((((bits & mask) >> 96) as u32).into())
        } else {
            IpAddr::V6((bits & mask).into())
        };
        Prefix::new(address, length).unwrap_or_else(|_| Prefix::new(IpAddr::V4([0; 4].into()), 8).unwrap())
    }

    /// Addresses that share long and short beginnings.
    fn crowded() -> impl Strategy<Value = u128> {
        (any::<u128>(), 0_u32..129, any::<bool>()).prop_map(|(bits, shared, ones)| {
            let mask = u128::MAX.checked_shr(shared).unwrap_or(0);
            (bits & mask) | if ones { !mask } else { 0 }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn lists_say_what_a_look_at_each_prefix_says(
            allow in prop::collection::vec((crowded(), any::<u8>(), any::<bool>()), 0..24),
            deny in prop::collection::vec((crowded(), any::<u8>(), any::<bool>()), 0..24),
            more in prop::collection::vec(crowded(), 0..8),
        ) {
            let prefixes = |raw: Vec<(u128, u8, bool)>| -> Vec<Prefix> {
                raw.into_iter().map(|(bits, length, is_v4)| prefix_of(bits, length, is_v4)).collect()
            };
            let (allow, deny) = (prefixes(allow), prefixes(deny));
            let addresses: Vec<IpAddr> = allow.iter().chain(&deny).flat_map(edges)
                .chain(more.iter().map(|bits| IpAddr::V6((*bits).into())))
                .chain(more.iter().map(|bits| IpAddr::V4(((bits >> 96) as u32).into())))
                .collect();
            check(&allow, &deny, addresses);
        }
    }
}
