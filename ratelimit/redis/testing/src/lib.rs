//! Redis and Valkey for tests: servers, clusters and sentinels of a test's own, and relays that lose what they carry.
//!
//! All of it ends when it is dropped, and with the test's process, however that ends. Each server has a loopback
//! address of its own, so that it finds its port free when it is started again. `cargo xtask setup` gets the programs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on has failed")]

mod certificates;
mod cluster;
mod engine;
mod process;
mod relay;
mod sentinel;
mod server;
mod setup;
#[path = "../../../tests/support/windows.rs"]
mod windows;

use std::{
    thread,
    time::{Duration, Instant},
};

pub use certificates::Certificates;
pub use cluster::Cluster;
pub use engine::Engine;
pub use redis;
pub use relay::{Relay, Way};
pub use sentinel::Sentinels;
pub use server::Server;
pub use setup::Setup;
pub use windows::wait_for_whole_ones;

/// Far longer than anything takes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what} takes too long");
        thread::sleep(Duration::from_millis(5)); // tidy: sleep, what another program does can only be polled
    }
}
