//! The allow list: sources that are never limited.

use aya_ebpf::{
    macros::map,
    maps::lpm_trie::{Key, LpmTrie},
};
use ratelimit_common::packet::Address;

use crate::globals::globals;

const NO_PREALLOC: u32 = 1;

#[map]
static ALLOW_V4: LpmTrie<u32, u8> = LpmTrie::with_max_entries(1, NO_PREALLOC);

#[map]
static ALLOW_V6: LpmTrie<[u64; 2], u8> = LpmTrie::with_max_entries(1, NO_PREALLOC);

#[inline(always)]
pub fn contains(source: &Address) -> bool {
    let [high, low] = source.bits;
    if source.family == 0 {
        return globals().allow_v4 != 0
            && ALLOW_V4.get(Key::new(32, ((high >> 32) as u32).to_be())).is_some();
    }
    globals().allow_v6 != 0 && ALLOW_V6.get(Key::new(128, [high.to_be(), low.to_be()])).is_some()
}
