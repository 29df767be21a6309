//! Where a daemon answers questions.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use thiserror::Error;

use crate::policy::application::{Listen, ListenAddress, ListenerSettings};

/// Where, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckEndpoint {
    /// Whether it speaks gRPC, not HTTP.
    pub is_grpc: bool,
    /// Where to connect.
    pub place: EndpointAddress,
    /// Who vouches for its certificate, if it has one.
    pub ca: Option<PathBuf>,
}

/// What to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointAddress {
    /// Host and port, as in a URL.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// Nowhere to ask.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// Not a URL that is understood.
    #[error(
        "write http://HOST:PORT, https://HOST:PORT or unix:PATH for HTTP, \
         grpc://HOST:PORT, grpcs://HOST:PORT or grpc+unix:PATH for gRPC"
    )]
    Url,
    /// A configuration without servers.
    #[error("{path}: no `application.listen`, so its daemon answers nowhere", path = .0.display())]
    Nowhere(PathBuf),
}

impl Default for CheckEndpoint {
    fn default() -> Self {
        let place = EndpointAddress::Tcp { host: Ipv4Addr::LOCALHOST.to_string(), port: 8080 };
        Self { is_grpc: false, place, ca: None }
    }
}

impl CheckEndpoint {
    /// The first HTTP listener, else the first for gRPC.
    pub fn of(listen: &Listen) -> Option<Self> {
        let listener = listen.http.first().or(listen.grpc.first())?;
        let ListenerSettings { address, tls } = listener;
        let place = match address {
            ListenAddress::Tcp(address) => {
                EndpointAddress::Tcp { host: reachable(*address).to_string(), port: address.port() }
            }
            ListenAddress::Unix(path) => EndpointAddress::Unix(path.clone()),
        };
        // Which certificates are trusted is not the server's to say.
        Some(Self { is_grpc: listen.http.is_empty(), place, ca: tls.as_ref().map(|_| PathBuf::new()) })
    }

    /// With that file of those who vouch for its certificate, if it has one.
    pub fn trusting(self, ca: PathBuf) -> Self {
        Self { ca: self.ca.map(|_| ca), ..self }
    }
}

/// Where to reach who listens at any address.
const fn reachable(address: SocketAddr) -> IpAddr {
    match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    }
}

impl FromStr for CheckEndpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let is_unix = |(scheme, is_grpc)| text.strip_prefix(scheme).map(|path| (is_grpc, path));
        if let Some((is_grpc, path)) = [("unix:", false), ("grpc+unix:", true)].into_iter().find_map(is_unix)
        {
            let place = EndpointAddress::Unix(PathBuf::from(path));
            return if path.is_empty() {
                Err(EndpointError::Url)
            } else {
                Ok(Self { is_grpc, place, ca: None })
            };
        }
        let (scheme, rest) = text.split_once("://").ok_or(EndpointError::Url)?;
        let authority: http::uri::Authority =
            rest.strip_suffix('/').unwrap_or(rest).parse().map_err(|_| EndpointError::Url)?;
        let (is_grpc, ca, default_port) = match scheme {
            "http" => (false, None, Some(80)),
            "https" => (false, Some(PathBuf::new()), Some(443)),
            "grpc" => (true, None, None),
            "grpcs" => (true, Some(PathBuf::new()), None),
            _ => return Err(EndpointError::Url),
        };
        let port = authority.port_u16().or(default_port).ok_or(EndpointError::Url)?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        Ok(Self { is_grpc, place: EndpointAddress::Tcp { host, port }, ca })
    }
}

#[cfg(test)]
mod tests {
    //! URLs, and what a configuration says.

    use super::*;

    #[test]
    fn urls_are_read() {
        let tcp = |host: &str, port| EndpointAddress::Tcp { host: host.to_owned(), port };
        for (text, is_grpc, place, tls) in [
            ("http://localhost", false, tcp("localhost", 80), false),
            ("http://[::1]:8080/", false, tcp("::1", 8080), false),
            ("https://rl.example:8443", false, tcp("rl.example", 8443), true),
            ("grpc://127.0.0.1:8081", true, tcp("127.0.0.1", 8081), false),
            ("grpcs://rl.example:8443", true, tcp("rl.example", 8443), true),
            ("unix:/run/rl.sock", false, EndpointAddress::Unix("/run/rl.sock".into()), false),
            ("grpc+unix:/run/rl.sock", true, EndpointAddress::Unix("/run/rl.sock".into()), false),
        ] {
            let ca = tls.then(PathBuf::new);
            assert_eq!(text.parse(), Ok(CheckEndpoint { is_grpc, place, ca }), "{text}");
        }
        for wrong in [
            "",
            "localhost:8080",
            "ftp://x",
            "grpc://x",
            "unix:",
            "grpc+unix:",
            "grpcs://x",
            "http://",
            "http://a/b",
        ] {
            assert_eq!(wrong.parse::<CheckEndpoint>(), Err(EndpointError::Url), "{wrong}");
        }
    }

    #[test]
    fn a_configuration_says_where_its_daemon_answers() {
        let at = |address: &str| ListenerSettings {
            address: ListenAddress::Tcp(address.parse().unwrap()),
            tls: None,
        };
        let listen = Listen { grpc: vec![at("[::]:8081")], http: Vec::new() };
        let place = EndpointAddress::Tcp { host: "::1".to_owned(), port: 8081 };
        assert_eq!(CheckEndpoint::of(&listen), Some(CheckEndpoint { is_grpc: true, place, ca: None }));
        let listen = Listen { http: vec![at("0.0.0.0:8080")], ..listen };
        assert_eq!(CheckEndpoint::of(&listen), Some(CheckEndpoint::default()));
        assert_eq!(CheckEndpoint::of(&Listen::default()), None);
    }
}
