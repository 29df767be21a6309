//! Daemons that share their limits through real stores, which the tests start. `cargo xtask setup` gets the programs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on has failed")]

mod daemon;
mod guide;
mod tower;
mod validate;
