//! The allow list, read back from the trie: for those who have nothing but the map of a program in force.

use ratelimit_common::{
    lists::{self, Listed, PREFIX_WORDS, TrieEntry, TrieTarget},
    packet::Address,
};

use crate::policy::{Prefix, PrefixList};

/// What is on the allow list of a trie. Everything is two halves.
#[must_use]
pub fn allowed(words: &[u64]) -> PrefixList {
    let mut found = Vec::new();
    for (family, root) in (0..2).zip(words) {
        collect(words, TrieEntry(*root), family, 0, &mut found);
    }
    PrefixList::new(found)
}

/// `after`: what a step leads to lies behind the step, so that there is an end whatever the words are.
fn collect(words: &[u64], step: TrieEntry, family: u64, after: u64, found: &mut Vec<Prefix>) {
    match step.leads_to() {
        TrieTarget::Nowhere => {}
        TrieTarget::Node { first, count } => {
            let steps = words.get(first as usize..(first + count) as usize).filter(|_| first > after);
            for step in steps.unwrap_or_default() {
                collect(words, TrieEntry(*step), family, first, found);
            }
        }
        TrieTarget::Prefix(index) => {
            let prefix = words.get(index as usize..).and_then(<[u64]>::first_chunk::<PREFIX_WORDS>);
            let Some((bits, length, Listed::Allowed)) = prefix.copied().map(lists::of_prefix) else { return };
            found.extend(Prefix::new(Address { bits, family }.to_ip(), length));
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
            assert!(allowed(&[root.0, 0, loops, loops]).is_empty());
        }
    }
}
