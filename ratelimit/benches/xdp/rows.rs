//! What is measured: configurations, each with a floor of its own, as data.

use crate::frames::{ipv6, tagged, udp_frame, with_options};

/// One configuration and one kind of traffic.
pub struct Row {
    pub name: &'static str,
    /// What stands under `network`; `LIST` is a file of 100,000 prefixes.
    pub network: &'static str,
    /// From how many sources the packets come. One is the frame's own; of more, each packet's is drawn at random.
    pub sources: u32,
    pub frame: fn() -> Vec<u8>,
    /// What the floor is compiled with; `None` if there is no floor for it.
    pub floor: Option<&'static [&'static str]>,
    /// What it is to be compared with, besides the floor.
    pub beside: Option<Beside>,
    /// Whether the lengths of bans say that there is one of an IPv4 address.
    pub has_ban: bool,
}

/// The same with another configuration, or from other sources.
pub struct Beside {
    pub name: &'static str,
    pub network: &'static str,
    pub sources: u32,
    pub floor: Option<&'static [&'static str]>,
}

impl Row {
    const fn new(
        name: &'static str,
        network: &'static str,
        sources: u32,
        floor: &'static [&'static str],
    ) -> Self {
        Self { name, network, sources, frame: udp_frame, floor: Some(floor), beside: None, has_ban: false }
    }

    const fn without_floor(self) -> Self {
        Self { floor: None, ..self }
    }

    const fn of(self, frame: fn() -> Vec<u8>) -> Self {
        Self { frame, ..self }
    }

    const fn beside(
        self,
        name: &'static str,
        network: &'static str,
        sources: u32,
        floor: &'static [&'static str],
    ) -> Self {
        Self { beside: Some(Beside { name, network, sources, floor: Some(floor) }), ..self }
    }

    const fn banning(self) -> Self {
        Self { has_ban: true, ..self }
    }
}

/// A token bucket that admits all: the dearer case, because it changes the bucket.
const ONE: &str = "rules: [{name: one, rate: 100M/s}]";
const DENYING: &str = "rules: [{name: one, rate: 1/d}]";
const BYTES: &str = "rules: [{name: one, rate: 10GB/s}]";
const WINDOW: &str = "rules: [{name: one, rate: 100M/s, algorithm: fixed_window}]";
const SLIDING: &str = "rules: [{name: one, rate: 250k/s, algorithm: sliding_window_counter}]";
const INTERVAL: &str = "rules: [{name: one, rate: 100M/s, refill: interval}]";
const LENGTHS: &str = "rules: [{name: one, rate: 100M/s, key: {source: {ipv4: {32: 1, 24: 32}}}}]";
const NEW_SOURCES: &str = "rules: [{name: one, rate: 100M/s, new_sources: 100M/s}]";
const PORT: &str = "rules: [{name: one, rate: 100M/s, match: {destination_port: [53]}}]";
/// Exceptions that the packet is none of.
const EXCEPT_ONE: &str = "rules: [{name: one, rate: 100M/s, except: {source: 10.9.0.0/16}}]";
const EXCEPT_THREE: &str = "rules: [{name: one, rate: 100M/s, \
                            except: [{source: 10.9.0.0/16}, {source: 10.8.0.0/16}, {source: 10.7.0.0/16}]}]";
const EXCEPT_PORT: &str = "rules: [{name: one, rate: 100M/s, except: {destination_port: 9999}}]";
/// So many that nobody is banned meanwhile.
const NEARLY_BANNED: &str = "rules: [{name: one, rate: 1/d, ban: {after: 200k, within: 1s, for: 1s}}]";
/// Filled in by [`Row::network`]'s reader.
pub const SIXTY_FOUR: &str = "64 rules on ports";
pub const EIGHT: &str = "8 rules";
const NOTHING: &str = "rules: []";
const LIST: &str = "allow: [{file: LIST}]";

fn extended() -> Vec<u8> {
    ipv6(&[60; 8])
}

fn plain_ipv6() -> Vec<u8> {
    ipv6(&[])
}

fn tagged_twice() -> Vec<u8> {
    tagged(&udp_frame())
}

/// All of them, in the order of the report.
pub const ROWS: &[Row] = &[
    Row::new("one rule, 1 source", ONE, 1, &[]),
    Row::new("one rule, 1,000 sources", ONE, 1_000, &[]),
    Row::new("one rule, 100,000 sources", ONE, 100_000, &[]),
    Row::new("one rule, 1,000,000 sources", ONE, 1_000_000, &[]),
    Row::new("denied", DENYING, 1, &["DENIED"]),
    Row::new("IPv6", ONE, 1, &[]).of(plain_ipv6),
    Row::new("two VLAN tags", ONE, 1, &[]).of(tagged_twice),
    Row::new("IPv4 with options", ONE, 1, &[]).of(with_options).without_floor(),
    Row::new("IPv6, eight extension headers", ONE, 1, &[]).of(extended).without_floor(),
    Row::new("rules on ports", PORT, 1, &["PORTS=1"]),
    Row::new("64 rules of which one matches", SIXTY_FOUR, 1, &["PORTS=64"]).beside(
        "one rule on ports",
        PORT,
        1,
        &["PORTS=1"],
    ),
    Row::new("two prefix lengths", LENGTHS, 1_000, &["RULES=2", "LENGTHS"]),
    Row::new("new_sources", NEW_SOURCES, 1_000, &[]),
    Row::new("bytes", BYTES, 1, &["BYTES"]),
    Row::new("fixed window", WINDOW, 1, &["WINDOW"]),
    Row::new("sliding window counter", SLIDING, 1_000, &[]).without_floor(),
    Row::new("refilled by interval", INTERVAL, 1, &[]).without_floor(),
    Row::new("an exception, a network", EXCEPT_ONE, 1, &[]).without_floor(),
    Row::new("three exceptions, networks", EXCEPT_THREE, 1, &[]).without_floor(),
    Row::new("an exception, a port", EXCEPT_PORT, 1, &[]).without_floor(),
    Row::new("denied, counted towards a ban", NEARLY_BANNED, 1, &[]).without_floor(),
    Row::new("bans in force", ONE, 1, &["BANS=1"]).banning(),
    Row::new("100,000 prefixes, come back", LIST, 1_000, &["NO_RULES", "LISTS"]).beside(
        "no list",
        NOTHING,
        1_000,
        &["NO_RULES"],
    ),
    Row::new("100,000 prefixes, never", LIST, u32::MAX, &["NO_RULES", "LISTS"]).beside(
        "no list",
        NOTHING,
        u32::MAX,
        &["NO_RULES"],
    ),
    Row::new("eight rules, 1 source", EIGHT, 1, &["RULES=8"]),
    Row::new("eight rules, 50,000 sources", EIGHT, 50_000, &["RULES=8"]),
    Row::new("flood of 10,000,000 sources", ONE, 10_000_000, &[]).beside(
        "1,000,000 sources",
        ONE,
        1_000_000,
        &[],
    ),
];
