//! From what a row writes under `network` to what the program is loaded with, as the daemon does it.

use std::{
    fmt::Write as _,
    fs,
    net::Ipv4Addr,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd},
    time::Instant,
};

use anyhow::{Context as _, Result};
use ratelimit::{
    compile::{Compiled, TableFacts, compile, owners},
    config,
    dataplane::ProgramGeneration,
};
use ratelimit_common::{table::Secret, time::Nanos};
use tempfile::TempDir;

use crate::{
    bpf::bpf,
    program::{OPEN_MAP, info, maps, open},
    rows::{EIGHT, SIXTY_FOUR},
};

/// A directory with a list of prefixes in it, and room for configurations.
pub struct Lists(TempDir);

const PREFIXES: u32 = 100_000;

impl Lists {
    pub fn make() -> Result<Self> {
        let directory = tempfile::tempdir().context("a directory for configurations")?;
        let mut random = 0x243f_6a88_85a3_08d3_u64;
        let mut list = String::new();
        for _ in 0..PREFIXES {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Not the first network, where those sources are that come back.
            let address = ((random >> 32) as u32).max(1 << 24) & !0xff;
            let _ = writeln!(list, "{}/24", Ipv4Addr::from_bits(address));
        }
        fs::write(directory.path().join("list"), list).context("writing a list")?;
        Ok(Self(directory))
    }
}

/// Compiles what stands under `network`.
pub fn compiled(network: &str, lists: &Lists) -> Result<Compiled> {
    let list = lists.0.path().join("list");
    let network = match network {
        EIGHT => rules(8, |_| String::new()),
        SIXTY_FOUR => rules(64, |index| {
            let port = if index == 63 { 53 } else { 1_000 + index };
            format!(", match: {{destination_port: [{port}]}}")
        }),
        other => other.replace("LIST", &list.display().to_string()),
    };
    let path = lists.0.path().join("configuration.yaml");
    fs::write(&path, format!("network:\n  interfaces: [lo]\n  {network}\n"))
        .context("writing a configuration")?;
    let network = config::load(&path)?.network.context("the configuration's network")?;
    let facts = TableFacts {
        made_at: Nanos(0),
        made_at_unix: Nanos(0),
        secret: Secret::new([
            0x243f_6a88_85a3_08d3,
            0x1319_8a2e_0370_7344,
            0xa409_3822_299f_31d0,
            0x082e_fa98_ec4e_6c89,
        ]),
        sets: network.table.slots() / 8,
    };
    let numbers: Vec<u32> = (1..).take(owners(&network.rules).count()).collect();
    Ok(compile(&network, &facts, &numbers))
}

fn rules(count: u32, condition: impl Fn(u32) -> String) -> String {
    let rules = (0..count).map(|index| format!("{{name: rule-{index}, rate: 100M/s{}}}", condition(index)));
    format!("rules: [{}]", rules.collect::<Vec<_>>().join(", "))
}

/// Notes a ban of one IPv4 address. Which one makes no difference to all others: each has its two sets searched.
pub fn say_there_is_a_ban(program: BorrowedFd<'_>) -> Result<()> {
    for id in maps(program).context("the program's maps")? {
        let map = open(OPEN_MAP, id).context("a map")?;
        let mut about = [0_u64; 11];
        info(map.as_fd(), &mut about).context("a map's name")?;
        if about[3].to_ne_bytes() != *b"BAN_LENG" {
            continue;
        }
        let (key, lengths) = (0_u32, [1_u64 << 31, 0, 0]);
        let mut attributes = [0_u64; 16];
        attributes[0] = map.as_raw_fd() as u64;
        attributes[1] = (&raw const key) as u64;
        attributes[2] = lengths.as_ptr() as u64;
        bpf(2, &mut attributes).context("setting the lengths of bans")?;
        return Ok(());
    }
    anyhow::bail!("the program has no map BAN_LENGTHS")
}

/// How long it takes to put 64 rules and the list in force.
pub fn print_loading(lists: &Lists) -> Result<()> {
    let before = Instant::now();
    let compiled = compiled("allow: [{file: LIST}]", lists)?;
    let compiled_in = before.elapsed();
    let before = Instant::now();
    let _generation = ProgramGeneration::load_alone(&compiled, false).context("loading needs root")?;
    println!(
        "\nA list of {PREFIXES} prefixes: read and compiled in {compiled_in:.1?}, loaded in {:.1?}; it takes {} kB",
        before.elapsed(),
        compiled.lists.words.len() * 8 / 1_024
    );
    Ok(())
}
