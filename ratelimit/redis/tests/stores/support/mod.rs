//! What the tests share.

pub mod direct;
pub mod random;
