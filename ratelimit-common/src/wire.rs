//! The types that cross the kernel boundary: `#[repr(C)]`, without padding, their sizes asserted here.
//!
//! Constants that a generation of the XDP program is loaded with, and the values of its maps.

use crate::{
    limit::Limit,
    packet::Flag,
    table::{SLOTS, Secret, Tag},
};

/// The most rules of a configuration.
pub const MOST_RULES: usize = 64;

/// Numbers that tell rules apart in the table and the counters. More than rules, so that a new generation can use numbers
/// that the old one, which runs until the switch, does not.
pub const RULE_NUMBERS: usize = 256;

/// Room for the daemon's own notes, kept with the table.
pub const META_BYTES: usize = 1 << 17;

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counter {
    /// Frames.
    pub packets: u64,
    /// Their wire bytes: Ethernet header included, check sequence not.
    pub bytes: u64,
}

/// What one rule did, on one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RuleCounters {
    /// It allowed them, and they passed.
    pub passed: Counter,
    /// It denied them; a rule that only observes would have.
    pub dropped: Counter,
}

/// Why a packet passed or was dropped. Each packet has one reason, so their counters add up to all packets seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// Every rule allowed it.
    Passed = 0,
    /// A rule denied it.
    Limited = 1,
    /// Passed: no IP addresses to judge it by.
    NotIp = 2,
    /// Passed: its source is on the allow list.
    Allowed = 3,
    /// Passed: IPv6 neighbour discovery.
    NeighbourDiscovery = 4,
    /// Passed: every rule allowed it, but a header is broken.
    Malformed = 5,
}

impl Reason {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 6] =
        [Self::Passed, Self::Limited, Self::NotIp, Self::Allowed, Self::NeighbourDiscovery, Self::Malformed];

    /// Whether packets with this reason were dropped.
    #[must_use]
    #[inline(always)]
    pub const fn is_drop(self) -> bool {
        matches!(self, Self::Limited)
    }

    /// The name that outputs use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Limited => "limited",
            Self::NotIp => "not_ip",
            Self::Allowed => "allowed",
            Self::NeighbourDiscovery => "neighbour_discovery",
            Self::Malformed => "malformed",
        }
    }
}

/// What happened to the bucket table, on one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TableCounters {
    /// Buckets in use that had to give way to others.
    pub live_evictions: u64,
    /// Packets denied because every try met another processor at the same slot.
    pub exhausted_tries: u64,
}

/// One set of the bucket table, as the map holds it: key and state by turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(128))]
pub struct SetWords(pub [[u64; 2]; SLOTS]);

/// What a generation of the program is loaded with, besides its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Globals {
    /// CLOCK_MONOTONIC in nanoseconds when the table was made.
    pub epoch: u64,
    /// Number of sets, less one.
    pub set_mask: u64,
    /// The table's secret.
    pub secret: Secret,
    /// Rules that drop; they come first.
    pub enforced: u32,
    /// Rules that drop or observe.
    pub rules: u32,
    /// 1 if there is an allow list for IPv4, for IPv6.
    pub allow_v4: u32,
    /// See above.
    pub allow_v6: u32,
    /// 1 if a dropping rule counts denied packets.
    pub counts_denied: u32,
    /// 1 if the time comes from a map, for dry runs and tests.
    pub test_clock: u32,
    /// If not zero, each packet counts as one from a source drawn at random among so many, for benchmarks.
    pub random_sources: u32,
    /// Must be zero.
    pub reserved: u32,
}

/// What a rule does with packets above its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Action {
    /// Drops them.
    Drop = 0,
    /// Counts them.
    Observe = 1,
}

/// What of an address makes a rule's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct KeyMask {
    /// The bits that count.
    pub bits: [u64; 2],
}

/// One rule, compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Rule {
    /// The limit.
    pub limit: Limit,
    /// The part of a source that makes the key, for IPv4 and IPv6.
    pub masks: [KeyMask; 2],
    /// Its number: counters, and with the address family the tag of its buckets.
    pub number: u64,
}

impl Rule {
    /// The tag of its buckets for a family.
    #[must_use]
    #[inline(always)]
    pub const fn tag(&self, family: Flag) -> Tag {
        Tag::new((self.number << 1 | family) as u16)
    }

    /// The number of the rule whose buckets have this tag.
    #[must_use]
    #[inline(always)]
    pub const fn number_of(tag: Tag) -> u64 {
        tag.number() as u64 >> 1
    }
}

const _: () = {
    assert!(size_of::<Counter>() == 16);
    assert!(size_of::<RuleCounters>() == 32);
    assert!(size_of::<TableCounters>() == 16);
    assert!(size_of::<SetWords>() == 128);
    assert!(size_of::<Secret>() == 32);
    assert!(size_of::<Globals>() == 80);
    assert!(size_of::<Rule>() == 80 + 40);
};
