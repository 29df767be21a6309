//! The allow and the deny list: a trie in an array of words.

use aya_ebpf::{bindings::BPF_F_MMAPABLE, macros::map, maps::Array};
use ratelimit_common::{
    lists::{self, Listed, TrieWords},
    packet::Address,
};

use crate::{globals::globals, verified::verified_once};

#[map]
static LISTS: Array<u64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

struct ListMap;

impl TrieWords for ListMap {
    #[inline(always)]
    fn word(&self, index: u64) -> u64 {
        LISTS.get(index as u32).copied().unwrap_or_default()
    }
}

/// What the lists say about a source.
#[inline(always)]
pub fn find(source: &Address) -> Listed {
    if globals().has_lists == 0 {
        return Listed::No;
    }
    let [v4, v6] = &globals().listed;
    let root = if source.family == 0 { v4 } else { v6 };
    if !root.may_contain(&ListMap, source.bits) {
        return Listed::No;
    }
    let [high, low] = source.bits;
    follow_list(root.step, high, low)
}

verified_once! {
    fn follow_list(step: u64, high: u64, low: u64) -> Listed {
        lists::follow(&ListMap, step, [high, low])
    } else Listed::No;
}
