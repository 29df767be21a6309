//! Rate limits inside a program: keys and costs ([`limiter`]), rules on requests ([`application`]), and a layer for tower
//! (`tower`), without I/O.
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[cfg(feature = "http")]
pub mod answers;
pub mod application;
#[cfg(feature = "http")]
pub mod client_address;
pub mod clock;
pub mod format;
mod limiter;
pub mod policy;
pub mod store;
pub mod text;
#[cfg(feature = "tower")]
pub mod tower;
mod transaction;

pub use limiter::{
    Algorithm, Ask, Builder, Decision, LimitError, LimitSpec, Limiter, LimiterError, Nanos, OnLimit, Outcome,
    Rate, Refill, Rule,
};
