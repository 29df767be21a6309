//! A store that several daemons share: where it is, how it is asked, and who may.

use std::{fmt, num::NonZeroU32, path::PathBuf, str::FromStr};

use ratelimit_common::time::Nanos;

use crate::Range;

/// Redis or Valkey, as a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// Where it is; of a cluster some of its nodes, with sentinels these. Never empty, and never of several kinds.
    pub addresses: Vec<RedisAddress>,
    /// What is there.
    pub topology: Topology,
    /// Who asks.
    pub login: Login,
    /// Who asks the sentinels.
    pub sentinel_login: Login,
    /// With which certificates, if the addresses are of TLS.
    pub tls: RedisTls,
    /// What all keys begin with.
    pub prefix: String,
    /// Over how many hash tags keys are spread, and so at most over how many nodes of a cluster.
    pub shards: u16,
    /// How long a request waits for an answer at most.
    pub timeout: Nanos,
    /// How many daemons share the store: the share of each limit that one has while the store does not answer, with
    /// `on_store_error: local`.
    pub local_share: NonZeroU32,
}

/// What is at the addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    #[default]
    Single,
    /// Nodes of a cluster.
    Cluster,
    /// Sentinels, which know the master of this name.
    Sentinel(String),
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// The user of an ACL; `None` is the default one.
    pub username: Option<String>,
    /// The file that holds the password.
    pub password_file: Option<PathBuf>,
}

/// With which certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// Who must have vouched for the server's certificate, PEM; `None` stands for those whom the system trusts.
    pub ca: Option<PathBuf>,
    /// The daemon's own certificate and its key, PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisAddress {
    /// Host and port.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
        /// Whether TLS is spoken.
        tls: bool,
        /// The number of the database.
        database: u32,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// Why a text is not where a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Something else.
    #[error(
        "is not the address of a store; write redis://HOST:PORT, rediss://HOST:PORT (with TLS) or unix:PATH"
    )]
    Shape,
    /// Secrets belong elsewhere.
    #[error("must not have a password or a user: write `username` and `password_file` beside it")]
    Secret,
    /// What comes after the port.
    #[error("may have nothing behind its port but the number of a database, such as redis://HOST:PORT/1")]
    Database,
}

impl RedisSettings {
    /// One server, and everything else at its default.
    #[must_use]
    pub fn new(address: RedisAddress) -> Self {
        Self {
            addresses: vec![address],
            topology: Topology::default(),
            login: Login::default(),
            sentinel_login: Login::default(),
            tls: RedisTls::default(),
            prefix: Self::DEFAULT_PREFIX.to_owned(),
            shards: Self::DEFAULT_SHARDS,
            timeout: Self::DEFAULT_TIMEOUT,
            local_share: NonZeroU32::MIN,
        }
    }

    /// The port of a server unless it is said.
    pub const PORT: u16 = 6_379;
    /// The port of a sentinel unless it is said.
    pub const SENTINEL_PORT: u16 = 26_379;
    /// What keys begin with unless it is said.
    pub const DEFAULT_PREFIX: &str = "rl";
    /// Bytes of what keys begin with at most.
    pub const LONGEST_PREFIX: usize = 32;
    /// How many hash tags there can be.
    pub const SHARDS: Range = Range::new(1, 1_024);
    /// How many there are unless it is said.
    pub const DEFAULT_SHARDS: u16 = 64;
    /// How long a request can wait.
    pub const TIMEOUTS: (Nanos, Nanos) = (Nanos(1_000_000), Nanos::from_secs(10));
    /// How long it waits unless it is said.
    pub const DEFAULT_TIMEOUT: Nanos = Nanos(50_000_000);
    /// How many daemons can share a store.
    pub const LOCAL_SHARES: Range = Range::new(1, 10_000);
    /// Addresses at most.
    pub const MOST_ADDRESSES: usize = 64;
}

impl RedisAddress {
    /// Whether TLS is spoken there.
    #[must_use]
    pub const fn has_tls(&self) -> bool {
        matches!(self, Self::Tcp { tls: true, .. })
    }
}

impl FromStr for RedisAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let is_path = !path.trim().is_empty() && !path.contains(char::is_control);
            return if is_path { Ok(Self::Unix(path.into())) } else { Err(AddressError::Shape) };
        }
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Shape)?;
        let tls = match scheme {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(AddressError::Shape),
        };
        if rest.contains('@') {
            return Err(AddressError::Secret);
        }
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = host_and_port(authority).ok_or(AddressError::Shape)?;
        let database = match database {
            "" => 0,
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| AddressError::Database)?
            }
            _ => return Err(AddressError::Database),
        };
        Ok(Self::Tcp { host: host.to_owned(), port: port.unwrap_or(0), tls, database })
    }
}

/// A name, an address or one of IPv6 in brackets, and the port if it is there.
fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    let port = match port {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(port.parse().ok().filter(|port| *port > 0)?)
        }
        Some(_) => return None,
        None => None,
    };
    (!host.is_empty() && host.bytes().all(is_name)).then_some((host, port))
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port, tls, database } => {
                let scheme = if *tls { "rediss" } else { "redis" };
                let brackets = if host.contains(':') { ("[", "]") } else { ("", "") };
                write!(f, "{scheme}://{}{host}{}:{port}", brackets.0, brackets.1)?;
                if *database > 0 { write!(f, "/{database}") } else { Ok(()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_with_ports_or_sockets() {
        let shown = |text: &str| text.parse::<RedisAddress>().map(|address| address.to_string());
        let cases = [
            ("redis://10.0.0.1:6379", Ok("redis://10.0.0.1:6379")),
            ("rediss://store.example:7000/3", Ok("rediss://store.example:7000/3")),
            ("valkey://[::1]:6380", Ok("redis://[::1]:6380")),
            ("redis://store", Ok("redis://store:0")),
            ("redis://store:6379/", Ok("redis://store:6379")),
            ("unix:/run/redis.sock", Ok("unix:/run/redis.sock")),
            ("redis://user:secret@store:1", Err(AddressError::Secret)),
            ("redis://store:1/a", Err(AddressError::Database)),
            ("redis://store:1/1?x=2", Err(AddressError::Database)),
            ("redis://store:99999", Err(AddressError::Shape)),
            ("redis://store:0", Err(AddressError::Shape)),
            ("redis://:6379", Err(AddressError::Shape)),
            ("redis://[::g]:1", Err(AddressError::Shape)),
            ("redis://a:b:c", Err(AddressError::Shape)),
            ("http://store:1", Err(AddressError::Shape)),
            ("store:6379", Err(AddressError::Shape)),
            ("unix:", Err(AddressError::Shape)),
            ("", Err(AddressError::Shape)),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected.map(str::to_owned), "{text}");
        }
    }
}
