//! The barest script that decides, asked by redis-benchmark.

use std::{process::Command, time::Duration};

use ratelimit_redis_testing::Engine;

use super::case::{Figures, KEYS, World, store_time};

pub const SCRIPT: &str = include_str!("bare.lua");

/// Asks with so many clients, each of which sends so many questions before it waits.
pub fn run(world: &World, clients: u64, depth: u64, time: Duration) -> Option<Figures> {
    let hash: String = world.server.ask(&["SCRIPT", "LOAD", SCRIPT]);
    let address = world.server.address();
    // About as many as fit into the time.
    let count = (time.as_secs_f64() * if depth > 1 { 60_000.0 } else { 25_000.0 }) as u64;
    let mut command = Command::new(Engine::tool("redis-benchmark"));
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "--csv"]);
    for (name, value) in [("-c", clients), ("-P", depth), ("-n", count), ("-r", KEYS)] {
        command.arg(name).arg(value.to_string());
    }
    command.args(["EVALSHA", &hash, "1", "bare:__rand_int__", "1", "1000000"]);
    let before = store_time(world);
    let output = command.output().ok()?;
    let store = store_time(world) - before;
    let text = String::from_utf8(output.stdout).ok()?;
    // test, requests a second, then milliseconds: mean, least, p50, p95, p99, most.
    let row = text.lines().last()?;
    let numbers: Vec<f64> =
        row.rsplitn(8, ',').filter_map(|field| field.trim_matches('"').parse().ok()).collect();
    let [most, p99, _, p50, _, _, a_second] = *numbers.as_slice() else { return None };
    let micros = 1_000.0;
    Some(Figures {
        a_second,
        p50: p50 * micros,
        p99: p99 * micros,
        // It does not say it; the longest is above it.
        p999: most * micros,
        store: store * 1e6 / count as f64,
        own: f64::NAN,
        a_call: 1.0,
    })
}
