//! The store in real servers, which the tests start, pause, kill and cut off. `cargo xtask setup` gets the programs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on has failed")]

mod answers;
mod conformance;
mod connect;
mod counter;
mod daemons;
mod differential;
mod failures;
mod kept;
#[path = "../../../tests/support/log.rs"]
mod log;
mod policies;
mod probe;
mod reports;
mod service;
mod sharing;
mod support;
