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
    classify::{Dimension, Exceptions, Tables},
    packet::Address,
    wire::Conditions,
};

use crate::{
    globals::{globals, rules_of_further},
    verified::verified_once,
};

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
    SOURCE_V4: LpmTrie<u32, [u64; 2]> = NO_PREALLOC;
    SOURCE_V6: LpmTrie<[u64; 2], [u64; 2]> = NO_PREALLOC;
    DEST_V4: LpmTrie<u32, [u64; 2]> = NO_PREALLOC;
    DEST_V6: LpmTrie<[u64; 2], [u64; 2]> = NO_PREALLOC;
}

/// The tables of what rules match, or of what they except, which have the second half of each map of rows, and the
/// second set of each prefix.
#[derive(Clone, Copy)]
pub struct Maps<const EXCEPTS: bool>;

/// What rules match.
pub const MATCHES: Maps<false> = Maps;

/// What rules except.
pub const EXCEPTS: Maps<true> = Maps;

impl<const EXCEPTS: bool> Maps<EXCEPTS> {
    #[inline(always)]
    fn conditions(self) -> &'static Conditions {
        if EXCEPTS { &globals().excepts } else { &globals().matches }
    }
}

impl<const EXCEPTS: bool> Tables for Maps<EXCEPTS> {
    #[inline(always)]
    fn asks(&self, dimension: Dimension) -> bool {
        self.conditions().dimensions & dimension.bit() != 0
    }

    #[inline(always)]
    fn asks_rarely(&self) -> bool {
        const RARE: u32 = {
            let [one, two, three] = Dimension::RARE;
            one.bit() | two.bit() | three.bit()
        };
        self.conditions().dimensions & RARE != 0
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
        let first = if EXCEPTS { dimension.rows() } else { 0 };
        // What can't be looked up is limited.
        let unknown = if EXCEPTS { 0 } else { self.conditions().rules };
        table.get(row as u32 + first).copied().unwrap_or(unknown)
    }

    #[inline(always)]
    fn source(&self, address: &Address) -> u64 {
        let Conditions { rules, any_address: [any, _], sources, .. } = self.conditions();
        let [high, low] = address.bits;
        if any == rules {
            return *any;
        }
        let found = if address.family == 0 {
            if sources[0] == 0 { None } else { SOURCE_V4.get(key_v4(high)) }
        } else {
            if sources[1] == 0 { None } else { SOURCE_V6.get(key_v6(high, low)) }
        };
        found.map_or(*any, |sets| sets[usize::from(EXCEPTS)])
    }

    #[inline(always)]
    fn destination(&self, address: &Address) -> u64 {
        let Conditions { rules, any_address: [_, any], destinations, .. } = self.conditions();
        let [high, low] = address.bits;
        if any == rules {
            return *any;
        }
        let found = if address.family == 0 {
            if destinations[0] == 0 { None } else { DEST_V4.get(key_v4(high)) }
        } else {
            if destinations[1] == 0 { None } else { DEST_V6.get(key_v6(high, low)) }
        };
        found.map_or(*any, |sets| sets[usize::from(EXCEPTS)])
    }
}

impl Exceptions for Maps<true> {
    #[inline(always)]
    fn further(&self) -> u64 {
        globals().further_excepts
    }

    #[inline(always)]
    fn rules_of(&self, row: u64) -> u64 {
        rules_of_further(row)
    }
}

/// [`Tables::source`] of what rules match as a call of its own, because the keys of tries need stack.
#[inline(always)]
pub fn of_source(address: &Address) -> u64 {
    let Conditions { rules, any_address: [any, _], .. } = MATCHES.conditions();
    if any == rules { *any } else { rules_of_source(address.bits[0], address.bits[1], address.family) }
}

/// [`Tables::destination`] likewise.
#[inline(always)]
pub fn of_destination(address: &Address) -> u64 {
    let Conditions { rules, any_address: [_, any], .. } = MATCHES.conditions();
    if any == rules { *any } else { rules_of_destination(address.bits[0], address.bits[1], address.family) }
}

verified_once! {
    fn rules_of_source(high: u64, low: u64, family: u64) -> u64 {
        MATCHES.source(&Address { bits: [high, low], family })
    } else 0;

    fn rules_of_destination(high: u64, low: u64, family: u64) -> u64 {
        MATCHES.destination(&Address { bits: [high, low], family })
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
