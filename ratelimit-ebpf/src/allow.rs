//! The allow list: sources that are never limited.

use aya_ebpf::{macros::map, maps::lpm_trie::LpmTrie};
use ratelimit_common::packet::Address;

use crate::{
    classify::{key_v4, key_v6},
    globals::globals,
};

const NO_PREALLOC: u32 = 1;

#[map]
static ALLOW_V4: LpmTrie<u32, u8> = LpmTrie::with_max_entries(1, NO_PREALLOC);

#[map]
static ALLOW_V6: LpmTrie<[u64; 2], u8> = LpmTrie::with_max_entries(1, NO_PREALLOC);

#[inline(always)]
pub fn contains(source: &Address) -> bool {
    let [high, low] = source.bits;
    if source.family == 0 {
        return globals().allow[0] != 0 && ALLOW_V4.get(key_v4(high)).is_some();
    }
    globals().allow[1] != 0 && ALLOW_V6.get(key_v6(high, low)).is_some()
}
