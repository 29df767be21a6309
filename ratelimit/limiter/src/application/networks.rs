//! Which of many networks a value belongs to: the longest one that contains it.

use std::net::IpAddr;

use crate::prefix::Prefix;

/// Networks, each with the number of what it leads to, sorted; each knows the shortest way to those around it.
#[derive(Debug, Default)]
pub(super) struct NetworkTable {
    ipv4: Vec<NetworkEntry<u32>>,
    ipv6: Vec<NetworkEntry<u128>>,
}

/// A network: its bits, its length, the place of the one around it (from 1; 0 if there is none), and where it leads.
#[derive(Clone, Copy, Debug)]
struct NetworkEntry<B> {
    bits: B,
    around: u32,
    node: u32,
    length: u8,
}

/// An address's bits.
trait Bits: Copy + Ord {
    fn common(self, other: Self) -> u32;
}

impl Bits for u32 {
    fn common(self, other: Self) -> u32 {
        (self ^ other).leading_zeros()
    }
}

impl Bits for u128 {
    fn common(self, other: Self) -> u32 {
        (self ^ other).leading_zeros()
    }
}

impl<B: Bits> NetworkEntry<B> {
    const fn order(&self) -> (B, u8) {
        (self.bits, self.length)
    }

    fn contains(&self, (bits, length): (B, u8)) -> bool {
        self.length <= length && self.bits.common(bits) >= self.length.into()
    }
}

impl NetworkTable {
    /// Adds networks that lead to `node`. They count when the table is [sealed](Self::seal).
    pub(super) fn add(&mut self, prefixes: impl IntoIterator<Item = Prefix>, node: usize) {
        // Each node has a line in a file of at most some megabytes.
        let node = u32::try_from(node).unwrap_or(u32::MAX);
        for prefix in prefixes {
            let length = prefix.len();
            match prefix.address() {
                IpAddr::V4(address) => {
                    self.ipv4.push(NetworkEntry { bits: address.to_bits(), around: 0, node, length });
                }
                IpAddr::V6(address) => {
                    self.ipv6.push(NetworkEntry { bits: address.to_bits(), around: 0, node, length });
                }
            }
        }
    }

    /// Makes it ready. If a network is there twice, the first one counts.
    pub(super) fn seal(&mut self) {
        seal(&mut self.ipv4);
        seal(&mut self.ipv6);
    }

    /// Where a value leads: an address or a network, all of which must be inside one of the table's.
    pub(super) fn find(&self, value: &str) -> Option<usize> {
        if self.ipv4.is_empty() && self.ipv6.is_empty() {
            return None;
        }
        let asked = parse(value)?;
        match asked.address() {
            IpAddr::V4(address) => find(&self.ipv4, (address.to_bits(), asked.len())),
            IpAddr::V6(address) => find(&self.ipv6, (address.to_bits(), asked.len())),
        }
    }
}

fn seal<B: Bits>(entries: &mut Vec<NetworkEntry<B>>) {
    // It keeps the order of equal ones.
    entries.sort_by_key(NetworkEntry::order);
    entries.dedup_by_key(|entry| entry.order());
    entries.shrink_to_fit();
    let mut way: Vec<(u32, (B, u8))> = Vec::new();
    for (place, entry) in (1..).zip(entries.iter_mut()) {
        while let Some((_, around)) = way.last() {
            let around = NetworkEntry { bits: around.0, length: around.1, ..*entry };
            if around.contains(entry.order()) {
                break;
            }
            way.pop();
        }
        entry.around = way.last().map_or(0, |(place, _)| *place);
        way.push((place, entry.order()));
    }
}

/// What lies directly before, or one of those around it, is the longest network around.
fn find<B: Bits>(entries: &[NetworkEntry<B>], asked: (B, u8)) -> Option<usize> {
    let mut place = entries.partition_point(|entry| entry.order() <= asked);
    loop {
        let entry = entries.get(place.checked_sub(1)?)?;
        if entry.contains(asked) {
            return usize::try_from(entry.node).ok();
        }
        place = usize::try_from(entry.around).ok()?;
    }
}

/// An address or a network, in whichever form of IPv6 an IPv4 address is; bits beyond the length are nothing.
fn parse(value: &str) -> Option<Prefix> {
    let (address, length) = match value.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u8>().ok()?)),
        None => (value, None),
    };
    let written: IpAddr = address.parse().ok()?;
    let address = written.to_canonical();
    let Some(length) = length else { return Some(address.into()) };
    let is_mapped = written.is_ipv6() && address.is_ipv4();
    Prefix::around(address, if is_mapped { length.checked_sub(96)? } else { length })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(lists: &[&[&str]]) -> NetworkTable {
        let mut table = NetworkTable::default();
        for (node, list) in lists.iter().enumerate() {
            table.add(list.iter().map(|text| text.parse().unwrap()), node);
        }
        table.seal();
        table
    }

    #[test]
    fn the_longest_network_counts() {
        let table = table(&[
            &["10.0.0.0/8", "10.1.1.0/24", "2001:db8::/32"],
            &["10.1.0.0/16", "2001:db8:1::/48", "10.0.0.0/8"],
            &["0.0.0.0/0"],
        ]);
        for (value, expected) in [
            ("10.0.0.1", Some(0)),
            ("10.1.2.3", Some(1)),
            ("10.1.1.1", Some(0)),
            ("10.1.1.0/24", Some(0)),
            ("10.1.1.0/23", Some(1)),
            ("10.1.1.9/24", Some(0)),
            ("10.0.0.0/7", Some(2)),
            ("192.0.2.1", Some(2)),
            ("::ffff:10.1.2.3", Some(1)),
            ("::ffff:10.1.0.0/112", Some(1)),
            ("::ffff:10.1.0.0/95", None),
            ("2001:db8::1", Some(0)),
            ("2001:db8:1:2::/64", Some(1)),
            ("2001:db9::", None),
            ("10.0.0.1/33", None),
            ("10.0.0.1:80", None),
            ("010.0.0.1", None),
            ("unknown", None),
            ("", None),
        ] {
            assert_eq!(table.find(value), expected, "{value}");
        }
        assert_eq!(NetworkTable::default().find("10.0.0.1"), None);
    }

    proptest! {
        #[test]
        fn it_finds_what_looking_at_all_finds(
            lists in prop::collection::vec(prop::collection::vec((0_u32..64, 24_u8..=32), 0..12), 0..4),
            asked in (0_u32..64, 24_u8..=32),
        ) {
            let prefix = |(bits, length): (u32, u8)| {
                Prefix::around(std::net::Ipv4Addr::from_bits(bits).into(), length).unwrap()
            };
            let mut table = NetworkTable::default();
            for (node, list) in lists.iter().enumerate() {
                table.add(list.iter().copied().map(prefix), node);
            }
            table.seal();
            let asked = prefix(asked);
            let all = lists.iter().enumerate().flat_map(|(node, list)| list.iter().map(move |one| (node, prefix(*one))));
            let around = all.filter(|(_, one)| one.contains(&asked));
            let longest = around.min_by_key(|(_, one)| std::cmp::Reverse(one.len())).map(|(node, _)| node);
            prop_assert_eq!(table.find(&asked.to_string()), longest);
        }
    }
}
