//! The allow and the deny list, read back from the trie: for those who have nothing but the map of a program in force.

use ratelimit_common::{
    lists::{self, Listed, PREFIX_WORDS, TrieEntry, TrieTarget},
    packet::Address,
};

use crate::policy::{Prefix, PrefixList};

/// What is on one of the lists of a trie. Everything is two halves.
#[must_use]
pub fn listed(words: &[u64], list: Listed) -> PrefixList {
    let mut found = Vec::new();
    for (family, root) in (0..2).zip(words) {
        collect(words, TrieEntry(*root), (family, list), 0, &mut found);
    }
    PrefixList::new(found)
}

/// `after`: what a step leads to lies behind the step, so that there is an end whatever the words are.
fn collect(words: &[u64], step: TrieEntry, wanted: (u64, Listed), after: u64, found: &mut Vec<Prefix>) {
    let (family, list) = wanted;
    match step.leads_to() {
        TrieTarget::Nowhere => {}
        TrieTarget::Node { first, count } => {
            let steps = words.get(first as usize..(first + count) as usize).filter(|_| first > after);
            for step in steps.unwrap_or_default() {
                collect(words, TrieEntry(*step), wanted, first, found);
            }
        }
        TrieTarget::Prefix(index) => {
            let mut rest = words.get(index as usize..).unwrap_or_default();
            while let Some((prefix, behind)) = rest.split_first_chunk::<PREFIX_WORDS>() {
                let (bits, length, on) = lists::of_prefix(*prefix);
                if on == list {
                    found.extend(Prefix::new(Address { bits, family }.to_ip(), length));
                }
                // At most one is behind it.
                rest = if lists::has_more(*prefix) { behind } else { &[] };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_no_trie_end() {
        for root in [
            TrieEntry::node(0, 0, 1),
            TrieEntry::node(2, 0, 1),
            TrieEntry::prefix(100, [0; 2], 8, false),
            TrieEntry::node(1_000, 70, 16),
        ] {
            let loops = TrieEntry::node(2, 0, 1).0;
            assert!(listed(&[root.0, 0, loops, loops], Listed::Allowed).is_empty());
        }
    }
}
