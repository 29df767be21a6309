//! Buckets in Redis or Valkey, which several processes share: a
//! [`RemoteStore`](ratelimit_limiter::store::remote::RemoteStore).
//!
//! One call of a Lua script decides about many requests, each under all of its limits: nothing else is atomic. The
//! script gives back the states as they were, and every number of an answer follows from these by the limiter's own
//! algorithms.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod call;
mod clock;
pub mod connect;
mod keys;
mod probe;
mod queue;
mod redis_store;
mod script;
mod secret;
mod several;
mod store;
pub mod transport;

pub use connect::{Hello, Role, ServerMode};
pub use probe::{ClockDifference, Memory, Probe, ProbeError, ServerReport, probe};
pub use redis_store::RedisStore;
pub use store::{SharedBuckets, StoreOptions};
