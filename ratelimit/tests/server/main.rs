//! The application layer's servers on loopback: what they answer, and what they bear.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on has failed")]

mod attacks;
mod auth;
mod check;
#[path = "../support/chosen/mod.rs"]
mod chosen;
mod cli;
mod descriptors;
mod drain;
mod grpc;
mod headers;
mod hostile;
mod http2;
mod json;
mod openapi;
mod property;
mod reload;
mod retry;
mod stats;
mod support;
mod tls;
mod tower;
mod unix;
mod unjudged;
#[path = "../support/wait.rs"]
mod wait;
