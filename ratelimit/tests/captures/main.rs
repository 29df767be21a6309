//! Captures through the parser and the rules, without privileges.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "../support/captures.rs"]
mod captures;
mod classify;
mod expected;
mod fixtures;
#[path = "../support/traffic.rs"]
mod traffic;
