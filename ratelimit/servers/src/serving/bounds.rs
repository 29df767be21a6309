//! What a listener bears of a client: sizes, numbers and times beyond which a request is refused or a connection ended.

use std::time::Duration;

/// Requests that an HTTP/2 client may have taken back before anybody looked at them. More are an attack, and end the
/// connection; so many come from a proxy whose requests time out several times while this machine stands still.
pub const TAKEN_BACK: usize = 1_000;
/// Bytes that an HTTP/2 client may send before they are read: on one stream, and on the whole connection.
pub const WINDOWS: (u32, u32) = (64 << 10, 256 << 10);
/// How long a TLS handshake may take.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// How often an HTTP/2 client is asked whether it is still there, when nothing is heard.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long its answer may take.
pub const PING_TIME: Duration = Duration::from_secs(10);

/// The versions of HTTP that are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
    /// Both; a connection's first bytes tell which.
    Both,
}

/// What is borne on a connection. What bodies may hold in memory is for a [`Budget`](super::Budget), which listeners
/// share.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The versions of HTTP.
    pub versions: Versions,
    /// Bytes of a request's headers.
    pub headers: u32,
    /// Requests at once over HTTP/2.
    pub streams: u32,
    /// Bytes of an answer over HTTP/2 that wait for their client on one stream, when no more of it is asked for.
    pub send_buffer: usize,
    /// What may take how long.
    pub times: ConnectionTimeouts,
}

/// What may take how long.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionTimeouts {
    /// For a request's headers to come.
    pub headers: Duration,
    /// For a request, from its headers to its answer; `None` if that is for whoever answers to say.
    pub request: Option<Duration>,
    /// In which nothing is heard on a connection.
    pub idle: Duration,
    /// In which nothing is taken of an answer; `None` if it may take any time.
    pub answer: Option<Duration>,
    /// In which nobody has anything to say who answers; `None` if that is for whoever answers to bound.
    pub silence: Option<Duration>,
    /// For a connection, whatever happens on it; `None` if it may live for any time.
    pub lifetime: Option<Duration>,
}

impl Bounds {
    /// The bounds of a listener that is not for the world: its clients are few, and may ask for what takes long.
    pub const INTERNAL: Self = Self {
        versions: Versions::Http1,
        headers: 16 << 10,
        streams: 0,
        send_buffer: 1,
        times: ConnectionTimeouts {
            headers: Duration::from_secs(5),
            request: None,
            idle: Duration::from_secs(5),
            answer: None,
            silence: None,
            lifetime: None,
        },
    };
}
