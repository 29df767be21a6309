//! What the verifier makes of every shape of configuration: it loads, and leaves room for what comes.

use std::{
    fs,
    io::{self, Write as _},
    time::Instant,
};

use ratelimit::{compile::Compiled, config, dataplane::ProgramGeneration, simulate::compile_for};
use ratelimit_common::time::Nanos;
use tracing::Level;

use crate::{daemon, log, net};

/// The kernel gives up after a million, and older ones follow more than newer ones.
const MOST: u32 = 600_000;

const FIRST: &str = "{name: each, rate: 100/s}";

#[test]
fn every_shape_of_configuration_is_verified_with_room_for_more() {
    net::isolated(|| {
        let everything = shape(&LISTS_AND_MALFORMED, &everything());
        // More rules are not more to verify: the verifier then knows less of each, and has fewer ways to tell apart.
        let few = [&BANS[..], &ALGORITHMS].concat();
        let worst = shape(&LISTS_AND_MALFORMED, &few);
        let worst_excepting = shape(&LISTS_AND_MALFORMED, &excepting_several(&few));
        let ports = shape(&LISTS_AND_MALFORMED, &on_ports(&few));
        print(&format!("\n{:<36}{:>21}{:>13}", "configuration", "verified instructions", "load time"));
        let first = shape(&[], &[FIRST]);
        let instructions = [
            load("the first one", &first, Load::Rules),
            load("the first one, debug log", &first, Load::WithLog),
            load("lists", &shape(&LISTS_AND_MALFORMED, &[FIRST]), Load::Rules),
            load("every algorithm", &shape(&[], &ALGORITHMS), Load::Rules),
            load("every kind of key", &shape(&[], &KEYS), Load::Rules),
            load("bans", &shape(&[], &BANS), Load::Rules),
            load("rules on ports", &ports, Load::Rules),
            load("rules on ports, debug log", &ports, Load::WithLog),
            load("every key of the reference", &every_key(), Load::Rules),
            load("64 rules, every dimension", &shape(&[], &rules(64)), Load::Rules),
            load("64 rules, every exception", &shape(&[], &excepting(&rules(64))), Load::Rules),
            load("everything", &everything, Load::Rules),
            load("everything, for simulate", &everything, Load::DryRun),
            load("everything, on trial, debug log", &on_trial(&everything), Load::WithLog),
            load("the worst, on trial, debug log", &on_trial(&worst), Load::WithLog),
            load("the worst with exceptions, likewise", &on_trial(&worst_excepting), Load::WithLog),
            load("the same, for simulate", &worst_excepting, Load::DryRun),
        ];
        let worst = instructions.into_iter().flatten().max();
        assert!(worst.is_none_or(|worst| worst <= MOST), "{worst:?} instructions, at most {MOST}");
    });
}

fn on_trial(compiled: &Compiled) -> Compiled {
    let mut compiled = compiled.clone();
    compiled.globals.is_on_trial = 1;
    compiled
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Rules,
    DryRun,
    WithLog,
}

/// Loads it, and returns how many instructions were verified, if the kernel says so.
fn load(name: &'static str, compiled: &Compiled, how: Load) -> Option<u32> {
    let before = Instant::now();
    let load = || ProgramGeneration::load_alone(compiled, how == Load::DryRun);
    let generation = if how == Load::WithLog { debugging(load) } else { load() };
    let generation = generation.unwrap_or_else(|error| panic!("{name}: {error}"));
    let took = before.elapsed().as_secs_f64();
    let instructions = generation.verified_instructions().unwrap();
    let shown = instructions.map_or_else(|| "not told".to_owned(), |count| count.to_string());
    print(&format!("{name:<36}{shown:>21}{took:>11.2} s"));
    instructions
}

/// Does something while this thread logs at the level of debugging, which the program then does, too.
fn debugging<T>(what: impl FnOnce() -> T) -> T {
    let debugging = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_writer(io::sink);
    let _second = log::second_subscriber();
    tracing::subscriber::with_default(debugging.finish(), what)
}

/// Past the harness, which would keep it to itself when the test passes.
fn print(line: &str) {
    io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn shape<R: AsRef<str>>(network: &[&str], rules: &[R]) -> Compiled {
    let rules: Vec<&str> = rules.iter().map(AsRef::as_ref).collect();
    compiled(&daemon::config(network, &rules))
}

fn compiled(path: &std::path::Path) -> Compiled {
    let policy = config::load(path).unwrap_or_else(|errors| panic!("{errors}"));
    compile_for(&policy.network.expect("a network"), Nanos(0))
}

const LISTS_AND_MALFORMED: [&str; 3] =
    ["allow: [10.0.0.0/8, \"fe80::/10\"]", "deny: [203.0.113.0/24, \"2001:db8::/32\"]", "on_malformed: drop"];

const ALGORITHMS: [&str; 5] = [
    "{name: one, algorithm: token_bucket, rate: 100/s, burst: 200}",
    "{name: two, algorithm: token_bucket, rate: 600k/m, refill: interval}",
    "{name: three, algorithm: leaky_bucket, rate: 100MB/s, burst: 4MiB}",
    "{name: four, algorithm: fixed_window, rate: 100/m, count_denied: true}",
    "{name: five, algorithm: sliding_window_counter, rate: 20/s, count_denied: true}",
];

const KEYS: [&str; 6] = [
    "{name: one, key: {source: {ipv4: {32: 1, 24: 32, 16: 500}, ipv6: {64: 1, 56: 32, 48: 500}}}, rate: 1k/s}",
    "{name: two, key: {destination: {ipv4: 32, ipv6: 128}}, rate: 80Mbit/s, burst: 1MB}",
    "{name: three, key: source_destination, rate: 10k/s}",
    "{name: four, key: flow, rate: 10k/s, action: observe}",
    "{name: five, key: global, rate: 2M/s}",
    "{name: six, key: {source: {ipv4: {32: 1, 24: 32}}}, rate: 10k/s, action: observe}",
];

const BANS: [&str; 2] = [
    "{name: ban, rate: 100/s, ban: {after: 10000, within: 10s, for: 10m}}",
    "{name: ban-24, key: {source: {ipv4: 24, ipv6: 56}}, rate: 1k/s, new_sources: 5k/s, ban: {after: 1, within: 1s, for: 1h}}",
];

/// The part about packets of the example that has every key.
fn every_key() -> Compiled {
    let text = include_str!("../../../config/every-key.yaml").split("\napplication:").next().unwrap();
    fs::write("/run/partners.txt", include_str!("../../../config/partners.txt")).unwrap();
    fs::write("/run/every-key.yaml", text).unwrap();
    compiled("/run/every-key.yaml".as_ref())
}

/// So many rules that there is no room for one more, of all kinds.
fn everything() -> Vec<String> {
    let others = ALGORITHMS.iter().chain(&KEYS).chain(&BANS).enumerate();
    let others: Vec<String> =
        others.map(|(index, rule)| rule.replacen("name: ", &format!("name: other-{index}-"), 1)).collect();
    // Some are several rules, one for each of their prefix lengths.
    let taken = shape(&[], &others).globals.matches.rules.count_ones() as usize;
    [others, rules(64 - taken)].concat()
}

/// The same rules, each with all conditions that packets can be told by on the fast path of ports.
fn on_ports<R: AsRef<str>>(rules: &[R]) -> Vec<String> {
    let matches = "source: [10.0.0.0/8, \"fd00::/32\"], protocol: [udp, tcp], source_port: [1000-60000], \
                   destination_port: [53], length: 64-1000";
    rules
        .iter()
        .map(|rule| rule.as_ref().replacen("{name", &format!("{{match: {{{matches}}}, name"), 1))
        .collect()
}

/// The same rules, each with exceptions; together they are on all dimensions.
fn excepting<R: AsRef<str>>(rules: &[R]) -> Vec<String> {
    let excepting = |(index, rule): (usize, &R)| {
        let matches = conditions(index + 1);
        rule.as_ref().replacen("{name", &format!("{{except: {{{matches}}}, name"), 1)
    };
    rules.iter().enumerate().map(excepting).collect()
}

/// Likewise, with a second exception for each.
fn excepting_several<R: AsRef<str>>(rules: &[R]) -> Vec<String> {
    let excepting = |(index, rule): (usize, &R)| {
        let [first, second] = [conditions(index + 1), conditions(index + 2)];
        rule.as_ref().replacen("{name", &format!("{{except: [{{{first}}}, {{{second}}}], name"), 1)
    };
    rules.iter().enumerate().map(excepting).collect()
}

/// Rules with conditions, which together are on all dimensions.
fn rules(count: usize) -> Vec<String> {
    let rule = |index: usize| {
        format!("{{name: r{index}, match: {{{}}}, rate: {}/s}}", conditions(index), 100 + index)
    };
    (0..count).map(rule).collect()
}

fn conditions(index: usize) -> String {
    match index % 4 {
        0 => {
            format!("protocol: tcp, tcp_flags: [syn], vlan: [{}], length: 64-1000, ip_version: 4", index + 1)
        }
        1 => "icmp_type: echo-request, fragment: [no, first]".to_owned(),
        2 => format!(
            "protocol: [udp, tcp], source_port: [{0}-60000], destination_port: [{0}, 2000-3000]",
            index + 1000
        ),
        _ => format!(
            "source: [10.{index}.0.0/16, \"fd00:{index:x}::/32\"], destination: [192.0.2.0/24, \"fd01::/32\"]"
        ),
    }
}
