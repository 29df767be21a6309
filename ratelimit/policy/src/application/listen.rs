//! Where the daemon listens for questions about requests.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

/// Where questions come in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// For Envoy's protocol.
    pub grpc: Vec<ListenerSettings>,
    /// For HTTP.
    pub http: Vec<ListenerSettings>,
}

/// One socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Its address.
    pub address: ListenAddress,
    /// Its certificate, if it speaks TLS.
    pub tls: Option<Tls>,
}

/// The address of a socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// Address and port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// Files with which a socket speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and those that vouch for it, PEM.
    pub cert: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// Who must have vouched for a client's certificate, PEM; if not given, clients need none.
    pub client_ca: Option<PathBuf>,
}

impl ListenAddress {
    /// Whether nobody can listen at both.
    #[must_use]
    pub fn collides_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(other)) => tcp_collide(*one, *other),
            (one, other) => one == other,
        }
    }
}

/// The system makes another port of 0 each time. Who listens at all addresses of IPv6 does so at those of IPv4, too.
fn tcp_collide(one: SocketAddr, other: SocketAddr) -> bool {
    let takes = |one: SocketAddr, other: SocketAddr| match one.ip() {
        IpAddr::V4(ip) => ip.is_unspecified() && other.is_ipv4(),
        IpAddr::V6(ip) => ip.is_unspecified(),
    };
    let is_same = one.ip() == other.ip();
    one.port() == other.port() && one.port() != 0 && (is_same || takes(one, other) || takes(other, one))
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_collide_that_one_socket_has_already() {
        let tcp = |text: &str| ListenAddress::Tcp(text.parse().unwrap());
        let unix = |path: &str| ListenAddress::Unix(path.into());
        for (one, other, expected) in [
            (tcp("127.0.0.1:1"), tcp("127.0.0.1:1"), true),
            (tcp("127.0.0.1:1"), tcp("127.0.0.1:2"), false),
            (tcp("127.0.0.1:1"), tcp("127.0.0.2:1"), false),
            (tcp("127.0.0.1:0"), tcp("127.0.0.1:0"), false),
            (tcp("0.0.0.0:1"), tcp("127.0.0.1:1"), true),
            (tcp("0.0.0.0:1"), tcp("[::1]:1"), false),
            (tcp("[::]:1"), tcp("127.0.0.1:1"), true),
            (tcp("[::]:1"), tcp("0.0.0.0:1"), true),
            (unix("/run/a"), unix("/run/a"), true),
            (unix("/run/a"), unix("/run/b"), false),
            (unix("/run/a"), tcp("127.0.0.1:1"), false),
        ] {
            assert_eq!(
                [one.collides_with(&other), other.collides_with(&one)],
                [expected; 2],
                "{one} {other}"
            );
        }
    }
}
