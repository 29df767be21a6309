//! The stages of a packet as the XDP program has them, over the memory of this process: needs no rights.

use std::{
    cell::Cell,
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use ratelimit_common::{
    bans::BanPrefix,
    classify::{self, Dimension, Exceptions, Tables, judging},
    lists::{self, Listed},
    packet::{self, Address, Flag},
    pipeline::{
        Evaluation, FrameSize, Hooks, PacketContext,
        bucket::{self, BucketOp, BucketResult},
        stages,
    },
    time::{Nanos, Now},
    wire::{CompiledRule, Globals, KeyMask, Reason},
};

use super::{
    FrameEngine, FrameVerdict,
    bans::SimulatedBans,
    table::{FixedSet, FixedTable},
};
use crate::{
    compile::{AddressConditions, Compiled},
    dataplane,
};

/// The rules of a network, and their buckets.
#[derive(Debug)]
pub struct HostEngine {
    compiled: Compiled,
    table: FixedTable,
    bans: SimulatedBans,
    addresses: [LongestPrefixes<[u64; 2]>; 2],
    /// The time of the packet that is being judged.
    now: Cell<Now>,
    /// The bits of the rules that have denied it.
    denied: Cell<u64>,
}

impl HostEngine {
    /// With an empty table.
    #[must_use]
    pub fn new(compiled: Compiled) -> Self {
        let sets = compiled.globals.set_mask as usize + 1;
        Self {
            table: FixedTable::new(sets, &compiled.limits),
            bans: SimulatedBans::new(compiled.globals.bans != 0, compiled.globals.secret),
            addresses: [conditions(&compiled.prefixes[0]), conditions(&compiled.prefixes[1])],
            now: Cell::new(Now(Nanos(0))),
            denied: Cell::new(0),
            compiled,
        }
    }
}

fn conditions(prefixes: &AddressConditions) -> LongestPrefixes<[u64; 2]> {
    let sets_v4 = prefixes.v4.iter().map(|&(address, length, set)| (v4(address), length, set));
    let sets_v6 = prefixes.v6.iter().map(|&(address, length, set)| (v6(address), length, set));
    LongestPrefixes::new(sets_v4, sets_v6)
}

fn v4(address: [u8; 4]) -> u128 {
    u128::from(u32::from_be_bytes(address)) << 96
}

fn v6(address: [u8; 16]) -> u128 {
    u128::from_be_bytes(address)
}

/// Values of the longest prefixes, for each family.
#[derive(Debug)]
struct LongestPrefixes<V>([BTreeMap<Reverse<u8>, HashMap<u128, V>>; 2]);

impl<V: Copy> LongestPrefixes<V> {
    fn new(v4: impl Iterator<Item = (u128, u8, V)>, v6: impl Iterator<Item = (u128, u8, V)>) -> Self {
        let mut lengths = [BTreeMap::new(), BTreeMap::new()];
        let [lengths_v4, lengths_v6] = &mut lengths;
        let add = |lengths: &mut BTreeMap<_, HashMap<_, _>>, (bits, length, value)| {
            lengths.entry(Reverse(length)).or_default().insert(bits & mask(length), value);
        };
        v4.for_each(|prefix| add(lengths_v4, prefix));
        v6.for_each(|prefix| add(lengths_v6, prefix));
        Self(lengths)
    }

    fn get(&self, address: &Address) -> Option<V> {
        let bits = u128::from(address.bits[0]) << 64 | u128::from(address.bits[1]);
        let lengths = &self.0[usize::from(address.family != 0)];
        lengths.iter().find_map(|(Reverse(length), values)| values.get(&(bits & mask(*length))).copied())
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or_default()
}

impl HostEngine {
    fn row(&self, dimension: Dimension, row: u64) -> Option<u64> {
        let table = self.compiled.tables.iter().find(|table| table.dimension == dimension)?;
        table.rows.get(row as usize).copied()
    }

    fn sets(&self, direction: usize, address: &Address) -> [u64; 2] {
        self.addresses[direction].get(address).unwrap_or(self.compiled.prefixes[direction].any)
    }
}

/// What rules match.
impl Tables for &HostEngine {
    fn asks(&self, dimension: Dimension) -> bool {
        self.compiled.globals.matches.dimensions & dimension.bit() != 0
    }

    fn row(&self, dimension: Dimension, row: u64) -> u64 {
        HostEngine::row(self, dimension, row).unwrap_or(self.compiled.globals.matches.rules)
    }

    fn source(&self, address: &Address) -> u64 {
        self.sets(0, address)[0]
    }

    fn destination(&self, address: &Address) -> u64 {
        self.sets(1, address)[0]
    }
}

/// What rules except.
#[derive(Clone, Copy, Debug)]
pub struct Excepts<'h>(&'h HostEngine);

impl Tables for Excepts<'_> {
    fn asks(&self, dimension: Dimension) -> bool {
        self.0.compiled.globals.excepts.dimensions & dimension.bit() != 0
    }

    fn row(&self, dimension: Dimension, row: u64) -> u64 {
        self.0.row(dimension, row + u64::from(dimension.rows())).unwrap_or_default()
    }

    fn source(&self, address: &Address) -> u64 {
        self.0.sets(0, address)[1]
    }

    fn destination(&self, address: &Address) -> u64 {
        self.0.sets(1, address)[1]
    }
}

impl Exceptions for Excepts<'_> {
    fn further(&self) -> u64 {
        self.0.compiled.globals.further_excepts
    }

    fn rules_of(&self, row: u64) -> u64 {
        self.0.compiled.further_excepts[row as usize]
    }
}

impl<'t> Hooks for &'t HostEngine {
    type Set = FixedSet<'t>;
    type Excepts = Excepts<'t>;

    fn globals<'h>(self) -> &'h Globals
    where
        Self: 'h,
    {
        &self.compiled.globals
    }

    fn excepts(self) -> Excepts<'t> {
        Excepts(self)
    }

    fn rule<'h>(self, index: u64) -> &'h CompiledRule
    where
        Self: 'h,
    {
        &self.compiled.limits[index as usize]
    }

    fn key_mask(self, rule: &CompiledRule, family: Flag) -> &KeyMask {
        &rule.masks[usize::from(family != 0)]
    }

    fn index_of(self, bit: u64) -> u64 {
        bit.trailing_zeros().into()
    }

    fn set(self, bits: u64) -> Option<FixedSet<'t>> {
        Some(self.table.set(bits))
    }

    fn now(self) -> Now {
        self.now.get()
    }

    fn listed(self, source: &Address) -> Listed {
        let lists = &self.compiled.lists;
        lists::find(lists.words.as_slice(), lists.roots[usize::from(source.family != 0)], source)
    }

    fn is_banned(self, source: &Address) -> bool {
        self.bans.contains(source, self.now())
    }

    fn repeat<T, F: Fn(&mut T) -> bool + Copy>(self, most: u32, carried: &mut T, turn: F) {
        let _ = (0..most).all(|_| turn(carried));
    }

    fn attempt(self, what: BucketOp, context: &PacketContext, index: u64) -> BucketResult {
        bucket::attempt(self, &&self.table, what, context, index)
    }

    fn ban(self, context: &PacketContext, index: u64) {
        let (rule, source) = (self.rule(index), context.address());
        let prefix = BanPrefix::of_banned(&source, rule.ban_bits[usize::from(source.family != 0)]);
        self.bans.add(&prefix, context.now, &rule.ban_terms);
    }

    fn count_rule(self, _rule: &CompiledRule, _dropped: bool, _size: FrameSize) {}

    fn count_observed(self, _rule: &CompiledRule, _size: FrameSize) {}

    fn discount_rule(self, _rule: &CompiledRule, _size: FrameSize) {}

    fn on_exhausted_tries(self) {}

    fn note_denied(self, rules: u64) {
        self.denied.set(self.denied.get() | rules);
    }
}

impl FrameEngine for HostEngine {
    fn judge(
        &mut self,
        frame: &[u8],
        wire_length: u64,
        time: Nanos,
    ) -> Result<FrameVerdict, dataplane::Error> {
        let packet = match packet::parse(frame) {
            Ok(packet) => packet,
            Err(not_ip) => {
                let reason = Reason::of_not_ip(not_ip.hides);
                return Ok(FrameVerdict { packet: Err(not_ip), matching: 0, excepted: 0, denied: 0, reason });
            }
        };
        self.now.set(Now(time));
        self.denied.set(0);
        let host = &*self;
        let excepting = host.compiled.globals.excepting;
        let matching = judging(&host, &host.excepts(), excepting, &packet, wire_length);
        let excepted = classify::matching(&host, &packet, wire_length) & !matching;
        let mut evaluation = Evaluation::of_size(FrameSize(wire_length & FrameSize::BYTES));
        let early = stages::examine(host, &packet, &mut evaluation, || matching);
        let reason = early.reason().or_else(|| stages::judge(host, early, &mut evaluation).reason());
        Ok(FrameVerdict {
            packet: Ok(packet),
            matching,
            excepted,
            denied: self.denied.get(),
            reason: reason.unwrap_or(Reason::Limited),
        })
    }
}
