//! Real clients of the application layer against the real daemon: Envoy, nginx, curl and a health probe. `cargo xtask test`
//! says where the programs are. Limits are of an hour or longer, so that hardly a window ends in between.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on has failed")]

mod completions;
mod curl;
mod envoy;
mod health;
#[path = "../support/http.rs"]
mod http;
mod manual;
mod nginx;
mod process;
mod proxy;
mod reload;
mod state;
#[path = "../support/stops.rs"]
mod stops;
