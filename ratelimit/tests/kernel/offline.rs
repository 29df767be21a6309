//! A generation that is attached to nothing, for BPF_PROG_TEST_RUN.

use ratelimit::{
    compile::{Compiled, TableFacts, compile, owners},
    config,
    dataplane::{Error, ProgramGeneration},
    policy::{
        Action, Interfaces, LimitUnit, Match, Network, OnExit, OnMalformed, PacketKey, PacketLimit,
        PacketRule, PacketRules, PrefixList, TableSize,
    },
};
use ratelimit_common::{
    limit::LimitSpec,
    table::{SLOTS, Secret},
    time::Nanos,
};

use crate::daemon;

/// When the table was made.
#[derive(Clone, Copy)]
pub struct Made {
    pub monotonic: Nanos,
    pub unix: Nanos,
}

/// Loads dropping rules with these limits on packets, numbered from 1, for dry runs.
pub fn load(limits: &[LimitSpec], buckets: u64, made: Made) -> ProgramGeneration {
    load_in(LimitUnit::Packets, limits, buckets, made)
}

/// The same in packets or in bytes.
pub fn load_in(unit: LimitUnit, limits: &[LimitSpec], buckets: u64, made: Made) -> ProgramGeneration {
    let rule = |(index, limit): (usize, &LimitSpec)| PacketRule {
        name: format!("rule-{index}").parse().unwrap(),
        except: Vec::new(),
        matches: Match::default(),
        key: PacketKey::default(),
        limit: PacketLimit::new(*limit, unit).unwrap(),
        action: Action::Drop,
        new_sources: None,
        ban: None,
    };
    let table = TableSize::at_least(buckets).unwrap();
    let network = Network {
        interfaces: Interfaces::default(),
        left_out: Interfaces::default(),
        allow: PrefixList::default(),
        deny: PrefixList::default(),
        lists: Vec::new(),
        table,
        on_exit: OnExit::Detach,
        on_malformed: OnMalformed::Pass,
        rules: PacketRules::new(limits.iter().enumerate().map(rule).collect()).unwrap(),
    };
    load_network(&network, made)
}

/// Loads rules as a configuration has them, one a line, with bits and numbers in their order.
pub fn load_rules(rules: &[&str], made: Made) -> ProgramGeneration {
    let policy = config::load(&daemon::config(&[], rules)).unwrap_or_else(|errors| panic!("{errors}"));
    load_network(&policy.network.expect("a network"), made)
}

/// The answer to an object in the place of the embedded one.
pub fn load_object(object: &[u8]) -> Result<ProgramGeneration, Error> {
    let policy = config::load(&daemon::config(&[], &["{name: every, rate: 1/s}"])).expect("a policy");
    ProgramGeneration::load_object(object, &compiled(&policy.network.expect("a network"), NOW), true)
}

/// Any time.
const NOW: Made = Made { monotonic: Nanos(0), unix: Nanos(0) };

fn load_network(network: &Network, made: Made) -> ProgramGeneration {
    ProgramGeneration::load_alone(&compiled(network, made), true).expect("loading")
}

pub fn compiled(network: &Network, made: Made) -> Compiled {
    let facts = TableFacts {
        made_at: made.monotonic,
        made_at_unix: made.unix,
        secret: Secret::new([
            0x5851_f42d_4c95_7f2d,
            0x1405_7b7e_f767_814f,
            0x9e37_79b9_7f4a_7c15,
            0xbf58_476d,
        ]),
        sets: network.table.slots() / SLOTS as u32,
    };
    let numbers: Vec<u32> = (1..).take(owners(&network.rules).count()).collect();
    compile(network, &facts, &numbers)
}
