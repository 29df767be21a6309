//! The fast and the slow path of a packet judge alike: random rules, packets and times, judged by a generation that
//! takes the fast path wherever it can, by one that never does, and by the host's build of the stages, which has each
//! packet read whole. Verdicts, reasons, counters and buckets are the same.

use std::{collections::BTreeMap, fs};

use ratelimit::{
    compile::Compiled,
    config,
    dataplane::{PacketPaths, ProgramGeneration},
    simulate::{FrameEngine as _, HostEngine},
};
use ratelimit_common::{pipeline::FastPath, time::Nanos, wire::Reason};

use crate::{daemon, net, offline, packets::*};

const MADE: offline::Made =
    offline::Made { monotonic: Nanos(1_000_000_000_000), unix: Nanos(1_700_000_000_000_000_000) };

/// As many of each kind of rules.
const GENERATIONS: usize = 12;
const PACKETS: usize = 400;

#[test]
fn the_fast_and_the_slow_path_say_the_same() {
    net::isolated(|| {
        // A list that is meant to be empty.
        fs::write("/run/none.txt", "# nobody\n").unwrap();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut paths = BTreeMap::<u32, usize>::new();
        for kind in [Kind::Simple, Kind::Sources, Kind::Ports, Kind::Any].repeat(GENERATIONS) {
            let (network, rules) = configuration(&mut random, kind);
            let compiled = compiled(&network, &rules);
            *paths.entry(compiled.globals.with_fast_path().fast_path).or_default() += 1;
            judge_all(&mut random, &compiled, &format!("{network:?} {rules:#?}"));
        }
        for path in [FastPath::Simple, FastPath::Sources, FastPath::Ports, FastPath::Any] {
            let generations = paths.get(&(path as u32)).copied().unwrap_or_default();
            assert!(generations >= GENERATIONS / 2, "{path:?}: {generations} generations");
        }
    });
}

/// Has random packets judged by all three.
fn judge_all(random: &mut Random, compiled: &Compiled, rules: &str) {
    let sets = compiled.globals.set_mask as u32 + 1;
    let mut pair = [PacketPaths::All, PacketPaths::Slow]
        .map(|ways| ProgramGeneration::load_with_clock(compiled, ways).unwrap());
    let mut host = HostEngine::new(compiled.clone());
    let mut reasons = Reason::ALL.map(|_| 0);
    let mut clock = MADE.monotonic.0 + 1 + random.below(1 << 40);
    for packet in 0..PACKETS {
        let scale = random.below(32);
        clock += random.below(1 << scale);
        let frame = frame(random);
        let [fast, slow] = pair.each_mut().map(|each| {
            each.set_clock(Nanos(clock)).unwrap();
            each.judge(&frame, 1).unwrap().passed
        });
        let judged = host
            .judge(&frame, frame.len() as u64, Nanos(clock - MADE.monotonic.0))
            .expect("it needs no kernel");
        reasons[judged.reason as usize] += 1;
        let found = [fast, slow, !judged.reason.is_drop()];
        assert!(
            found.iter().all(|passed| *passed == fast),
            "fast, slow and host: {found:?}, {judged:?}: packet {packet}, {frame:x?} at {clock} under {rules}"
        );
    }
    let [fast, slow] = pair.each_ref().map(|each| each.traces(sets).unwrap());
    // All buckets are too many to be shown.
    assert!(fast == slow, "what is left differs under {rules}");
    let counted: Vec<u64> = fast.reasons.iter().map(|count| count.packets).collect();
    assert_eq!(counted, reasons, "reasons under {rules}");
}

fn compiled(network: &[&str], rules: &[String]) -> Compiled {
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let policy = config::load(&daemon::config(network, &rules)).unwrap_or_else(|errors| panic!("{errors}"));
    offline::compiled(&policy.network.expect("a network"), MADE)
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }
}

/// What rules there are: those of each kind take a fast path of their own.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// One about all packets.
    Simple,
    /// Several by source and IP version alone.
    Sources,
    /// Several about sources, transports, their ports and lengths, whose keys are made of the source.
    Ports,
    /// All sorts.
    Any,
}

/// Lists and the rest, and rules.
fn configuration(random: &mut Random, kind: Kind) -> (Vec<&'static str>, Vec<String>) {
    let lists = ["allow: [10.1.0.7, \"fd00:0:0:7::/64\"]", "deny: [10.1.0.8/31]", "on_malformed: drop"];
    let lists = lists.into_iter().filter(|_| random.below(4) == 0);
    let network = ["table_size: 32768"].into_iter().chain(lists).collect();
    let count = if kind == Kind::Simple { 1 } else { 1 + random.below(12) };
    let rules = (0..count).map(|index| rule(random, index, kind)).collect();
    (network, rules)
}

const SOURCES: [&str; 3] = ["source", "{source: {ipv4: 24, ipv6: 48}}", "{source: {ipv4: {32: 1, 24: 2}}}"];

/// What rules of [`Kind::Ports`] match.
const PORTS_ONLY: [&str; 9] = [
    "protocol: udp",
    "protocol: [tcp, icmp]",
    "destination_port: [8192]",
    "source_port: [1-5000]",
    "protocol: udp, destination_port: [53, 8000-9000]",
    "source: [10.1.0.0/28, \"fd00::/16\"]",
    "source: {file: none.txt}, destination_port: 8192",
    "ip_version: 4, destination_port: [0-9000]",
    "length: 60-90",
];

/// What others may match besides.
const MORE: [&str; 9] = [
    "protocol: tcp, tcp_flags: [syn]",
    "destination: [10.0.0.0/8]",
    "destination: [10.1.0.1, \"fd00::/8\"], protocol: udp",
    "destination: {file: none.txt}",
    "vlan: [1-100]",
    "ip_version: 4, fragment: [no]",
    "fragment: [first, later]",
    "icmp_type: echo-request",
    "ip_version: 6, source_port: [53, 4096]",
];

fn rule(random: &mut Random, index: u64, kind: Kind) -> String {
    let limit = random.one_of(&[
        "rate: 100/s, burst: 3",
        "rate: 1k/s",
        "rate: 5/m, burst: 40",
        "rate: 3/s, burst: 2, count_denied: true",
        "rate: 20kB/s, burst: 2kB",
        "rate: 20/s, algorithm: fixed_window",
        "rate: 20/s, algorithm: sliding_window_counter, count_denied: true",
        "rate: 30/s, algorithm: token_bucket, refill: interval",
    ]);
    let of_any = ["destination", "source_destination", "flow", "global"];
    let key = match kind {
        // Several prefix lengths are several rules.
        Kind::Simple => random.one_of(&SOURCES[..2]),
        Kind::Sources | Kind::Ports => random.one_of(&SOURCES),
        Kind::Any => random.one_of(&[&SOURCES[..], &of_any].concat()),
    };
    let condition = |random: &mut Random| match kind {
        Kind::Simple => "",
        Kind::Sources => random.one_of(&["ip_version: 4", "ip_version: 6"]),
        Kind::Ports => random.one_of(&PORTS_ONLY),
        Kind::Any => random.one_of(&[&PORTS_ONLY[..], &MORE].concat()),
    };
    let one_in = |random: &mut Random, count: u64, key: &str| {
        let condition = condition(random);
        let is_there = random.below(count) == 0 && !condition.is_empty();
        if is_there { format!(", {key}: {{{condition}}}") } else { String::new() }
    };
    // The first one says of which kind all are.
    let matches = one_in(random, if index == 0 { 1 } else { 2 }, "match");
    let except = if kind == Kind::Any { one_in(random, 4, "except") } else { String::new() };
    let action = random.one_of(&["", "", "", ", action: observe"]);
    let new_sources = if key == "global" { "" } else { random.one_of(&["", "", "", ", new_sources: 20/s"]) };
    let ban = if action.is_empty() && SOURCES.contains(&key) {
        random.one_of(&["", "", "", ", ban: {after: 5, within: 1s, for: 2s}"])
    } else {
        ""
    };
    format!("{{name: r{index}, key: {key}, {limit}{matches}{except}{action}{new_sources}{ban}}}")
}

/// A few sources, so that buckets are met again; and now and then a packet whose headers are unusual.
fn frame(random: &mut Random) -> Vec<u8> {
    let usual = [
        v4(UDP, &PORTS),
        v4(TCP, &tcp(SYN)),
        v4(TCP, &tcp(ACK)),
        v6(&[], UDP, &PORTS),
        v6(&[], TCP, &tcp(SYN)),
    ];
    let unusual = [
        v4(ICMP, &message(8)),
        v4_with_options(7, UDP, &PORTS),
        fragment(v4(UDP, &PORTS), 0, true),
        fragment(v4(UDP, &PORTS), 5, false),
        v6(&[HOP_BY_HOP, DESTINATION], TCP, &tcp(SYN)),
        v6(&[], ICMPV6, &message(135)),
        v4(TCP, &PORTS[..6]),
        v4(UDP, &PORTS[..2]),
    ];
    let mut frame = if random.below(8) == 0 {
        random.one_of(&unusual)
    } else {
        let mut frame = random.one_of(&usual);
        let ports = if frame[12] == 8 { 34 } else { 54 };
        for at in [ports, ports + 2] {
            frame[at..at + 2].copy_from_slice(&random.one_of(&[53_u16, 4096, 8192]).to_be_bytes());
        }
        frame
    };
    let (host, network) = (random.below(12) as u8, random.below(3) as u8);
    if frame[12] == 8 {
        (frame[28], frame[29], frame[33]) = (network, host, random.below(4) as u8);
    } else {
        (frame[22 + 7], frame[22 + 15], frame[38 + 15]) = (network, host, random.below(4) as u8);
    }
    match random.below(10) {
        0 => tagged(&frame, 5),
        1 => service_tagged(&tagged(&frame, 9), 7),
        2 => frame[..frame.len() - random.below(20).min(frame.len() as u64 - 14) as usize].to_vec(),
        _ => frame,
    }
}
