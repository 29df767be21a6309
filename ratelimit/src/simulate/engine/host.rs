//! The stages of a packet as the XDP program has them, compiled for the host: needs no rights.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use ratelimit_common::{
    bans,
    classify::{Dimension, Tables, matching},
    lists::{self, Listed},
    packet::{self, Address, Packet},
    table::{self, Attempt, Request},
    time::{Nanos, Now},
    wire::{MOST_RULES, Reason, Rule, TAKES_BYTES},
};

use super::{Engine, Verdict, table::FixedTable};
use crate::{
    compile::{Compiled, Prefixes},
    dataplane,
};

/// The rules of a network, and their buckets.
#[derive(Debug)]
pub struct Host {
    compiled: Compiled,
    table: FixedTable,
    bans: Bans,
    addresses: [Longest<u64>; 2],
}

impl Host {
    /// With an empty table.
    #[must_use]
    pub fn new(compiled: Compiled) -> Self {
        let sets = compiled.globals.set_mask as usize + 1;
        Self {
            table: FixedTable::new(sets, &compiled.limits),
            bans: Bans::default(),
            addresses: [conditions(&compiled.prefixes[0]), conditions(&compiled.prefixes[1])],
            compiled,
        }
    }
}

fn conditions(prefixes: &Prefixes) -> Longest<u64> {
    let sets_v4 = prefixes.v4.iter().map(|&(address, length, set)| (v4(address), length, set));
    let sets_v6 = prefixes.v6.iter().map(|&(address, length, set)| (v6(address), length, set));
    Longest::new(sets_v4, sets_v6)
}

fn v4(address: [u8; 4]) -> u128 {
    u128::from(u32::from_be_bytes(address)) << 96
}

fn v6(address: [u8; 16]) -> u128 {
    u128::from_be_bytes(address)
}

/// Bans by prefix, with the times at which they end.
#[derive(Debug, Default)]
struct Bans(HashMap<([u64; 2], u64, u64), Nanos>);

impl Bans {
    fn contains(&self, source: &Address, now: Nanos) -> bool {
        let of_length = |length| {
            let bits = bans::Prefix::of(source, length).address.bits;
            self.0.get(&(bits, source.family, length)).is_some_and(|end| *end > now)
        };
        let most = if source.family == 0 { 32 } else { 128 };
        !self.0.is_empty() && (1..=most).any(of_length)
    }

    fn add(&mut self, prefix: bans::Prefix, now: Nanos, length: Nanos) {
        let key = (prefix.address.bits, prefix.address.family, prefix.length);
        self.0.insert(key, Nanos(now.0.saturating_add(length.0)));
    }
}

/// Values of the longest prefixes, for each family.
#[derive(Debug)]
struct Longest<V>([BTreeMap<Reverse<u8>, HashMap<u128, V>>; 2]);

impl<V: Copy> Longest<V> {
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

impl Tables for Host {
    fn asks(&self, dimension: Dimension) -> bool {
        self.compiled.globals.dimensions & dimension.bit() != 0
    }

    fn row(&self, dimension: Dimension, row: u64) -> u64 {
        let table = self.compiled.tables.iter().find(|table| table.dimension == dimension);
        table.and_then(|table| table.rows.get(row as usize)).copied().unwrap_or(self.compiled.globals.rules)
    }

    fn source(&self, address: &Address) -> u64 {
        self.addresses[0].get(address).unwrap_or(self.compiled.prefixes[0].any)
    }

    fn destination(&self, address: &Address) -> u64 {
        self.addresses[1].get(address).unwrap_or(self.compiled.prefixes[1].any)
    }
}

impl Engine for Host {
    fn judge(&mut self, frame: &[u8], wire_length: u64, time: Nanos) -> Result<Verdict, dataplane::Error> {
        let packet = match packet::parse(frame) {
            Ok(packet) => packet,
            Err(not_ip) => {
                let reason = Reason::of_not_ip(not_ip.hides);
                return Ok(Verdict { packet: Err(not_ip), matching: 0, denied: 0, reason });
            }
        };
        let matching = matching(self, &packet, wire_length);
        let mut verdict = Verdict { packet: Ok(packet), matching, denied: 0, reason: Reason::Passed };
        let lists = &self.compiled.lists;
        let listed =
            lists::find(lists.words.as_slice(), lists.roots[packet.source.family as usize], &packet.source);
        verdict.reason = if listed == Listed::Allowed {
            Reason::Allowed
        } else if listed == Listed::Denied {
            Reason::Denied
        } else if self.bans.contains(&packet.source, time) {
            Reason::Banned
        } else if packet.is_neighbour_discovery != 0 {
            Reason::NeighbourDiscovery
        } else {
            let mut walk = Walk {
                host: self,
                packet: &packet,
                bytes: wire_length,
                now: Now(time),
                denied: 0,
                ban: None,
            };
            let allowed = walk.allow(matching);
            verdict.denied = walk.denied;
            if let Some((prefix, length)) = walk.ban {
                self.bans.add(prefix, time, length);
            }
            match (allowed, packet.malformed, self.compiled.globals.drop_malformed) {
                (false, _, _) => Reason::Limited,
                (true, 0, _) => Reason::Passed,
                (true, _, 0) => Reason::Malformed,
                (true, _, _) => Reason::MalformedDropped,
            }
        };
        Ok(verdict)
    }
}

/// One packet's way through the rules that it matches.
struct Walk<'h> {
    host: &'h Host,
    packet: &'h Packet,
    bytes: u64,
    now: Now,
    denied: u64,
    ban: Option<(bans::Prefix, Nanos)>,
}

impl<'h> Walk<'h> {
    fn allow(&mut self, matching: u64) -> bool {
        let globals = &self.host.compiled.globals;
        let enforced = self.rules(matching & globals.enforced);
        if let Some(denying) = enforced.iter().find(|rule| !self.ask(rule)) {
            self.denied = denying.group;
            for rule in enforced.iter().filter(|rule| rule.limit.counts_denied()) {
                self.charge(rule);
            }
            self.ban = self.ban_by(denying);
            return false;
        }
        for rule in &enforced {
            self.charge(rule);
        }
        self.observe(matching & !globals.enforced);
        true
    }

    /// The ban that comes of a packet which this rule has denied.
    fn ban_by(&self, rule: &Rule) -> Option<(bans::Prefix, Nanos)> {
        let limit = self.host.compiled.limits.get(rule.ban as usize).filter(|_| rule.ban != 0);
        let is_one_too_many = limit.is_none_or(|limit| !is_allowed(self.take(&self.request(limit))));
        let source = &self.packet.source;
        let bits = rule.ban_bits[usize::from(source.family != 0)];
        (rule.ban_length != 0 && is_one_too_many)
            .then(|| (bans::Prefix::of_banned(source, bits), Nanos(rule.ban_length)))
    }

    /// Rules that observe: each with several parts allows what all of these do.
    fn observe(&mut self, rules: u64) {
        let observing = self.rules(rules);
        for rule in &observing {
            if !self.ask(rule) {
                self.denied |= rule.group;
            }
        }
        let denied = self.denied;
        let is_denied = |rule: &Rule| rule.group & denied != 0;
        for rule in observing.iter().filter(|rule| !is_denied(rule) || rule.limit.counts_denied()) {
            self.charge(rule);
        }
    }

    /// The rules at the places of bits.
    fn rules(&self, bits: u64) -> Vec<&'h Rule> {
        let limits = self.host.compiled.limits.iter().take(MOST_RULES).enumerate();
        limits.filter(|(place, _)| bits >> place & 1 != 0).map(|(_, rule)| rule).collect()
    }

    fn request<'r>(&self, rule: &'r Rule) -> Request<'r> {
        let globals = &self.host.compiled.globals;
        let ports = self.packet.ports();
        let mask = &rule.masks[usize::from(ports.family() != 0)];
        let packet = self.packet;
        let key = mask.key(&globals.secret, packet.source.bits, packet.destination.bits, ports);
        let cost = if rule.takes == TAKES_BYTES { self.bytes as u32 } else { 1 };
        Request { key, limit: &rule.limit, now: self.now, cost }
    }

    /// The limit of a rule's new sources.
    fn new_sources(&self, rule: &Rule) -> Option<&Rule> {
        let limits = &self.host.compiled.limits;
        limits.get(rule.new_sources as usize).filter(|_| rule.new_sources != 0)
    }

    fn ask(&self, rule: &Rule) -> bool {
        let answer = table::peek(&&self.host.table, &self.request(rule));
        let Attempt::Done { allowed, is_new, .. } = answer else { return false };
        let new_sources = self.new_sources(rule).filter(|_| is_new);
        allowed
            && new_sources
                .is_none_or(|limit| is_allowed(table::peek(&&self.host.table, &self.request(limit))))
    }

    fn charge(&self, rule: &Rule) -> bool {
        let request = self.request(rule);
        if let Some(limit) = self.new_sources(rule) {
            if let Some(answer) = table::charge_known(&&self.host.table, &request) {
                return is_allowed(answer);
            }
            if !is_allowed(self.take(&self.request(limit))) {
                return false;
            }
        }
        is_allowed(self.take(&request))
    }

    /// A claim may ask to be repeated.
    fn take(&self, request: &Request<'_>) -> Attempt {
        loop {
            match table::charge(&&self.host.table, request) {
                Attempt::Again => {}
                done => return done,
            }
        }
    }
}

const fn is_allowed(answer: Attempt) -> bool {
    matches!(answer, Attempt::Done { allowed: true, .. })
}
