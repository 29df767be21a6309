//! The fast and the slow path of a packet judge alike: random rules, packets and times, judged by a generation that
//! takes the fast path wherever it can and by one that never does. Verdicts, counters and buckets are the same.

use ratelimit::{
    compile::Compiled,
    config,
    dataplane::{PacketPaths, ProgramGeneration},
};
use ratelimit_common::time::Nanos;

use crate::{daemon, net, offline, packets::*};

const MADE: offline::Made =
    offline::Made { monotonic: Nanos(1_000_000_000_000), unix: Nanos(1_700_000_000_000_000_000) };

const GENERATIONS: usize = 60;
const PACKETS: usize = 400;

#[test]
fn the_fast_and_the_slow_path_say_the_same() {
    net::isolated(|| {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..GENERATIONS {
            let (network, rules) = configuration(&mut random);
            let compiled = compiled(&network, &rules);
            let sets = compiled.globals.set_mask as u32 + 1;
            let mut pair = [PacketPaths::All, PacketPaths::Slow]
                .map(|ways| ProgramGeneration::load_with_clock(&compiled, ways).unwrap());
            let mut clock = MADE.monotonic.0 + 1 + random.below(1 << 40);
            for packet in 0..PACKETS {
                let scale = random.below(32);
                clock += random.below(1 << scale);
                let frame = frame(&mut random);
                let [fast, slow] = pair.each_mut().map(|each| {
                    each.set_clock(Nanos(clock)).unwrap();
                    each.judge(&frame, 1).unwrap().passed
                });
                assert_eq!(fast, slow, "packet {packet}, {frame:x?} at {clock} under {network:?} {rules:#?}");
            }
            let [fast, slow] = pair.each_ref().map(|each| each.traces(sets).unwrap());
            assert_eq!(fast, slow, "what is left under {network:?} {rules:#?}");
        }
    });
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

/// What rules there are, since some have a fast path of their own.
#[derive(Clone, Copy, PartialEq)]
enum Rules {
    /// One, about all packets.
    One,
    /// Rules that match by the source, the transport, its ports and the length, and whose keys are made of the source.
    Ports,
    Any,
}

/// Lists and the rest, and rules.
fn configuration(random: &mut Random) -> (Vec<&'static str>, Vec<String>) {
    let lists = ["allow: [10.1.0.7, \"fd00:0:0:7::/64\"]", "deny: [10.1.0.8/31]", "on_malformed: drop"];
    let lists = lists.into_iter().filter(|_| random.below(4) == 0);
    let network = ["table_size: 32768"].into_iter().chain(lists).collect();
    let kind = random.one_of(&[Rules::One, Rules::Ports, Rules::Any]);
    let count = match kind {
        Rules::One => 1,
        Rules::Ports => 1 + random.below(4),
        Rules::Any => 1 + random.below(12),
    };
    let rules = (0..count).map(|index| rule(random, index, kind)).collect();
    (network, rules)
}

fn rule(random: &mut Random, index: u64, kind: Rules) -> String {
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
    let keys = ["source", "{source: {ipv4: 24, ipv6: 48}}", "{source: {ipv4: {32: 1, 24: 2}}}"];
    let more = ["destination", "source_destination", "flow", "global"];
    let key = match kind {
        Rules::One => random.one_of(&keys[..2]),
        Rules::Ports => random.one_of(&keys),
        Rules::Any => random.one_of(&[&keys[..], &more].concat()),
    };
    let by_ports = [
        "protocol: udp",
        "destination_port: [8192]",
        "source_port: [1-5000]",
        "source: [10.1.0.0/28, \"fd00::/16\"]",
        "length: 60-90",
        "ip_version: 4, destination_port: [0-9000]",
    ];
    let by_others = [
        "protocol: tcp, tcp_flags: [syn]",
        "destination: [10.0.0.0/8]",
        "vlan: [1-100]",
        "ip_version: 4, fragment: [no]",
    ];
    let matches = match kind {
        Rules::Any => random.one_of(&[&by_ports[..], &by_others].concat()),
        _ => random.one_of(&by_ports),
    };
    let matches = match kind {
        Rules::One => String::new(),
        _ if random.below(2) == 0 => String::new(),
        _ => format!(", match: {{{matches}}}"),
    };
    let action = random.one_of(&["", "", "", ", action: observe"]);
    let new_sources = if key == "global" { "" } else { random.one_of(&["", "", "", ", new_sources: 20/s"]) };
    let ban = if action.is_empty() && keys.contains(&key) {
        random.one_of(&["", "", "", ", ban: {after: 5, within: 1s, for: 2s}"])
    } else {
        ""
    };
    format!("{{name: r{index}, key: {key}, {limit}{matches}{action}{new_sources}{ban}}}")
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
    let mut frame = if random.below(8) == 0 { random.one_of(&unusual) } else { random.one_of(&usual) };
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
