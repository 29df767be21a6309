//! The reverse proxy on loopback: what reaches servers, byte by byte, and what reaches clients.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on has failed")]

mod evasion;
mod failures;
mod forward;
mod http2;
mod limits;
mod one_form;
mod origin;
mod server;
mod support;
mod websocket;
