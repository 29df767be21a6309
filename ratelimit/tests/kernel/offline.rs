//! A generation that is attached to nothing, for BPF_PROG_TEST_RUN.

use ratelimit::{
    compile::{TableFacts, compile},
    dataplane::Generation,
    policy::{Action, AllowList, Interfaces, Key, Network, OnExit, PacketLimit, Rule, Rules, TableSize},
};
use ratelimit_common::{
    limit::LimitSpec,
    table::{SLOTS, Secret},
    time::Nanos,
};

/// When the table was made.
#[derive(Clone, Copy)]
pub struct Made {
    pub monotonic: Nanos,
    pub unix: Nanos,
}

/// Loads dropping rules with these limits, numbered from 1, and a clock that stands still until it is set.
pub fn load(limits: &[LimitSpec], buckets: u64, made: Made) -> Generation {
    let rule = |(index, limit): (usize, &LimitSpec)| Rule {
        name: format!("rule-{index}").parse().unwrap(),
        key: Key::default(),
        limit: PacketLimit::new(*limit).unwrap(),
        action: Action::Drop,
    };
    let table = TableSize::at_least(buckets).unwrap();
    let network = Network {
        interfaces: Interfaces::default(),
        allow: AllowList::default(),
        table,
        on_exit: OnExit::Detach,
        rules: Rules::new(limits.iter().enumerate().map(rule).collect()).unwrap(),
    };
    let facts = TableFacts {
        made_at: made.monotonic,
        made_at_unix: made.unix,
        secret: Secret::new([
            0x5851_f42d_4c95_7f2d,
            0x1405_7b7e_f767_814f,
            0x9e37_79b9_7f4a_7c15,
            0xbf58_476d,
        ]),
        sets: table.slots() / SLOTS as u32,
    };
    let numbers: Vec<u32> = (1..).take(limits.len()).collect();
    let mut generation = Generation::load_alone(&compile(&network, &facts, &numbers), true).expect("loading");
    generation.set_clock(made.monotonic).unwrap();
    generation
}
