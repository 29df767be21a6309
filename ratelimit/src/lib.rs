//! Limits how fast each client may use a host, at the network layer (XDP) and at the application layer.
//!
//! The library behind the `ratelimit` daemon and command line. What others embed is `ratelimit-limiter`.
// These macros panic when the stream can't be written: `cli::output` has what does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod cli;
pub mod control;
pub mod daemon;
pub mod events;
pub mod metrics;
pub mod simulate;
pub mod top;

pub use ratelimit_config as config;
pub use ratelimit_dataplane::{self as dataplane, compile};
pub use ratelimit_limiter::{self as limiter, application, clock, store, text, tower};
pub use ratelimit_policy as policy;
pub use ratelimit_servers as server;

/// The programs of `docs/library.md`, compiled and run as they stand there.
#[cfg(doctest)]
#[doc = include_str!("../../docs/library.md")]
struct LibraryGuide;

/// Likewise that of `docs/clients.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/clients.md")]
struct ClientsGuide;
