//! The keys of the configuration: one table, from which the reader takes what it accepts and the reference
//! (`CONFIGURATION.md`) its text. What the values mean is for `validate`.

mod application;
mod proxy;
mod rule_file;
mod rules;
mod store;

use std::fmt;

use self::LeftOut::{Is, IsNumber, Required, Said};
use crate::policy::{Range, TableSize};

/// A key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    /// Where it is, from the top of the file; `[]` stands for each item of a list.
    pub path: &'static str,
    /// What its value is.
    pub kind: ValueKind,
    /// What it is if it is left out.
    pub default: LeftOut,
    /// What it does.
    pub meaning: &'static str,
    /// The key in use: keys of a rule if it is one's, else of `network` if it is there, else of the file.
    pub example: &'static str,
}

/// What the value of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// In words. Those in backquotes are all that it may be.
    Said(&'static str),
    /// A number in a range of the policy's type.
    Number(Range),
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(text) => f.write_str(text),
            Self::Number(range) => range.fmt(f),
        }
    }
}

/// What a key is if it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It can't be left out.
    Required,
    /// The same as with this value.
    Is(&'static str),
    /// The same as with this number, which is the policy's default.
    IsNumber(u64),
    /// Something that is no value of it.
    Said(&'static str),
}

/// The keys, in the order of the reference: parents before their children.
pub fn all() -> impl Iterator<Item = &'static ConfigKey> {
    TOP.iter()
        .chain(&NETWORK)
        .chain(rules::KEYS)
        .chain(application::KEYS)
        .chain(store::KEYS)
        .chain(proxy::KEYS)
}

/// The keys of files of rules on requests, likewise.
pub fn of_rule_files() -> impl Iterator<Item = &'static ConfigKey> {
    rule_file::KEYS.iter()
}

/// The names of the keys directly in the mapping at a path, which is empty for the top. `overrun` of a rule on packets
/// is known as well, to be refused.
#[must_use]
pub fn names(parent: &str) -> Vec<&'static str> {
    let mut names = names_among(all(), parent);
    names.extend(["overrun"].iter().filter(|_| parent == "network.rules[]"));
    names
}

/// The same for files of rules. `queue_size`, which is to come, is known as well, to be refused.
#[must_use]
pub fn names_of_rule_files(parent: &str) -> Vec<&'static str> {
    let mut names = names_among(of_rule_files(), parent);
    names.extend(["queue_size"].iter().filter(|_| parent.ends_with(".rate_limit")));
    names
}

fn names_among(keys: impl Iterator<Item = &'static ConfigKey>, parent: &str) -> Vec<&'static str> {
    let name = |key: &'static ConfigKey| match parent {
        "" => Some(key.path),
        _ => key.path.strip_prefix(parent)?.strip_prefix('.'),
    };
    keys.filter_map(name).filter(|name| !name.contains(['.', '['])).collect()
}

const fn key(
    path: &'static str,
    kind: &'static str,
    default: LeftOut,
    meaning: &'static str,
    example: &'static str,
) -> ConfigKey {
    ConfigKey { path, kind: ValueKind::Said(kind), default, meaning, example }
}

/// A key whose value is a number, with the range and the default of the policy's type.
const fn number(
    path: &'static str,
    range: Range,
    default: LeftOut,
    meaning: &'static str,
    example: &'static str,
) -> ConfigKey {
    ConfigKey { path, kind: ValueKind::Number(range), default, meaning, example }
}

/// A prefix length, likewise.
const fn prefix_length(
    path: &'static str,
    most: u8,
    default: u8,
    meaning: &'static str,
    example: &'static str,
) -> ConfigKey {
    number(path, Range::new(1, most as u64), IsNumber(default as u64), meaning, example)
}

const TOP: [ConfigKey; 7] = [
    key(
        "instance",
        "letters, digits, - and _, at most 63 bytes",
        Is("default"),
        "The name of this daemon. A host can run several, each with a name and interfaces of its own.",
        "instance: edge",
    ),
    key(
        "lists",
        "mapping of names",
        Said("none"),
        "Lists of addresses that several places use, each written as in `allow`, or as one item: `{list: NAME}` stands for all that a list has, in `allow`, \
         `deny`, `match`, `except`, `value_in` of rules on requests, and in other lists. A name has letters, digits, `-` and `_`. \
         Files are written and watched as those of `allow`. The daemon warns of a list that nothing uses.",
        "network: {allow: [{list: office}]}\nlists: {office: [192.0.2.0/28, {file: networks.txt}]}",
    ),
    key(
        "network",
        "mapping",
        Said("nothing is done with packets; this or `application` must be given"),
        "How packets are judged, and on which interfaces.",
        "network:\n  rules:\n    - {name: every-source, rate: 10k/s}",
    ),
    key(
        "application",
        "mapping",
        Said("nothing is answered about requests"),
        "How requests are judged, and where questions about them come in.",
        "application:\n  rules: domains/*.yaml\n  listen: {grpc: 127.0.0.1:8081}",
    ),
    key(
        "metrics",
        "mapping",
        Said("none are served"),
        "Serves metrics for Prometheus at `/metrics`; `/healthz` says whether limits are in force.",
        "metrics: {listen: 127.0.0.1:9102}",
    ),
    key(
        "metrics.listen",
        "IP address and port",
        Required,
        "The address where metrics are served over HTTP. Anybody who can reach it can read them.",
        "metrics: {listen: \"[::1]:9102\"}",
    ),
    key(
        "control",
        "path, relative to the file's directory",
        Said("/run/ratelimit/INSTANCE.sock"),
        "The socket on which the command line speaks to the daemon.",
        "control: /run/edge.sock",
    ),
];

const NETWORK: [ConfigKey; 11] = [
    key(
        "network.interfaces",
        "list of names or mappings",
        Said("none: name them on the command line"),
        "Where to attach: `docs/interfaces.md` says which interface limits whom. `--interface` on the command line replaces \
         the list.",
        "interfaces: [eth0, {name: eth1, mode: native}]",
    ),
    key(
        "network.interfaces[].name",
        "name of an interface, at most 15 bytes",
        Required,
        "The interface.",
        "interfaces: [{name: eth0}]",
    ),
    key(
        "network.interfaces[].mode",
        "`auto`, `native` or `generic`",
        Is("auto"),
        "How to attach: `native` runs in the driver; `generic` works with every driver, but is slower \
         and runs after the kernel may have joined packets; `auto` is `native` if the driver can do \
         that, else `generic`.",
        "interfaces: [{name: eth0, mode: generic}]",
    ),
    key(
        "network.allow",
        "list of addresses, prefixes and files",
        Said("none"),
        "Sources that are never limited, denied or banned, such as the network that the host is managed from. An \
         address without a length is that address alone; bits beyond the length must be zero here (in a file they are \
         ignored, with a warning).",
        "allow: [10.0.0.0/8, 192.0.2.1, \"fe80::/10\"]",
    ),
    key(
        "network.allow[].file",
        "path, relative to the file's directory",
        Said("none"),
        "A file of addresses, prefixes or ranges (`192.0.2.1-192.0.2.9`), one on each line; `#` and `;` \
         begin comments. `deny` takes files too. When the file changes, the daemon reloads. If it has \
         become empty, what it had stays in force, with a warning, unless a comment in it says that an \
         empty list is meant.",
        "allow: [{file: networks.txt}, 10.0.0.0/8]",
    ),
    key(
        "network.allow[].list",
        "name of a list",
        Said("none"),
        "The name of one of `lists`, which is taken whole. `deny` takes lists too.",
        "allow: [{list: office}]",
    ),
    key(
        "network.deny",
        "list of addresses, prefixes and files",
        Said("none"),
        "Sources whose packets are all dropped, unless `allow` names them.",
        "deny: [203.0.113.0/24, {file: networks.txt}]",
    ),
    number(
        "network.table_size",
        TableSize::RANGE,
        IsNumber(TableSize::DEFAULT.slots() as u64),
        "How many buckets there are, rounded up to a power of two. Each takes 16 bytes. A bucket is in \
         use until time has given back all that its key has taken. While up to half of them are in use, \
         nothing is lost.",
        "table_size: 4M",
    ),
    key(
        "network.on_exit",
        "`detach` or `keep`",
        Is("detach"),
        "What becomes of the limits when the daemon is stopped: `detach` takes them off, `keep` leaves them in \
         force.",
        "on_exit: keep",
    ),
    key(
        "network.on_malformed",
        "`pass` or `drop`",
        Is("pass"),
        "What happens to an IP packet whose headers contradict themselves or end too early. Rules are asked first: what \
         they drop is dropped either way.",
        "on_malformed: drop",
    ),
    key(
        "network.rules",
        "list of mappings, at most 64; a rule counts once for each of its prefix lengths",
        Said("none: every packet passes, with a warning"),
        "The limits. A packet passes if every matching rule with `action: drop` allows it; a dropped \
         packet takes nothing from any bucket.",
        "rules:\n  - {name: every-source, rate: 10k/s}\n  - {name: in-all, key: global, rate: 1M/s}",
    ),
];
