//! The loaded program and the host's build of it give the same answers: for all captures, whole and cut at any length,
//! and for random rules and packets.

#[path = "../support/captures.rs"]
mod recorded;
#[path = "../support/traffic.rs"]
mod traffic;

use std::{fs, num::NonZeroU64, path::Path};

use ratelimit::{
    policy::{LimitUnit, Match, Network, PacketLimit, PacketRule, TcpFlags},
    simulate::{FrameEngine as _, FrameVerdict, HostEngine, KernelEngine, compile_for},
};
use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Rate},
    time::Nanos,
};

use self::traffic::{Random, plain_loop, random_frame, random_network};
use crate::{frames, net};

/// The same rules, twice.
struct Both {
    host: HostEngine,
    kernel: KernelEngine,
    clock: Nanos,
    last: Option<FrameVerdict>,
}

impl Both {
    fn new(network: &Network) -> Self {
        let compiled = compile_for(network, Nanos(0));
        Self {
            host: HostEngine::new(compiled.clone()),
            kernel: KernelEngine::load(&compiled).unwrap(),
            clock: Nanos(0),
            last: None,
        }
    }

    /// Judges a frame by both, and returns the rules that match.
    fn judge(&mut self, frame: &[u8], wire_length: u64, context: &dyn Fn() -> String) -> u64 {
        self.clock.0 += 1_000;
        let host = self.host.judge(frame, wire_length, self.clock).unwrap();
        let kernel = self.kernel.judge(frame, wire_length, self.clock).unwrap();
        assert_eq!(host, kernel, "{}: {frame:02x?}", context());
        self.last = Some(host);
        host.matching
    }
}

/// Rules that ask about everything.
fn network() -> Network {
    let matches = |change: &dyn Fn(&mut Match)| {
        let mut matches = Match::default();
        change(&mut matches);
        matches
    };
    let prefixes = |texts: &[&str]| Some(texts.iter().map(|text| text.parse().unwrap()).collect());
    traffic::network(vec![
        traffic::rule("all", Match::default()),
        traffic::rule("protocol", matches(&|rule| rule.protocols = vec![17, 132])),
        traffic::rule("ports", matches(&|rule| rule.destination_ports = vec![53..=53, 80..=443])),
        traffic::rule("from", matches(&|rule| rule.source_ports = vec![1024..=65_535])),
        traffic::rule("flags", matches(&|rule| rule.tcp_flags = Some(TcpFlags { set: 2, unset: 16 }))),
        traffic::rule("vlan", matches(&|rule| rule.vlans = vec![1..=100])),
        traffic::rule("length", matches(&|rule| rule.lengths = vec![64..=128])),
        traffic::rule("source", matches(&|rule| rule.sources = prefixes(&["10.0.0.0/8", "fe80::/10"]))),
        traffic::rule(
            "destination",
            matches(&|rule| rule.destinations = prefixes(&["192.0.0.0/8", "ff00::/8"])),
        ),
    ])
}

/// Frames are cut at every length up to this one, which is an ordinary link's; and longer ones not behind it.
const CUTS: usize = 1_600;

#[test]
fn captures_cut_at_every_length_get_the_same_answers() {
    let Some(folder) = recorded::shared_captures() else { return };
    net::isolated(|| {
        let (judged, matched) = judge_captures(&folder, CUTS);
        assert!(judged > 100_000, "{judged} frames");
        assert_eq!(matched, 0b1_1111_1111, "every rule was asked for");
    });
}

/// For machines that take their time for each frame.
#[test]
fn whole_captures_get_the_same_answers() {
    let Some(folder) = recorded::shared_captures() else { return };
    net::isolated(|| {
        let (judged, _) = judge_captures(&folder, 0);
        assert!(judged > 1_000, "{judged} frames");
    });
}

/// Judges all frames, whole and cut at each length up to `cuts`; returns how many there were and the rules that
/// matched.
fn judge_captures(folder: &Path, cuts: usize) -> (u64, u64) {
    let mut both = Both::new(&network());
    let (mut judged, mut matched) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "pcap" && extension != "pcapng") {
            continue;
        }
        for frame in recorded::read(&path) {
            let whole = frame.bytes.len();
            for length in (0..whole.min(cuts)).chain([whole]) {
                let context = || format!("{} {} cut at {length}", path.display(), frame.number);
                let bytes = frame.bytes.get(..length).unwrap();
                let wire_length = if length == whole { frame.wire_length } else { length as u64 };
                matched |= both.judge(bytes, wire_length, &context);
                judged += 1;
            }
        }
    }
    (judged, matched)
}

/// A packet that is dropped because it alone is more than the limit makes no bucket, and takes nothing from new
/// sources.
#[test]
fn what_makes_no_bucket_takes_nothing_from_new_sources() {
    net::isolated(|| {
        let limit = |amount, unit| {
            let rate = Rate { amount: NonZeroU64::new(amount).unwrap(), per: Nanos::from_secs(3_600) };
            PacketLimit::new(LimitSpec::new(Algorithm::TokenBucket, rate), unit).unwrap()
        };
        let rule = PacketRule {
            limit: limit(200, LimitUnit::Bytes),
            new_sources: Some(limit(3, LimitUnit::Packets)),
            ..traffic::rule("bytes", Match::default())
        };
        let mut both = Both::new(&traffic::network(vec![rule]));
        let frame = |source: u8| frames::udp(std::net::Ipv4Addr::new(192, 0, 2, source).into());
        let is_dropped = |both: &mut Both, source, length| {
            both.judge(&frame(source), length, &|| format!("source {source}, {length} bytes"));
            both.last.unwrap().reason.is_drop()
        };
        for source in 1..=10 {
            assert!(is_dropped(&mut both, source, 500));
        }
        for (source, dropped) in [(11, false), (12, false), (13, false), (14, true), (11, false), (12, false)]
        {
            assert_eq!(is_dropped(&mut both, source, 100), dropped, "source {source}");
        }
    });
}

#[test]
fn random_rules_and_packets_get_the_same_answers() {
    net::isolated(|| {
        let (mut matched, mut exceptions) = (0, 0);
        for seed in 1000..1012 {
            let mut random = Random(seed);
            let network = random_network(&mut random, 64);
            let mut both = Both::new(&network);
            for _ in 0..1500 {
                let frame = random_frame(&mut random);
                let found = both.judge(&frame, frame.len() as u64, &|| format!("seed {seed}"));
                let packet = ratelimit_common::packet::parse(&frame[..]);
                let expected =
                    packet.map_or([0; 2], |packet| plain_loop(&network.rules, &packet, frame.len() as u64));
                let excepted = both.last.unwrap().excepted;
                assert_eq!([found, excepted], expected, "seed {seed}: {frame:02x?}");
                (matched, exceptions) = (matched + found.count_ones(), exceptions + excepted.count_ones());
            }
        }
        let found = format!("{matched} matches, {exceptions} exceptions");
        assert!(matched > 5_000 && exceptions > 2_000, "{found}: a dull test");
    });
}
