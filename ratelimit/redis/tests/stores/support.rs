//! What the tests share.

pub mod asking;
pub mod direct;
pub mod random;
