//! The types that cross the kernel boundary: `#[repr(C)]`, without padding, their sizes asserted here.
//!
//! Constants that a generation of the XDP program is loaded with, and the values of its maps.

mod key_mask;
mod reason;

pub use self::{key_mask::KeyMask, reason::Reason};
use crate::{
    bans::{BanRecord, BanSchedule},
    classify::Dimension,
    limit::Limit,
    lists::TrieRoot,
    packet::{Flag, LinkLayer, Packet, Ports},
    pipeline::FastPath,
    sample::Sampler,
    sketch,
    table::{SLOTS, Secret, Tag},
};

/// The most rules that a packet can match: the bits of a word.
pub const MOST_RULES: usize = 64;

/// The most limits: one for each rule, one for the new sources of each, and one for the packets that lead to a ban;
/// a power of two, so that a mask keeps an index inside.
pub const MOST_LIMITS: usize = (3 * MOST_RULES).next_power_of_two();

/// Numbers that tell rules apart in the table and the counters. More than rules, so that a new generation can use
/// numbers that the old one, which runs until the switch, does not.
pub const RULE_NUMBERS: usize = 512;

/// Room for the daemon's own notes, kept with the table.
pub const META_BYTES: usize = 1 << 17;

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counter {
    /// Packets; of a frame that several were joined to, as many as its bytes make.
    pub packets: u64,
    /// Their bytes on the wire: Ethernet header included if they have one, check sequence not.
    pub bytes: u64,
}

/// Packets that are counted and of which some are sampled, on one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sampled {
    /// All of them.
    pub count: Counter,
    /// Which are sampled.
    pub sampler: Sampler,
}

/// What one rule did, on one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RuleCounters {
    /// It allowed them, and they passed.
    pub passed: Counter,
    /// It dropped them.
    pub dropped: Counter,
}

/// What happened to the bucket table, on one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TableCounters {
    /// Buckets in use that had to give way to others.
    pub live_evictions: u64,
    /// Packets denied because every try met another processor at the same slot.
    pub exhausted_tries: u64,
    /// Bans that rules have made.
    pub bans_made: u64,
    /// Bans in force that had to give way to others, because the table of bans was full.
    pub bans_replaced: u64,
}

/// A packet that was dropped, or that a rule that observes would have dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DropEvent {
    /// CLOCK_MONOTONIC in nanoseconds.
    pub time: u64,
    /// Its addresses, as in [`crate::packet::Address`].
    pub source: [u64; 2],
    /// See above.
    pub destination: [u64; 2],
    /// IP version, ports and protocol.
    pub ports: Ports,
    /// Its wire bytes.
    pub bytes: u64,
    /// The index of the interface that it came on.
    pub interface: u32,
    /// The [`Reason`] for its verdict.
    pub reason: u32,
    /// The number of the first rule that denied it, or 0.
    pub rule: u32,
    /// 1 if what is above could be read: not if it is not IP.
    pub is_ip: u32,
}

/// Events of one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EventCounters {
    /// Until when the events so far have used up what they may.
    pub busy_until: u64,
    /// Events that were handed over.
    pub written: u64,
    /// Events for which the daemon left no room: it is not there, or too slow.
    pub lost: u64,
}

/// Bytes of the buffer from which the daemon reads events.
pub const EVENT_BYTES: u32 = 1 << 18;

/// Nanoseconds for each event: 100 a second and processor, a second's worth at once.
pub const EACH_EVENT: u64 = 10_000_000;

/// One set of the bucket table, as the map holds it: key and state by turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(128))]
pub struct SetWords(pub [[u64; 2]; SLOTS]);

/// Conditions of rules on packets, of what they match or of what they except: see [`crate::classify`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Conditions {
    /// The bits of the rules that they are of.
    pub rules: u64,
    /// The bits of those without a condition on the source address, on the destination address.
    pub any_address: [u64; 2],
    /// 1 if a rule asks about the source address of an IPv4, of an IPv6 packet.
    pub sources: [u32; 2],
    /// 1 if a rule asks about the destination address of an IPv4, of an IPv6 packet.
    pub destinations: [u32; 2],
    /// The bits of the dimensions that a rule asks about: see [`crate::classify::Dimension::bit`].
    pub dimensions: u32,
    /// 1 if a rule asks about anything.
    pub is_asked: u32,
}

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
    /// What rules match; all of them.
    pub matches: Conditions,
    /// What rules that match except. Its bits are those of exceptions: the first one of a rule has the rule's.
    pub excepts: Conditions,
    /// Where nobody asks for more than the source and the IP version: the bits of the rules that IPv4, that IPv6
    /// packets match.
    pub of_version: [u64; 2],
    /// The bits of the rules that except something.
    pub excepting: u64,
    /// The bits of exceptions that are not the first of their rules: see [`crate::classify::Exceptions`].
    pub further_excepts: u64,
    /// The bits of the rules that drop. The others only observe.
    pub enforced: u64,
    /// The bits of those that drop and count denied packets.
    pub counts_denied: u64,
    /// Where the lists of IPv4 and of IPv6 sources begin: see [`crate::lists::find`].
    pub listed: [TrieRoot; 2],
    /// 1 if packets with broken headers are dropped.
    pub drop_malformed: u32,
    /// 1 if an observing rule has several parts.
    pub observes_groups: u32,
    /// [`DRY_RUN`], [`TEST_CLOCK`], or 0 if packets are judged for good.
    pub dry_run: u32,
    /// If not zero, each packet counts as one from a source drawn at random among so many, for benchmarks.
    pub random_sources: u32,
    /// What the rules ask of a packet: [`READS_SOURCE`], [`READS_PORTS`] or [`READS_WHOLE`].
    pub reads: u32,
    /// 1 if a rule bans sources.
    pub bans: u32,
    /// 1 if the rules are on trial: then a map says until when.
    pub is_on_trial: u32,
    /// 1 if packets are sampled, for events and for the heaviest sources.
    pub samples: u32,
    /// What the packets of this instance's interfaces begin with: see [`crate::packet::LinkLayer`].
    pub link: u32,
    /// 1 if a frame may stand for several packets: see [`crate::packet::packets_in`].
    pub joins: u32,
    /// The fast path that packets try first: see [`crate::pipeline::FastPath`].
    pub fast_path: u32,
    /// 1 if anything is on a list.
    pub has_lists: u32,
}

impl Globals {
    /// Whether a rule asks anything of a packet.
    #[must_use]
    #[inline(always)]
    pub const fn classifies(&self) -> bool {
        self.matches.is_asked != 0 || self.excepts.is_asked != 0
    }

    /// The bits of the rules that packets of an IP version match, if nobody asks for more than that and the source.
    #[must_use]
    #[inline(always)]
    pub const fn of_version(&self, family: Flag) -> u64 {
        self.of_version[(family & 1) as usize]
    }

    /// The same, with what follows from the others about the paths that packets take.
    #[must_use]
    pub const fn with_fast_path(mut self) -> Self {
        let is_unusual = self.link != LinkLayer::Ethernet as u32 || self.joins != 0 || self.is_on_trial != 0;
        let Conditions { rules, any_address: [source, destination], dimensions, .. } = self.matches;
        let asks_source = source != rules || destination != rules || dimensions & !Dimension::Kind.bit() != 0;
        let excepts = self.excepts.is_asked != 0;
        self.fast_path = if is_unusual || self.dry_run == DRY_RUN {
            FastPath::None
        } else if excepts || self.reads == READS_WHOLE {
            FastPath::Any
        } else if self.reads == READS_PORTS || asks_source {
            FastPath::Ports
        } else if rules <= 1 && !self.classifies() {
            FastPath::Simple
        } else {
            FastPath::Sources
        } as u32;
        self
    }
}

/// In [`Globals::reads`]: the source address, the IP version and the length.
pub const READS_SOURCE: u32 = 0;
/// Beside these the transport and its ports, by which rules match; keys are made of the source alone.
pub const READS_PORTS: u32 = 1;
/// All of it.
pub const READS_WHOLE: u32 = 2;

/// In [`Globals::dry_run`]: time and length come from a map, and what was found in the packet goes into one.
pub const DRY_RUN: u32 = 1;

/// In [`Globals::dry_run`]: the time comes from a map, and all else is as without.
pub const TEST_CLOCK: u32 = 2;

/// One limit, compiled: that of a rule, of one of a rule's prefix lengths, or of a rule's new sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CompiledRule {
    /// The limit.
    pub limit: Limit,
    /// What makes the key, for IPv4 and IPv6.
    pub masks: [KeyMask; 2],
    /// Its number; with the address family the tag of its buckets.
    pub number: u32,
    /// The number under which its packets are counted, as the map of counters is asked for it.
    pub counters: u32,
    /// The bits of all parts of the rule.
    pub group: u64,
    /// 1 if this is the first part of the rule: the one that counts what passes.
    pub is_first: u32,
    /// What a packet costs: [`TAKES_PACKETS`], [`TAKES_BYTES`] or [`TAKES_ONE`].
    pub takes: u32,
    /// Where the limit of its new sources is, or 0.
    pub new_sources: u32,
    /// Where the limit of denied packets is whose excess bans, or 0: then each denied packet bans.
    pub ban: u32,
    /// How long a source is banned, if any is.
    pub ban_terms: BanSchedule,
    /// Who bans: what [`crate::bans::BanRecord::maker`] has of this rule.
    pub ban_maker: u64,
    /// How many bits of an IPv4 and of an IPv6 source a ban has.
    pub ban_bits: [u64; 2],
}

/// A packet costs one, and a frame that several were joined to as many.
pub const TAKES_PACKETS: u32 = 0;
/// A packet costs its bytes.
pub const TAKES_BYTES: u32 = 1;
/// Every frame costs one.
pub const TAKES_ONE: u32 = 2;

impl CompiledRule {
    /// The tag of the buckets of the rule with this number.
    #[must_use]
    #[inline(always)]
    pub const fn tag_of(number: u64, family: Flag) -> Tag {
        Tag::new((number << 1 | family) as u16)
    }

    /// The number of the rule whose buckets have this tag.
    #[must_use]
    #[inline(always)]
    pub const fn number_of(tag: Tag) -> u64 {
        tag.number() as u64 >> 1
    }
}

/// What a dry run is told, and what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DryRun {
    /// CLOCK_MONOTONIC in nanoseconds.
    pub clock: u64,
    /// The frame's length on the wire if not all of it is there, else 0.
    pub wire_length: u64,
    /// The rules that matched and did not except it.
    pub matching: u64,
    /// The rules that would have matched if they did not except it.
    pub excepted: u64,
    /// Those that denied it, as far as they were asked.
    pub denied: u64,
    /// The [`Reason`].
    pub reason: u64,
    /// What the parser found; unless it is not IP.
    pub packet: Packet,
}

const _: () = {
    assert!(size_of::<Counter>() == 16);
    assert!(size_of::<Sampled>() == 40);
    assert!(size_of::<DropEvent>() == 72);
    assert!(size_of::<EventCounters>() == 24);
    assert!(size_of::<sketch::SketchSet>() == 512);
    assert!(size_of::<RuleCounters>() == 32);
    assert!(size_of::<TableCounters>() == 32);
    assert!(size_of::<SetWords>() == 128);
    assert!(size_of::<BanRecord>() == 32);
    assert!(size_of::<BanSchedule>() == 40);
    assert!(size_of::<Secret>() == 32);
    assert!(size_of::<Conditions>() == 48);
    assert!(size_of::<Globals>() == 128 + 2 * 48 + 12 * 4);
    assert!(size_of::<KeyMask>() == 64);
    assert!(size_of::<CompiledRule>() == 88 + 2 * 64 + 48 + 48);
    assert!(size_of::<DryRun>() == 48 + size_of::<Packet>());
};
