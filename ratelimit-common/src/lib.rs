//! What the XDP program and the daemon share: the rate limit algorithms, the bucket table, the packet parser and the
//! types that cross the kernel boundary.
//!
//! This crate knows no clock, no allocator and no map: time and state come in, a decision and new state come out.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

pub mod algorithm;
pub mod bans;
#[cfg(feature = "network")]
pub mod classify;
pub mod limit;
#[cfg(feature = "network")]
pub mod lists;
#[cfg(feature = "network")]
pub mod packet;
#[cfg(feature = "network")]
pub mod pipeline;
#[cfg(feature = "network")]
pub mod sample;
#[cfg(feature = "network")]
pub mod sketch;
pub mod table;
pub mod time;
pub mod verifier;
mod wide;
#[cfg(feature = "network")]
pub mod wire;
