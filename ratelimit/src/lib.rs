//! Limits how fast each client may use a host, at the network layer (XDP) and at the application layer.
//!
//! The library behind the `ratelimit` daemon and command line.

pub mod cli;
pub mod clock;
pub mod compile;
pub mod config;
pub mod control;
pub mod daemon;
pub mod dataplane;
pub mod limiter;
pub mod policy;
pub mod simulate;
pub mod store;
