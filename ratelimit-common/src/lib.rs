//! What the XDP program and the daemon share: the rate limit algorithms, the bucket table, the packet parser and the
//! types that cross the kernel boundary.
//!
//! This crate knows no clock, no allocator and no map: time and state come in, a decision and new state come out.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

pub mod algorithm;
pub mod bans;
pub mod classify;
pub mod limit;
pub mod lists;
pub mod packet;
pub mod sample;
pub mod sketch;
pub mod table;
pub mod time;
pub mod verifier;
mod wide;
pub mod wire;
