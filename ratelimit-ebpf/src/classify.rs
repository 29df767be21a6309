//! The classification tables, as maps. One that no rule asks about has no code in the loaded program.

use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    macros::map,
    maps::{
        Array,
        lpm_trie::{Key, LpmTrie},
    },
};
use ratelimit_common::{
    classify::{Dimension, Tables},
    packet::Address,
};

use crate::{globals::globals, verified::verified_once};

const NO_PREALLOC: u32 = 1;

macro_rules! maps {
    ($($name:ident: $kind:ty = $flags:expr;)*) => {$(
        #[map]
        static $name: $kind = <$kind>::with_max_entries(1, $flags);
    )*};
}

maps! {
    PROTOCOL: Array<u64> = BPF_F_MMAPABLE;
    SOURCE_PORT: Array<u64> = BPF_F_MMAPABLE;
    DEST_PORT: Array<u64> = BPF_F_MMAPABLE;
    TCP_FLAGS: Array<u64> = BPF_F_MMAPABLE;
    ICMP_TYPE: Array<u64> = BPF_F_MMAPABLE;
    VLAN: Array<u64> = BPF_F_MMAPABLE;
    KIND: Array<u64> = BPF_F_MMAPABLE;
    LENGTH: Array<u64> = BPF_F_MMAPABLE;
    SOURCE_V4: LpmTrie<u32, u64> = NO_PREALLOC;
    SOURCE_V6: LpmTrie<[u64; 2], u64> = NO_PREALLOC;
    DEST_V4: LpmTrie<u32, u64> = NO_PREALLOC;
    DEST_V6: LpmTrie<[u64; 2], u64> = NO_PREALLOC;
}

/// All tables.
pub struct Maps;

impl Tables for Maps {
    #[inline(always)]
    fn asks(&self, dimension: Dimension) -> bool {
        globals().dimensions & dimension.bit() != 0
    }

    #[inline(always)]
    fn row(&self, dimension: Dimension, row: u64) -> u64 {
        let table = match dimension {
            Dimension::Protocol => &PROTOCOL,
            Dimension::SourcePort => &SOURCE_PORT,
            Dimension::DestinationPort => &DEST_PORT,
            Dimension::TcpFlags => &TCP_FLAGS,
            Dimension::IcmpType => &ICMP_TYPE,
            Dimension::Vlan => &VLAN,
            Dimension::Kind => &KIND,
            Dimension::Length => &LENGTH,
        };
        table.get(row as u32).copied().unwrap_or(globals().rules)
    }

    #[inline(always)]
    fn source(&self, address: &Address) -> u64 {
        let any = globals().any_address[0];
        if any == globals().rules {
            return any;
        }
        let [high, low] = address.bits;
        let found = if address.family == 0 {
            if globals().sources[0] == 0 { None } else { SOURCE_V4.get(key_v4(high)) }
        } else {
            if globals().sources[1] == 0 { None } else { SOURCE_V6.get(key_v6(high, low)) }
        };
        found.copied().unwrap_or(any)
    }

    #[inline(always)]
    fn destination(&self, address: &Address) -> u64 {
        let any = globals().any_address[1];
        if any == globals().rules {
            return any;
        }
        let [high, low] = address.bits;
        let found = if address.family == 0 {
            if globals().destinations[0] == 0 { None } else { DEST_V4.get(key_v4(high)) }
        } else {
            if globals().destinations[1] == 0 { None } else { DEST_V6.get(key_v6(high, low)) }
        };
        found.copied().unwrap_or(any)
    }
}

/// [`Tables::source`] as a call of its own, because the keys of tries need stack.
#[inline(always)]
pub fn of_source(address: &Address) -> u64 {
    let any = globals().any_address[0];
    if any == globals().rules {
        any
    } else {
        rules_of_source(address.bits[0], address.bits[1], address.family)
    }
}

/// [`Tables::destination`] likewise.
#[inline(always)]
pub fn of_destination(address: &Address) -> u64 {
    let any = globals().any_address[1];
    if any == globals().rules {
        any
    } else {
        rules_of_destination(address.bits[0], address.bits[1], address.family)
    }
}

verified_once! {
    fn rules_of_source(high: u64, low: u64, family: u64) -> u64 {
        Maps.source(&Address { bits: [high, low], family })
    } else 0;
}

verified_once! {
    fn rules_of_destination(high: u64, low: u64, family: u64) -> u64 {
        Maps.destination(&Address { bits: [high, low], family })
    } else 0;
}

/// The trie's key of a whole IPv4 address.
#[inline(always)]
pub fn key_v4(high: u64) -> Key<u32> {
    Key::new(32, ((high >> 32) as u32).to_be())
}

/// The trie's key of a whole IPv6 address.
#[inline(always)]
pub fn key_v6(high: u64, low: u64) -> Key<[u64; 2]> {
    Key::new(128, [high.to_be(), low.to_be()])
}
