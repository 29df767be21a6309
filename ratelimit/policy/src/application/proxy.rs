//! The reverse proxy: where it listens, what it asks about a request, and where requests go that may go on.

use std::{fmt, path::PathBuf, time::Duration};

use super::{
    DenyBody, ListenerSettings, RequestTemplate,
    target::{self, PathForm},
};
use crate::{Prefix, Range};

/// A socket at which requests are limited and passed on.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyListener {
    /// Its address and certificate.
    pub listener: ListenerSettings,
    /// Whether connections begin with who the client is.
    pub proxy_protocol: ProxyProtocol,
    /// How many proxies in front add the address of who speaks to them.
    pub trusted_hops: u8,
    /// What is asked about a request; `None` if none is limited.
    pub asks: Option<RequestTemplate>,
    /// What a denied request gets to read.
    pub deny_body: Option<DenyBody>,
    /// What is one path and what is another.
    pub path: PathForm,
    /// Where requests go: the one that fits a request best counts.
    pub routes: Vec<ProxyRoute>,
}

/// Whether connections begin with who the client is, in the words of HAProxy's PROXY protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// They do not.
    #[default]
    Off,
    /// All of them do.
    Always,
    /// Those from these networks do, and there are no others.
    From(Vec<Prefix>),
}

impl ProxyProtocol {
    /// The networks that are believed.
    #[must_use]
    pub fn trusted(&self) -> &[Prefix] {
        match self {
            Self::From(networks) => networks,
            Self::Off | Self::Always => &[],
        }
    }
}

/// Requests that go to the same servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRoute {
    /// The host that they ask, in its one form; any if `None`.
    pub host: Option<String>,
    /// What their paths begin with: whole segments, in their one form.
    pub path: String,
    /// The servers.
    pub upstreams: Vec<UpstreamUrl>,
    /// Which of them is next.
    pub balance: Balance,
    /// What the servers get as `Host`; what the client asked for if `None`.
    pub host_header: Option<String>,
    /// How servers are trusted that speak TLS.
    pub tls: UpstreamTls,
    /// What may take how long.
    pub timeouts: Timeouts,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamUrl {
    /// What is spoken.
    pub scheme: Scheme,
    /// Its name, or its address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// What is spoken with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP/1.1.
    Http,
    /// TLS, and in it HTTP/2 if the server speaks that, else HTTP/1.1.
    Https,
    /// HTTP/2 without TLS.
    H2c,
}

/// Which server is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// The one that has the fewest requests to answer.
    LeastRequests,
}

/// How servers are trusted that speak TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// Who has to have vouched for their certificates, PEM; whom the system trusts if `None`.
    pub ca: Option<PathBuf>,
    /// The name that their certificates have to have, and that they are asked for (SNI); that of the URL if `None`.
    pub server_name: Option<String>,
}

/// What may take how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A connection to a server, TLS included.
    pub connect: Duration,
    /// The beginning of an answer, after the last piece of the request was passed on.
    pub response: Duration,
    /// A pause in an answer, or on a WebSocket in both directions.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            response: Duration::from_secs(60),
            idle: Duration::from_secs(300),
        }
    }
}

impl Timeouts {
    /// No request takes longer than a day.
    pub const LONGEST: Duration = Duration::from_secs(86_400);
}

impl ProxyListener {
    /// Listeners at most.
    pub const MOST: usize = 64;
}

impl ProxyRoute {
    /// Routes of a listener at most.
    pub const MOST: usize = 1_000;
    /// Servers of a route.
    pub const UPSTREAMS: Range = Range::new(1, 100);

    /// Whether it is for such requests. Host and path are in their one form.
    #[must_use]
    pub fn is_for(&self, host: &str, path: &str) -> bool {
        let is_host = self.host.as_ref().is_none_or(|wanted| wanted == host);
        let prefix = self.path.strip_suffix('/').unwrap_or(&self.path);
        let is_below = |rest: &str| rest.is_empty() || rest.starts_with('/');
        is_host && path.strip_prefix(prefix).is_some_and(is_below)
    }

    /// Routes that come before others: those for a host, and then those with the longest paths.
    #[must_use]
    pub fn rank(&self) -> (bool, usize) {
        (self.host.is_some(), self.path.trim_end_matches('/').len())
    }
}

impl Scheme {
    /// As URLs have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::H2c => "h2c",
        }
    }

    const fn usual_port(self) -> u16 {
        match self {
            Self::Http | Self::H2c => 80,
            Self::Https => 443,
        }
    }
}

/// Why a text is no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamUrlError {
    /// The scheme is not one of those.
    #[error("write http://HOST:PORT, https://HOST:PORT, or h2c://HOST:PORT for HTTP/2 without TLS")]
    Scheme,
    /// There is more than host and port.
    #[error("a server's URL has no path, query or user here: requests keep their path")]
    Path,
    /// No host.
    #[error("the host must be a name, an IPv4 address, or an IPv6 address in brackets")]
    Host,
    /// No port.
    #[error("the port must be a number from 1 to 65535")]
    Port,
}

impl std::str::FromStr for UpstreamUrl {
    type Err = UpstreamUrlError;

    fn from_str(text: &str) -> Result<Self, UpstreamUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UpstreamUrlError::Scheme)?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "h2c" => Scheme::H2c,
            _ => return Err(UpstreamUrlError::Scheme),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) {
            return Err(UpstreamUrlError::Path);
        }
        let (host, port) = host_and_port(rest)?;
        Ok(Self { scheme, host, port: port.unwrap_or(scheme.usual_port()) })
    }
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>), UpstreamUrlError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(UpstreamUrlError::Host)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| UpstreamUrlError::Host)?;
            let port = if rest.is_empty() {
                None
            } else {
                Some(rest.strip_prefix(':').ok_or(UpstreamUrlError::Host)?)
            };
            (host, port)
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.is_empty() || !(text.starts_with('[') || host.bytes().all(is_name)) {
        return Err(UpstreamUrlError::Host);
    }
    let port = port.map(|port| port.parse().ok().filter(|port| *port != 0).ok_or(UpstreamUrlError::Port));
    Ok((host.to_ascii_lowercase(), port.transpose()?))
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, port } = self;
        let scheme = scheme.name();
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{port}")
        } else {
            write!(f, "{scheme}://{host}:{port}")
        }
    }
}

/// The host of a route in its one form, if it is a host alone.
#[must_use]
pub fn route_host(text: &str) -> Option<String> {
    let host = target::host(text);
    let is_host =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'[' | b']' | b':');
    (host.eq_ignore_ascii_case(text) && !host.is_empty() && host.bytes().all(is_host)).then_some(host)
}

#[cfg(test)]
mod tests {
    //! Which requests a route is for, and what names a server.

    use super::*;

    fn route(host: Option<&str>, path: &str) -> ProxyRoute {
        ProxyRoute {
            host: host.map(str::to_owned),
            path: path.to_owned(),
            upstreams: Vec::new(),
            balance: Balance::default(),
            host_header: None,
            tls: UpstreamTls::default(),
            timeouts: Timeouts::default(),
        }
    }

    #[test]
    fn a_route_is_for_whole_segments() {
        for (path, asked, expected) in [
            ("/", "/", true),
            ("/", "/anything", true),
            ("/api", "/api", true),
            ("/api", "/api/", true),
            ("/api", "/api/users", true),
            ("/api", "/apis", false),
            ("/api", "/", false),
            ("/api/", "/api", true),
            ("/api/", "/api/users", true),
            ("/api/", "/apis/", false),
        ] {
            assert_eq!(route(None, path).is_for("x", asked), expected, "{path} {asked}");
        }
        assert!(route(Some("a"), "/").is_for("a", "/") && !route(Some("a"), "/").is_for("b", "/"));
    }

    #[test]
    fn a_host_comes_before_a_path_and_a_long_path_before_a_short_one() {
        let ranks = [route(None, "/"), route(None, "/api/"), route(None, "/api/v1"), route(Some("a"), "/")];
        assert!(ranks.iter().map(ProxyRoute::rank).is_sorted());
    }

    #[test]
    fn servers_are_urls_of_host_and_port() {
        for (text, expected) in [
            ("http://127.0.0.1:9000", Ok("http://127.0.0.1:9000")),
            ("HTTP://Backend/", Ok("http://backend:80")),
            ("https://api.example.com", Ok("https://api.example.com:443")),
            ("h2c://[::1]:50051", Ok("h2c://[::1]:50051")),
            ("https://[::1]", Ok("https://[::1]:443")),
            ("127.0.0.1:9000", Err(UpstreamUrlError::Scheme)),
            ("ftp://x", Err(UpstreamUrlError::Scheme)),
            ("http://x/path", Err(UpstreamUrlError::Path)),
            ("http://me@x", Err(UpstreamUrlError::Path)),
            ("http://", Err(UpstreamUrlError::Host)),
            ("http://[::1", Err(UpstreamUrlError::Host)),
            ("http://a b", Err(UpstreamUrlError::Host)),
            ("http://x:0", Err(UpstreamUrlError::Port)),
            ("http://x:65536", Err(UpstreamUrlError::Port)),
        ] {
            let parsed = text.parse::<UpstreamUrl>().map(|url| url.to_string());
            assert_eq!(parsed.as_deref(), expected.as_ref().map(|url| *url), "{text}");
        }
    }
}
