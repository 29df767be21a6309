//! How a server fails, and what its clients are told of that: which one and how, but nothing that only operators should
//! know.

use std::io;

use http::StatusCode;

/// How a server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamFailure {
    /// Its name has no address.
    Name,
    /// It does not take connections.
    Connect,
    /// It does not take them in time.
    ConnectTimeout,
    /// TLS failed, as with a certificate that is not to be trusted.
    Tls,
    /// It answered nothing in time.
    ResponseTimeout,
    /// It ended the connection before it had answered.
    Closed,
    /// It answered something that is no HTTP, or that nobody asked for.
    Unreadable,
    /// Its answer stopped in the middle.
    Idle,
}

impl UpstreamFailure {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Name,
        Self::Connect,
        Self::ConnectTimeout,
        Self::Tls,
        Self::ResponseTimeout,
        Self::Closed,
        Self::Unreadable,
        Self::Idle,
    ];

    /// The label in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::Tls => "tls",
            Self::ResponseTimeout => "response_timeout",
            Self::Closed => "closed",
            Self::Unreadable => "unreadable",
            Self::Idle => "idle_timeout",
        }
    }

    /// The status that a client gets.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::ConnectTimeout | Self::ResponseTimeout | Self::Idle => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// What it did, behind the words for who it is.
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::Name => "has a name that can't be found",
            Self::Connect => "can't be connected to",
            Self::ConnectTimeout => "can't be connected to in time",
            Self::Tls => "can't be trusted: TLS failed",
            Self::ResponseTimeout => "did not answer in time",
            Self::Closed => "closed the connection without an answer",
            Self::Unreadable => "answered something that is not HTTP",
            Self::Idle => "stopped in the middle of its answer",
        }
    }

    /// Whether nothing of a request has been sent when it happens.
    #[must_use]
    pub const fn is_before_request(self) -> bool {
        matches!(self, Self::Name | Self::Connect | Self::ConnectTimeout | Self::Tls)
    }

    /// Why a connection could not be made.
    pub fn of_connecting(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::TimedOut { Self::ConnectTimeout } else { Self::Connect }
    }

    /// Why there is no answer, or no more of it.
    pub fn of_answer(error: &hyper::Error) -> Self {
        if error.is_parse() { Self::Unreadable } else { Self::Closed }
    }
}
