//! Captures through the parser and the rules, without privileges.

mod classify;
mod expected;
mod fixtures;
#[path = "../support/captures.rs"]
mod recorded;
#[path = "../support/traffic.rs"]
mod traffic;
