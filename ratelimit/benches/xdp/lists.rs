//! What lists of prefixes cost a packet, and how long it takes to load them.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Instant,
};

use ratelimit::{
    dataplane::Generation,
    policy::{Match, Prefix, PrefixList},
};

use crate::{Case, compiled_with, frames, loaded, rule};

const COUNTS: [u32; 3] = [0, 1_000, 100_000];

/// Lists of random prefixes of the lengths that such lists have most, no rule, and packets from random sources, of which
/// hardly any is on the list.
pub fn cases() -> Vec<Case> {
    let frames = [("IPv4", frames::udp_frame()), ("IPv6", frames::ipv6(&[]))];
    let cases = frames.into_iter().enumerate().flat_map(|(family, (name, frame))| {
        COUNTS.map(|count| {
            let mut compiled = compiled_with(Vec::new(), list(count, family == 1));
            compiled.globals.random_sources = u32::MAX;
            loaded(format!("allow list of {count} prefixes, {name}"), compiled, Some(frame.clone()))
        })
    });
    cases.collect()
}

fn list(count: u32, is_v6: bool) -> PrefixList {
    let mut random = 0x243f_6a88_85a3_08d3_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random ^ random >> 32
    };
    let mut prefix = || {
        let bits = next();
        let (address, length): (IpAddr, u8) = if is_v6 {
            (Ipv6Addr::from_bits(u128::from(bits) << 64).into(), 48)
        } else {
            (Ipv4Addr::from_bits((bits >> 32) as u32).into(), 24)
        };
        Prefix::around(address, length).expect("a prefix")
    };
    PrefixList::new((0..count).map(|_| prefix()).collect())
}

/// Compiles and loads 64 rules with lists of both families.
pub fn print_loading() {
    for count in COUNTS {
        let prefixes = [list(count, false), list(count, true)];
        let both = PrefixList::new(prefixes.iter().flat_map(|list| list.to_vec()).collect());
        let rules = (0..64).map(|index| {
            let port = 1_000 + index;
            rule(&format!("rule-{index}"), Match { destination_ports: vec![port..=port], ..Match::default() })
        });
        let rules: Vec<_> = rules.collect();
        let before = Instant::now();
        let compiled = compiled_with(rules, both);
        let compiled_in = before.elapsed();
        let before = Instant::now();
        let _generation = Generation::load_alone(&compiled, false).expect("loading needs root");
        println!(
            "64 rules and {count} prefixes of each family: compiled in {compiled_in:.1?}, loaded in {:.1?}; lists take {} kB",
            before.elapsed(),
            compiled.lists.words.len() * 8 / 1_024
        );
    }
}
