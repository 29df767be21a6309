//! Limits how fast each client may use a host, at the network layer (XDP) and at the application layer.
//!
//! The library behind the `ratelimit` daemon and command line.
// These macros panic when the stream can't be written: `cli::output` has what does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod answers;
pub mod application;
pub mod cli;
mod client_address;
pub mod clock;
pub mod compile;
pub mod config;
pub mod control;
pub mod daemon;
pub mod dataplane;
pub mod events;
mod http1;
pub mod limiter;
pub mod metrics;
mod object;
pub mod policy;
pub mod server;
pub mod simulate;
pub mod store;
pub mod text;
pub mod top;
pub mod tower;
