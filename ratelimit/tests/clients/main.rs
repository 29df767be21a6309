//! Other people's programs against the real one: gateways that ask the daemon (Envoy, nginx, HAProxy, curl, h2load and
//! a health probe), and what reads its manual, completions and alert rules. `cargo xtask test` says where the programs
//! are. Limits are of an hour or longer, and a daemon does not start just before a new one.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on has failed")]

mod alerts;
#[path = "../support/blocks.rs"]
mod blocks;
mod completions;
mod curl;
mod envoy;
mod haproxy;
mod health;
#[path = "../support/http.rs"]
mod http;
mod kubernetes;
mod lists;
mod manual;
mod nginx;
mod process;
mod proxy;
mod proxy_flood;
mod proxy_load;
mod reload;
mod state;
#[path = "../support/stops.rs"]
mod stops;
#[path = "../support/wait.rs"]
mod wait;
#[path = "../support/windows.rs"]
mod windows;
