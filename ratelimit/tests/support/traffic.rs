//! Random rules and random frames, and what a plain loop over the rules says of them.

use std::{net::IpAddr, num::NonZeroU64, ops::RangeInclusive};

use ratelimit::policy::{
    Action, Fragment, IcmpType, Interfaces, IpVersion, LimitUnit, Match, Network, OnExit, OnMalformed,
    PacketKey, PacketLimit, PacketRule, PacketRules, Prefix, PrefixList, TableSize, TcpFlags,
};
use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Rate},
    packet::{self, Packet},
    time::Nanos,
};

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize].clone()
    }

    /// None, one or two, each drawn anew.
    fn few<T>(&mut self, draw: impl Fn(&mut Self) -> T) -> Vec<T> {
        let count = [0, 0, 0, 1, 2][self.below(5) as usize];
        (0..count).map(|_| draw(self)).collect()
    }
}

const PROTOCOLS: [u8; 9] = [6, 17, 1, 58, 132, 33, 136, 47, 50];
const PORTS: [u16; 5] = [53, 80, 443, 8080, 65_535];
const ADDRESSES: [&str; 6] = ["10.0.0.1", "10.0.1.1", "10.1.0.1", "192.0.2.7", "10.0.0.2", "198.51.100.9"];
const ADDRESSES_V6: [&str; 4] = ["fd00::1", "fd00::1:0:0:0:1", "2001:db8::7", "fd00:1::1"];
const PREFIXES: [&str; 9] = [
    "10.0.0.0/8",
    "10.0.0.0/16",
    "10.0.0.0/24",
    "10.0.0.1",
    "0.0.0.0/0",
    "fd00::/16",
    "fd00::/64",
    "fd00::1",
    "::/0",
];

fn range(random: &mut Random, draw: impl Fn(&mut Random) -> u16) -> RangeInclusive<u16> {
    let (one, other) = (draw(random), draw(random));
    if random.one_in(2) { one..=one } else { one.min(other)..=one.max(other) }
}

/// Some prefixes; none at all, as of an empty file; or no condition.
fn few_if_any(random: &mut Random, prefix: impl Fn(&mut Random) -> Prefix) -> Option<Vec<Prefix>> {
    let prefixes = random.few(prefix);
    (!prefixes.is_empty() || random.one_in(8)).then_some(prefixes)
}

fn random_match(random: &mut Random) -> Match {
    let port = |random: &mut Random| random.of(&PORTS);
    let prefix = |random: &mut Random| -> Prefix { random.of(&PREFIXES).parse().unwrap() };
    let version = |random: &mut Random| random.of(&[IpVersion::V4, IpVersion::V6]);
    Match {
        protocols: random.few(|random| random.of(&PROTOCOLS)),
        sources: few_if_any(random, prefix),
        destinations: few_if_any(random, prefix),
        source_ports: random.few(|random| range(random, port)),
        destination_ports: random.few(|random| range(random, port)),
        tcp_flags: random
            .one_in(4)
            .then(|| TcpFlags { set: random.of(&[2, 18, 16, 1]), unset: random.of(&[0, 16, 4]) & !2 })
            .filter(|flags| flags.set & flags.unset == 0),
        icmp_types: if random.one_in(4) {
            vec![IcmpType { version: version(random), number: random.of(&[0, 8, 128, 3]) }]
        } else {
            Vec::new()
        },
        fragments: random.few(|random| random.of(&[Fragment::No, Fragment::First, Fragment::Later])),
        vlans: random.few(|random| range(random, |random| random.of(&[0, 7, 100, 4_094]))),
        lengths: random.few(|random| range(random, |random| random.below(200) as u16)),
        ip_version: random.one_in(5).then(|| version(random)),
    }
}

/// A condition of which most packets fulfil some.
fn random_except(random: &mut Random) -> Match {
    let Match { protocols, sources, destinations, destination_ports, tcp_flags, fragments, lengths, .. } =
        random_match(random);
    match random.below(5) {
        0 => Match { sources, ..Match::default() },
        1 => Match { destinations, lengths, ..Match::default() },
        2 => Match { destination_ports, tcp_flags, ..Match::default() },
        3 => Match { protocols, fragments, ..Match::default() },
        _ => random_match(random),
    }
}

/// Up to `most` rules that deny nothing.
pub fn random_network(random: &mut Random, most: u64) -> Network {
    let count = 1 + random.below(most);
    let mut left = PacketRules::MOST as u64 - count;
    let rules = (0..count).map(|index| {
        let wanted = random.of(&[0_u64, 0, 1, 1, 2, 4]);
        let further = left.min(wanted.saturating_sub(1));
        left -= further;
        let except = (0..wanted.min(1) + further).map(|_| random_except(random)).collect();
        PacketRule { except, ..rule(&format!("rule-{index}"), random_match(random)) }
    });
    network(rules.collect())
}

/// A rule that denies nothing.
pub fn rule(name: &str, matches: Match) -> PacketRule {
    let rate = Rate { amount: NonZeroU64::new(100_000_000).unwrap(), per: Nanos::SECOND };
    PacketRule {
        name: name.parse().unwrap(),
        matches,
        except: Vec::new(),
        key: PacketKey::default(),
        limit: PacketLimit::new(LimitSpec::new(Algorithm::TokenBucket, rate), LimitUnit::Packets).unwrap(),
        action: Action::Drop,
        new_sources: None,
        ban: None,
    }
}

/// These rules, all else at its default.
pub fn network(rules: Vec<PacketRule>) -> Network {
    Network {
        interfaces: Interfaces::default(),
        left_out: Interfaces::default(),
        allow: PrefixList::default(),
        deny: PrefixList::default(),
        lists: Vec::new(),
        table: TableSize::at_least(1 << 15).unwrap(),
        on_exit: OnExit::Detach,
        on_malformed: OnMalformed::Pass,
        rules: PacketRules::new(rules).unwrap(),
    }
}

/// The bits of the rules that judge a packet, and of those that except it, by asking one after the other.
pub fn plain_loop(rules: &PacketRules, packet: &Packet, length: u64) -> [u64; 2] {
    let mut sets = [0; 2];
    for (bit, rule) in rules.iter().enumerate() {
        let is_excepted = rule.except.iter().any(|except| is_match(except, packet, length, false));
        sets[usize::from(is_excepted)] |= u64::from(is_match(&rule.matches, packet, length, true)) << bit;
    }
    sets
}

/// `unknown`: what holds for what can't be told of the packet.
fn is_match(wanted: &Match, packet: &Packet, length: u64, unknown: bool) -> bool {
    let version = if packet.source.family == 0 { IpVersion::V4 } else { IpVersion::V6 };
    let fragment = [Fragment::No, Fragment::First, Fragment::Later][packet.fragment as usize];
    let protocol = match packet.protocol {
        packet::UNKNOWN_PROTOCOL => unknown || wanted.protocols.is_empty(),
        known => any(&wanted.protocols, |&protocol| u32::from(protocol) == known),
    };
    let holds = |address: IpAddr| move |prefix: &Prefix| prefix.contains(&host(address));
    let port = |wanted: &[RangeInclusive<u16>], port: u32| match port {
        packet::NO_PORT => wanted.is_empty(),
        packet::UNKNOWN_PORT => unknown || wanted.is_empty(),
        port => any(wanted, |range| range.contains(&(port as u16))),
    };
    let flags = match packet.tcp_flags {
        packet::NO_FLAGS => wanted.tcp_flags.is_none(),
        packet::UNKNOWN_FLAGS => unknown || wanted.tcp_flags.is_none(),
        flags => wanted.tcp_flags.is_none_or(|wanted| wanted.matches(flags as u8)),
    };
    let kind = match packet.icmp_type {
        packet::NO_TYPE => wanted.icmp_types.is_empty(),
        packet::UNKNOWN_TYPE => unknown || wanted.icmp_types.is_empty(),
        kind => any(&wanted.icmp_types, |wanted| {
            (wanted.version == IpVersion::V6) == (kind >= packet::ICMPV6_TYPE) && wanted.number == kind as u8
        }),
    };
    protocol
        && listed(wanted.sources.as_ref(), holds(packet.source.to_ip()))
        && listed(wanted.destinations.as_ref(), holds(packet.destination.to_ip()))
        && port(&wanted.source_ports, packet.source_port)
        && port(&wanted.destination_ports, packet.destination_port)
        && flags
        && kind
        && any(&wanted.fragments, |&wanted| wanted == fragment)
        && any(&wanted.vlans, |ids| {
            packet.vlans.iter().any(|&id| id != packet::NO_VLAN && ids.contains(&(id as u16)))
        })
        && any(&wanted.lengths, |lengths| lengths.contains(&u16::try_from(length).unwrap_or(u16::MAX)))
        && wanted.ip_version.is_none_or(|wanted| wanted == version)
}

/// A list of prefixes that is there and empty, as a file may be, has no address.
fn listed(wanted: Option<&Vec<Prefix>>, matches: impl Fn(&Prefix) -> bool) -> bool {
    wanted.is_none_or(|wanted| wanted.iter().any(matches))
}

fn any<T>(wanted: &[T], matches: impl Fn(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(matches)
}

/// A frame, mostly a whole one.
pub fn random_frame(random: &mut Random) -> Vec<u8> {
    let mut frame = vec![0; 12];
    for _ in 0..random.below(11) {
        if random.one_in(4) {
            frame.extend(random.of(&[[0x81, 0], [0x88, 0xa8]]));
            let id = random.of(&[0_u16, 0, 0, 7, 100, 4_094]) | (random.below(16) as u16) << 12;
            frame.extend(id.to_be_bytes());
        }
    }
    if random.one_in(2) {
        ipv4(random, &mut frame)
    } else {
        ipv6(random, &mut frame)
    }
    frame.resize(frame.len() + random.below(64) as usize, 0);
    if random.one_in(6) {
        frame.truncate(random.below(frame.len() as u64 + 1) as usize);
    }
    frame
}

fn ipv4(random: &mut Random, frame: &mut Vec<u8>) {
    let options = if random.one_in(4) { random.below(11) as usize } else { 0 };
    let protocol = random.of(&PROTOCOLS);
    let transport = transport(random, protocol);
    let total = 20 + options * 4 + transport.len();
    let total = if random.one_in(8) { random.below(80) as usize } else { total };
    let words = if random.one_in(16) { random.below(16) as u8 } else { 5 + options as u8 };
    frame.extend([8, 0, 0x40 | words, 0]);
    frame.extend((total as u16).to_be_bytes());
    let fragment = random.of(&[0_u16, 0x4000, 0, 0x2000, 0x2010, 0x0001]);
    frame.extend([0, 0]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, protocol, 0, 0]);
    for _ in 0..2 {
        let address: std::net::Ipv4Addr = random.of(&ADDRESSES).parse().unwrap();
        frame.extend(address.octets());
    }
    frame.resize(frame.len() + options * 4, 1);
    frame.extend(transport);
}

fn ipv6(random: &mut Random, frame: &mut Vec<u8>) {
    let protocol = random.of(&PROTOCOLS);
    let headers: Vec<u8> = (0..if random.one_in(2) { random.below(11) } else { 0 })
        .map(|_| random.of(&[0, 43, 44, 51, 60]))
        .collect();
    let mut payload = Vec::new();
    for (index, &header) in headers.iter().enumerate() {
        payload.push(headers.get(index + 1).copied().unwrap_or(protocol));
        match header {
            44 => {
                let position = random.of(&[0_u16, 1, 0, 8, 9]);
                payload.push(0);
                payload.extend(position.to_be_bytes());
                payload.extend([0; 4]);
            }
            51 => payload.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            _ => {
                let units = if random.one_in(12) { random.below(256) } else { random.below(2) } as usize;
                payload.push(units as u8);
                payload.resize(payload.len() + 6 + units.min(1) * 8, 0);
            }
        }
    }
    payload.extend(transport(random, protocol));
    let length = if random.one_in(8) { random.below(60) } else { payload.len() as u64 };
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((length as u16).to_be_bytes());
    frame.extend([headers.first().copied().unwrap_or(protocol), random.of(&[64, 255])]);
    for _ in 0..2 {
        let address: std::net::Ipv6Addr = random.of(&ADDRESSES_V6).parse().unwrap();
        frame.extend(address.octets());
    }
    frame.extend(payload);
}

fn transport(random: &mut Random, protocol: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    if matches!(protocol, 1 | 58) {
        bytes.extend([random.of(&[0, 3, 8, 128, 135]), 0, 0, 0, 0, 0, 0, 0]);
    } else {
        bytes.extend(random.of(&PORTS).to_be_bytes());
        bytes.extend(random.of(&PORTS).to_be_bytes());
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, random.of(&[2, 18, 16, 17, 4]), 0, 0, 0, 0, 0, 0]);
    }
    bytes
}

fn host(address: IpAddr) -> Prefix {
    Prefix::new(address, if address.is_ipv4() { 32 } else { 128 }).unwrap()
}
