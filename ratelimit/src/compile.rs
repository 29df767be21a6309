//! From a policy to what the XDP program is loaded with. Pure: the table's facts and the rules' numbers come in.

use ratelimit_common::{
    table::Secret,
    time::Nanos,
    wire::{self, Globals, RULE_NUMBERS},
};

use crate::policy::{self, Network};

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
    /// Its rules: those that drop, then those that observe, each in the policy's order.
    pub rules: Vec<wire::Rule>,
    /// For each rule number, where in `rules` it is, plus one.
    pub index: [u8; RULE_NUMBERS],
    /// IPv4 sources that are never limited: address and prefix length.
    pub allow_v4: Vec<([u8; 4], u8)>,
    /// IPv6 sources that are never limited.
    pub allow_v6: Vec<([u8; 16], u8)>,
}

/// Compiles the rules of `network`, of which the one at `i` has the number `numbers[i]`.
#[must_use]
pub fn compile(network: &Network, table: &TableFacts, numbers: &[u32]) -> Compiled {
    let (mut dropping, mut observing) = (Vec::new(), Vec::new());
    for (rule, &number) in network.rules.iter().zip(numbers) {
        match rule.action {
            policy::Action::Drop => dropping.push(compile_rule(rule, number, table)),
            policy::Action::Observe => observing.push(compile_rule(rule, number, table)),
        }
    }
    let counts_denied = dropping.iter().any(|rule| rule.limit.counts_denied());
    let enforced = dropping.len() as u32;
    let rules = [dropping, observing].concat();
    let (allow_v4, allow_v6) = allow_lists(network);
    let globals = Globals {
        epoch: table.made_at.0,
        set_mask: u64::from(table.sets - 1),
        secret: table.secret,
        enforced,
        rules: rules.len() as u32,
        allow_v4: u32::from(!allow_v4.is_empty()),
        allow_v6: u32::from(!allow_v6.is_empty()),
        counts_denied: u32::from(counts_denied),
        test_clock: 0,
        random_sources: 0,
        reserved: 0,
    };
    Compiled { globals, index: index(&rules), rules, allow_v4, allow_v6 }
}

fn compile_rule(rule: &policy::Rule, number: u32, table: &TableFacts) -> wire::Rule {
    let policy::Key::Source(lengths) = rule.key;
    wire::Rule {
        limit: rule.limit.compiled().aligned(table.made_at_unix),
        masks: [mask(lengths.ipv4()), mask(lengths.ipv6())],
        number: u64::from(number),
    }
}

/// The first `length` bits of an address, 1 to 128.
fn mask(length: u8) -> wire::KeyMask {
    let bits = u128::MAX << (u128::BITS - u32::from(length));
    wire::KeyMask { bits: [(bits >> 64) as u64, bits as u64] }
}

fn index(rules: &[wire::Rule]) -> [u8; RULE_NUMBERS] {
    let mut index = [0; RULE_NUMBERS];
    for (place, rule) in (1..).zip(rules) {
        if let Some(entry) = index.get_mut(rule.number as usize) {
            *entry = place;
        }
    }
    index
}

type AllowLists = (Vec<([u8; 4], u8)>, Vec<([u8; 16], u8)>);

fn allow_lists(network: &Network) -> AllowLists {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for prefix in network.allow.iter() {
        match prefix.address() {
            std::net::IpAddr::V4(address) => v4.push((address.octets(), prefix.len())),
            std::net::IpAddr::V6(address) => v6.push((address.octets(), prefix.len())),
        }
    }
    (v4, v6)
}
