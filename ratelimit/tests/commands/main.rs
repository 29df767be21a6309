//! Commands that need neither a server nor rights, each as the program that people start; and captures through the
//! parser and the rules. One program, since each would be linked with all of the crate.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on has failed")]

mod access_log;
#[path = "../support/blocks.rs"]
mod blocks;
mod captures;
mod documents;
mod every_block;
mod pictures;
mod simulate;
mod streams;
mod validate;
