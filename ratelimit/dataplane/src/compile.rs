//! From a policy to what the XDP program is loaded with. Pure: the table's facts and the limits' numbers come in.

mod lists;
mod tables;

use ratelimit_common::{
    bans::BanSchedule,
    classify::{Dimension, ROWS_OF_FURTHER},
    limit::Limit,
    packet::LinkLayer,
    table::{Keyed, Secret},
    time::Nanos,
    wire::{self, Globals, KeyMask, RULE_NUMBERS},
};

pub use self::{
    lists::{CompiledLists, listed, lists},
    tables::{AddressConditions, DimensionTable, PrefixSets, Side},
};
use crate::bans::number_of;
use crate::policy::{self, Action, LimitUnit, Network, OnMalformed, PacketKey, PacketRule, PacketRules};

/// What all generations over one table have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFacts {
    /// When it was made, on CLOCK_MONOTONIC.
    pub made_at: Nanos,
    /// The same moment, since the Unix epoch: windows align to that.
    pub made_at_unix: Nanos,
    /// What its keys are permuted with.
    pub secret: Secret,
    /// A power of two.
    pub sets: u32,
}

/// A generation of the XDP program, but for its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Its constants.
    pub globals: Globals,
    /// Its limits: those of the rules, whose places are the bits of the sets in the tables, then those of new sources.
    pub limits: Vec<wire::CompiledRule>,
    /// For each number, where in `limits` it is, plus one.
    pub index: [u8; RULE_NUMBERS],
    /// Which rules exceptions are of that are not the first of their rules.
    pub further_excepts: Box<[u64; ROWS_OF_FURTHER]>,
    /// The classification tables.
    pub tables: Vec<DimensionTable>,
    /// The conditions on the source and on the destination address.
    pub prefixes: [AddressConditions; 2],
    /// The allow and the deny list.
    pub lists: CompiledLists,
}

/// What has buckets, and so a number: each part of each rule, then the new sources of each rule that caps them, then
/// the denied packets of each part of a rule that bans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BucketOwner<'p> {
    /// A part of a rule.
    Part(&'p PacketRule, &'p policy::RulePart),
    /// The new sources of a rule.
    NewSources(&'p PacketRule, &'p Limit),
    /// The denied packets of a part of a rule.
    Denied(&'p PacketRule, &'p policy::RulePart, &'p Limit),
}

/// All that have buckets, in the order of [`Compiled::limits`].
pub fn owners(rules: &PacketRules) -> impl Iterator<Item = BucketOwner<'_>> {
    let parts = rules.parts().iter();
    let parts = parts.filter_map(|part| rules.get(part.rule).map(|rule| BucketOwner::Part(rule, part)));
    let new_sources = rules.iter().filter_map(|rule| {
        rule.new_sources.as_ref().map(|limit| BucketOwner::NewSources(rule, limit.compiled()))
    });
    let denied = banning_parts(rules).map(|(rule, part, limit)| BucketOwner::Denied(rule, part, limit));
    parts.chain(new_sources).chain(denied)
}

/// The parts whose denied packets are counted, with the limit on these.
fn banning_parts(rules: &PacketRules) -> impl Iterator<Item = (&PacketRule, &policy::RulePart, &Limit)> {
    rules.parts().iter().filter_map(|part| {
        let rule = rules.get(part.rule)?;
        Some((rule, part, rule.ban.as_ref()?.limit()?.compiled()))
    })
}

/// Compiles the rules of `network`. The owner at `i` has the number `numbers[i]`.
#[must_use]
pub fn compile(network: &Network, table: &TableFacts, numbers: &[u32]) -> Compiled {
    let rules = &network.rules;
    let limits: Vec<wire::CompiledRule> = owners(rules)
        .zip(numbers)
        .map(|(owner, &number)| match owner {
            BucketOwner::Part(_, part) => compile_part(rules, part, numbers, table),
            // One frame makes one bucket, however many packets were joined to it.
            BucketOwner::NewSources(_, limit) => {
                let new_sources =
                    counting(masks(&PacketKey::Global, None, number, table), limit, number, table);
                wire::CompiledRule { takes: wire::TAKES_ONE, ..new_sources }
            }
            BucketOwner::Denied(rule, part, limit) => {
                counting(masks(&rule.key, Some(part), number, table), limit, number, table)
            }
        })
        .collect();
    let bits = |wanted: &dyn Fn(&PacketRule, &policy::RulePart) -> bool| {
        let parts = rules.parts().iter().enumerate();
        let is_wanted = |part: &policy::RulePart| rules.get(part.rule).is_some_and(|rule| wanted(rule, part));
        parts.fold(0, |set, (bit, part)| set | u64::from(is_wanted(part)) << bit)
    };
    let is_dropping = |rule: &PacketRule| rule.action == Action::Drop;
    let (tables, dimensions) = tables::tables(rules);
    let prefixes = tables::prefixes(rules);
    let lists = lists(&network.allow, &network.deny);
    let all_of_sides = Side::BOTH.map(|side| tables::all(side, rules));
    let [all, _] = all_of_sides;
    let flag = u32::from;
    let globals = Globals {
        epoch: table.made_at.0,
        set_mask: u64::from(table.sets - 1),
        secret: table.secret,
        matches: conditions(Side::Matches, rules, dimensions[0], &prefixes),
        excepts: conditions(Side::Excepts, rules, dimensions[1], &prefixes),
        of_version: tables.iter().find_map(DimensionTable::of_versions).unwrap_or([all; 2]),
        excepting: tables::excepting(rules),
        further_excepts: tables::further_excepts(rules).iter().fold(0, |set, further| set | further.bit),
        enforced: bits(&|rule, _| is_dropping(rule)),
        counts_denied: bits(&|rule, part| is_dropping(rule) && part.limit.counts_denied()),
        listed: lists.roots,
        drop_malformed: flag(network.on_malformed == OnMalformed::Drop),
        observes_groups: flag(bits(&|rule, part| !is_dropping(rule) && !part.is_first) != 0),
        dry_run: 0,
        random_sources: 0,
        has_lists: flag(lists.roots.iter().any(|root| root.step != 0)),
        // Also where a list of destinations is empty, so that there is no prefix.
        reads: reads(&tables, prefixes[1].any != all_of_sides, &limits),
        bans: flag(rules.iter().any(|rule| rule.ban.is_some())),
        is_on_trial: 0,
        samples: 1,
        link: LinkLayer::Ethernet as u32,
        joins: 0,
        fast_path: 0,
    };
    let further_excepts = tables::rows_of_further(rules);
    Compiled { globals, index: index(&limits), limits, further_excepts, tables, prefixes, lists }
}

/// What one side of all rules asks about.
fn conditions(
    side: Side,
    rules: &PacketRules,
    dimensions: u32,
    prefixes: &[AddressConditions; 2],
) -> wire::Conditions {
    let all = tables::all(side, rules);
    let place = usize::from(side == Side::Excepts);
    let any_address = [0, 1].map(|direction: usize| prefixes[direction].any[place]);
    // What is so for all addresses is known without looking them up.
    let asks_about = |direction: usize| {
        let AddressConditions { v4, v6, .. } = &prefixes[direction];
        let is_asked = |sets: [u64; 2]| sets[place] != any_address[direction];
        [v4.iter().any(|prefix| is_asked(prefix.2)).into(), v6.iter().any(|prefix| is_asked(prefix.2)).into()]
    };
    wire::Conditions {
        rules: all,
        any_address,
        sources: asks_about(0),
        destinations: asks_about(1),
        dimensions,
        is_asked: (dimensions != 0 || any_address != [all; 2] || side == Side::Excepts && all != 0).into(),
    }
}

/// What the rules ask of a packet.
fn reads(tables: &[DimensionTable], asks_destination: bool, limits: &[wire::CompiledRule]) -> u32 {
    let asked_by = |table: &DimensionTable| match table.dimension {
        Dimension::Length => wire::READS_SOURCE,
        // Which IP version, but not which fragment.
        Dimension::Kind if table.of_versions().is_some() => wire::READS_SOURCE,
        Dimension::Protocol | Dimension::SourcePort | Dimension::DestinationPort => wire::READS_PORTS,
        _ => wire::READS_WHOLE,
    };
    let has_key = |mask: &KeyMask| mask.destination != [0; 2] || mask.ports != 0;
    if asks_destination || limits.iter().any(|limit| limit.masks.iter().any(has_key)) {
        return wire::READS_WHOLE;
    }
    tables.iter().map(asked_by).max().unwrap_or(wire::READS_SOURCE)
}

fn compile_part(
    rules: &PacketRules,
    part: &policy::RulePart,
    numbers: &[u32],
    table: &TableFacts,
) -> wire::CompiledRule {
    let mut group = (0..).zip(rules.parts()).filter(|(_, other)| other.rule == part.rule).map(|(bit, _)| bit);
    let group_bits = group.clone().fold(0, |set, bit: usize| set | 1 << bit);
    let number = |place: usize| numbers.get(place).copied().unwrap_or_default();
    let place = rules.parts().iter().position(|other| std::ptr::eq(other, part));
    let own = number(place.unwrap_or_default());
    let rule = rules.get(part.rule);
    let new_sources = rule.filter(|rule| part.is_first && rule.new_sources.is_some()).map_or(0, |_| {
        let earlier = rules.iter().take(part.rule).filter(|rule| rule.new_sources.is_some()).count();
        rules.parts().len() + earlier
    });
    let ban = rule.and_then(|rule| rule.ban.as_ref());
    wire::CompiledRule {
        limit: part.limit.aligned(table.made_at_unix),
        masks: rule.map_or([KeyMask::default(); 2], |rule| masks(&rule.key, Some(part), own, table)),
        number: own,
        counters: number(group.next().unwrap_or_default()),
        group: group_bits,
        is_first: part.is_first.into(),
        takes: match rule.map(|rule| rule.limit.unit()) {
            Some(LimitUnit::Bytes) => wire::TAKES_BYTES,
            _ => wire::TAKES_PACKETS,
        },
        new_sources: new_sources as u32,
        ban: ban.and_then(|_| place_of_denied(rules, part)).unwrap_or_default() as u32,
        ban_terms: ban.map_or_else(BanSchedule::default, |ban| ban.terms().for_the_table()),
        ban_maker: rule.map_or(0, |rule| number_of(rule.name.as_str())),
        ban_bits: [part.ipv4, part.ipv6].map(|bits| bits.unwrap_or_default().into()),
    }
}

/// Where the limit on the denied packets of a part is.
fn place_of_denied(rules: &PacketRules, part: &policy::RulePart) -> Option<usize> {
    let earlier = banning_parts(rules).position(|(_, banning, _)| std::ptr::eq(banning, part))?;
    let new_sources = rules.iter().filter(|rule| rule.new_sources.is_some()).count();
    Some(rules.parts().len() + new_sources + earlier)
}

/// A limit on something else than the packets of a rule. All new sources of a rule share one bucket.
fn counting(masks: [KeyMask; 2], limit: &Limit, number: u32, table: &TableFacts) -> wire::CompiledRule {
    wire::CompiledRule {
        limit: limit.aligned(table.made_at_unix),
        masks,
        number,
        counters: number,
        group: 0,
        is_first: 0,
        takes: wire::TAKES_PACKETS,
        new_sources: 0,
        ban: 0,
        ban_terms: BanSchedule::default(),
        ban_maker: 0,
        ban_bits: [0; 2],
    }
}

/// What makes a key, for IPv4 and IPv6, of what has this number.
fn masks(key: &PacketKey, part: Option<&policy::RulePart>, number: u32, table: &TableFacts) -> [KeyMask; 2] {
    let [v4, v6] = part.map_or([None; 2], |part| [part.ipv4, part.ipv6]);
    let lengths = [(32, v4.unwrap_or_default()), (128, v6.unwrap_or_default())];
    [0, 1].map(|family: u64| {
        let (whole, length) = lengths[family as usize];
        let family = if *key == PacketKey::Global { 0 } else { family };
        let keyed = table.secret.keyed(wire::CompiledRule::tag_of(number.into(), family));
        let none = KeyMask { keyed, ..KeyMask::default() };
        match key {
            PacketKey::Global => none,
            PacketKey::Source(_) => source_mask(length, keyed),
            PacketKey::Destination(_) => {
                KeyMask { destination: mask(length), is_hashed: (length > 64).into(), ..none }
            }
            PacketKey::SourceDestination(_) => KeyMask {
                source: mask(length),
                destination: mask(length),
                is_hashed: (length > 32).into(),
                shift: 32,
                ..none
            },
            PacketKey::Flow => KeyMask {
                source: mask(whole),
                destination: mask(whole),
                ports: u64::MAX,
                is_hashed: 1,
                ..none
            },
        }
    })
}

/// What makes the key of a source's prefix of `length` bits.
#[must_use]
pub fn source_mask(length: u8, keyed: Keyed) -> KeyMask {
    KeyMask { source: mask(length), is_hashed: (length > 64).into(), keyed, ..KeyMask::default() }
}

/// The first `length` bits of an address, 0 to 128.
fn mask(length: u8) -> [u64; 2] {
    let bits = u128::MAX.checked_shl(u128::BITS - u32::from(length)).unwrap_or_default();
    [(bits >> 64) as u64, bits as u64]
}

fn index(limits: &[wire::CompiledRule]) -> [u8; RULE_NUMBERS] {
    let mut index = [0; RULE_NUMBERS];
    for (place, limit) in (1..).zip(limits) {
        if let Some(entry) = index.get_mut(limit.number as usize) {
            *entry = place;
        }
    }
    index
}
