//! What became of a capture: a JSON object a frame, or a summary by rule and source.

use std::{collections::HashMap, net::IpAddr};

use ratelimit_common::packet::{self, Packet};
use serde::Serialize;

use super::{capture::CapturedFrame, engine::FrameVerdict};
use crate::policy::{PacketRule, PacketRules};

/// One frame, as programs read it; what a frame does not have is null.
#[derive(Debug, Serialize)]
pub struct FrameReport<'r> {
    /// From 1.
    frame: u64,
    /// The ids of its VLAN tags, the outer one first.
    vlans: Option<Vec<u32>>,
    /// `ip4`, `ip6` or `other`.
    l3: &'static str,
    src: Option<IpAddr>,
    dst: Option<IpAddr>,
    /// The transport's number.
    l4: Option<u32>,
    sport: Option<u32>,
    dport: Option<u32>,
    /// `no`, `first` or `later`.
    frag: Option<&'static str>,
    tcp_flags: Option<u32>,
    icmp_type: Option<u32>,
    /// Names of the rules that judge it.
    rules: Vec<&'r str>,
    /// Names of those that match and except it; not there if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    excepted: Vec<&'r str>,
    /// `pass` or `drop`.
    verdict: &'static str,
    reason: &'static str,
}

/// Describes a frame.
#[must_use]
pub fn report<'r>(frame: &CapturedFrame, verdict: &FrameVerdict, rules: &'r PacketRules) -> FrameReport<'r> {
    let vlans = match &verdict.packet {
        Ok(packet) => packet.vlans,
        Err(not_ip) => not_ip.vlans,
    };
    let vlans: Vec<u32> = vlans.into_iter().filter(|&vlan| vlan != packet::NO_VLAN).collect();
    let packet = verdict.packet.as_ref().ok();
    let below = |end: u32, value: fn(&Packet) -> u32| packet.map(value).filter(|&value| value < end);
    FrameReport {
        frame: frame.number,
        vlans: (!vlans.is_empty()).then_some(vlans),
        l3: packet.map_or("other", |packet| if packet.source.family == 0 { "ip4" } else { "ip6" }),
        src: packet.map(|packet| packet.source.to_ip()),
        dst: packet.map(|packet| packet.destination.to_ip()),
        l4: below(packet::UNKNOWN_PROTOCOL, |packet| packet.protocol),
        sport: below(packet::NO_PORT, |packet| packet.source_port),
        dport: below(packet::NO_PORT, |packet| packet.destination_port),
        frag: packet.map(|packet| match packet.fragment {
            packet::WHOLE => "no",
            packet::FIRST => "first",
            _ => "later",
        }),
        tcp_flags: below(packet::NO_FLAGS, |packet| packet.tcp_flags),
        icmp_type: below(packet::NO_TYPE, |packet| packet.icmp_type).map(|kind| kind % packet::ICMPV6_TYPE),
        rules: of_bits(rules, verdict.matching).map(|rule| rule.name.as_str()).collect(),
        excepted: of_bits(rules, verdict.excepted).map(|rule| rule.name.as_str()).collect(),
        verdict: if verdict.reason.is_drop() { "drop" } else { "pass" },
        reason: verdict.reason.name(),
    }
}

/// The rules of which one of the parts has its bit set.
fn of_bits(rules: &PacketRules, bits: u64) -> impl Iterator<Item = &PacketRule> {
    let has_bit = move |index: usize| {
        let mut parts = rules.parts().iter().enumerate();
        parts.any(|(bit, part)| part.rule == index && bits >> bit & 1 != 0)
    };
    rules.iter().enumerate().filter(move |(index, _)| has_bit(*index)).map(|(_, rule)| rule)
}

/// Frames and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCount {
    /// How many.
    pub count: u64,
    /// Their wire bytes.
    pub bytes: u64,
}

/// What passed and what did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameTally {
    /// Passed.
    pub passed: FrameCount,
    /// Dropped; of a rule that observes, what it would have dropped.
    pub dropped: FrameCount,
}

impl FrameTally {
    fn add(&mut self, is_dropped: bool, bytes: u64) {
        let frames = if is_dropped { &mut self.dropped } else { &mut self.passed };
        frames.add(bytes);
    }
}

/// The sums over a capture.
#[derive(Debug, Default)]
pub struct CaptureSummary {
    reasons: HashMap<&'static str, FrameTally>,
    rules: HashMap<String, HashMap<IpAddr, FrameTally>>,
    excepted: HashMap<String, FrameCount>,
}

/// The part of a summary that one rule has.
#[derive(Debug)]
pub struct RuleSummary<'s> {
    /// Its name.
    pub name: &'s str,
    /// All sources together.
    pub all: FrameTally,
    /// What it excepted.
    pub excepted: FrameCount,
    /// How many sources there were.
    pub sources: usize,
    /// Those with most dropped, then most passed bytes.
    pub top: Vec<(IpAddr, FrameTally)>,
}

impl CaptureSummary {
    /// Adds a frame. A rule that had nothing to say because another had dropped the frame does not count it.
    pub fn add(&mut self, frame: &CapturedFrame, verdict: &FrameVerdict, rules: &PacketRules) {
        let is_dropped = verdict.reason.is_drop();
        self.reasons.entry(verdict.reason.name()).or_default().add(is_dropped, frame.wire_length);
        let Ok(packet) = &verdict.packet else { return };
        if !is_judged(verdict) {
            return;
        }
        for rule in of_bits(rules, verdict.excepted) {
            self.excepted.entry(rule.name.to_string()).or_default().add(frame.wire_length);
        }
        let denied = of_bits(rules, verdict.denied);
        let passed = of_bits(rules, if is_dropped { 0 } else { verdict.matching & !verdict.denied });
        let both = denied.map(|rule| (rule, true)).chain(passed.map(|rule| (rule, false)));
        for (rule, is_denied) in both {
            let sources = self.rules.entry(rule.name.to_string()).or_default();
            sources.entry(packet.source.to_ip()).or_default().add(is_denied, frame.wire_length);
        }
    }

    /// Sums by reason, in the order of the program's counters.
    #[must_use]
    pub fn reasons(&self) -> Vec<(&'static str, FrameTally)> {
        let names = ratelimit_common::wire::Reason::ALL.map(ratelimit_common::wire::Reason::name);
        names.into_iter().filter_map(|name| self.reasons.get(name).map(|tally| (name, *tally))).collect()
    }

    /// Sums by rule, in the configuration's order, with up to `most` sources each.
    #[must_use]
    pub fn rules<'s>(&self, rules: &'s PacketRules, most: usize) -> Vec<RuleSummary<'s>> {
        rules
            .iter()
            .map(|rule| {
                let sources = self.rules.get(rule.name.as_str());
                let mut top: Vec<(IpAddr, FrameTally)> =
                    sources.into_iter().flatten().map(|(&source, &tally)| (source, tally)).collect();
                top.sort_unstable_by_key(|(source, tally)| {
                    (u64::MAX - tally.dropped.count, u64::MAX - tally.passed.bytes, *source)
                });
                let all = top.iter().fold(FrameTally::default(), |sum, (_, tally)| sum.plus(tally));
                let sources = top.len();
                top.truncate(most);
                let name = rule.name.as_str();
                let excepted = self.excepted.get(name).copied().unwrap_or_default();
                RuleSummary { name, all, excepted, sources, top }
            })
            .collect()
    }
}

/// Whether the rules were asked.
fn is_judged(verdict: &FrameVerdict) -> bool {
    use ratelimit_common::wire::Reason::{Allowed, NeighbourDiscovery, NotIp};
    !matches!(verdict.reason, Allowed | NeighbourDiscovery | NotIp)
}

impl FrameTally {
    const fn plus(mut self, other: &Self) -> Self {
        self.passed = self.passed.plus(other.passed);
        self.dropped = self.dropped.plus(other.dropped);
        self
    }
}

impl FrameCount {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    const fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, bytes: self.bytes.saturating_add(other.bytes) }
    }
}
