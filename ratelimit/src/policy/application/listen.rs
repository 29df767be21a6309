//! Where the daemon listens for questions about requests.

use std::{fmt, net::SocketAddr, path::PathBuf};

/// Where questions come in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// For Envoy's protocol.
    pub grpc: Vec<Listener>,
    /// For HTTP.
    pub http: Vec<Listener>,
}

/// One socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
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

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
