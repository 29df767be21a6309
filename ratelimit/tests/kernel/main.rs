//! The kernel tier: the binary and its XDP program, with packets on veth pairs and by BPF_PROG_TEST_RUN.
//!
//! `cargo xtask test kernel` runs these as root in namespaces that vanish with the last of their processes, several at
//! once: each test has a network, a BPF file system and a `/run` of its own besides, see [`net::isolated`].
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

mod ban_commands;
mod ban_terms;
mod bans;
#[path = "../support/blocks.rs"]
mod blocks;
mod bytes;
mod captures;
mod clock;
mod concurrency;
mod counters;
mod daemon;
mod debug_log;
mod documents;
mod errors;
mod events;
mod except;
mod fast_path;
mod flood;
mod floods;
mod foreign;
mod frames;
mod guest;
mod hanging;
mod headers;
mod interfaces;
mod joined;
mod keys;
mod kills;
mod layers;
mod leftovers;
mod lifecycle;
mod limits;
mod list_files;
#[path = "../support/log.rs"]
mod log;
mod matching;
mod metrics;
mod naming;
mod net;
mod offline;
mod offloads;
mod operations;
mod packets;
mod pressure;
mod raw_ip;
mod reload;
mod request_bans;
mod service;
mod simulated;
mod sources;
mod stacked;
#[path = "../support/stops.rs"]
mod stops;
mod streams;
mod stuck;
mod top;
mod trials;
mod tun;
mod tunnel_traffic;
mod tunnels;
mod unprivileged;
mod vectors;
mod verified;
mod virtio;
#[path = "../support/wait.rs"]
mod wait;
mod whom;
#[path = "../support/windows.rs"]
mod windows;
mod wiretap;
mod witness;
