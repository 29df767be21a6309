//! How a server is to be, before it starts.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{Engine, Server};

/// What a server's configuration has beside its addresses and directory.
#[derive(Debug, Clone)]
pub struct Setup {
    pub(crate) engine: Engine,
    pub(crate) address: SocketAddr,
    pub(crate) lines: Vec<String>,
    pub(crate) password: Option<String>,
    pub(crate) has_tls: bool,
    pub(crate) has_clock: bool,
    pub(crate) is_sentinel: bool,
}

impl Setup {
    /// A server that saves nothing, and that anybody may ask anything.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            address: own_address(),
            lines: Vec::new(),
            password: None,
            has_tls: false,
            has_clock: false,
            is_sentinel: false,
        }
    }

    /// One more line of its configuration.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Asks for this password.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        let setup = self.line(format!("requirepass {password}")).line(format!("masterauth {password}"));
        Self { password: Some(password.to_owned()), ..setup }
    }

    /// Has this user as well, who may do what the rules of an access control list say (`~rl:* +evalsha`).
    #[must_use]
    pub fn user(self, name: &str, password: &str, rules: &str) -> Self {
        self.line(format!("user {name} on >{password} {rules}"))
    }

    /// May take this much memory, and then does what the policy says.
    #[must_use]
    pub fn max_memory(self, bytes: u64, policy: &str) -> Self {
        self.line(format!("maxmemory {bytes}")).line(format!("maxmemory-policy {policy}"))
    }

    /// Keeps what it has on disk, so that it still has it when it is started again.
    #[must_use]
    pub fn append_only(self) -> Self {
        self.line("appendonly yes").line("appendfsync always")
    }

    /// Follows another server.
    #[must_use]
    pub fn replica_of(self, master: &Server) -> Self {
        let address = master.address();
        self.line(format!("replicaof {} {}", address.ip(), address.port()))
    }

    /// Speaks TLS only, and wants to see a certificate; at its Unix socket it does not.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.has_tls = true;
        self
    }

    /// Has a clock that can be set: [`Server::set_clock`]. Only Valkey has: the library that does it and Redis's
    /// allocator wait for each other.
    #[must_use]
    pub fn clock(mut self) -> Self {
        assert_eq!(self.engine, Engine::Valkey, "the clock of {} can't be set", self.engine);
        self.has_clock = true;
        self
    }

    /// Starts it, and waits until it answers.
    #[must_use]
    pub fn start(self) -> Server {
        Server::from_setup(self)
    }
}

/// One of 16 million addresses, which nobody else has: neither another test, nor a program with an address of its own.
pub(crate) fn own_address() -> SocketAddr {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let mixed = (process::id() ^ nanos.rotate_left(16))
        .wrapping_add(COUNT.fetch_add(1, Relaxed))
        .wrapping_mul(0x9e37_79b1);
    let [_, one, two, three] = (mixed >> 4).to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, one | 1, two, three.clamp(1, 254))), 20_000)
}
