//! Rules on requests in their validated form, and prefixes of addresses.

pub mod application;
mod prefix;

pub use application::Application;
pub use prefix::{Prefix, PrefixError, RangeError};
