//! Why servers can't start, and what to do about it.

use std::io;

use thiserror::Error;

use crate::{policy::application::ListenAddress, socket::SocketError, tls::TlsError};

/// The servers can't start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// An address can't be had.
    #[error("{address}: can't listen there ({source}): {}", advice(address, source))]
    Bind {
        /// The address.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// A certificate can't be used.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// No threads.
    #[error("starting the servers' threads: {0}")]
    Threads(io::Error),
}

impl ServerError {
    /// A Unix socket's file can't be made.
    pub(crate) fn of_socket(address: &ListenAddress, error: SocketError) -> Self {
        let source = match error {
            SocketError::Taken { .. } => io::ErrorKind::AddrInUse.into(),
            SocketError::NotASocket { kind, .. } => io::Error::other(format!("{kind} is there")),
            SocketError::Make { source, .. } => source,
        };
        Self::Bind { address: address.to_string(), source }
    }
}

/// What to do about an address that can't be had.
#[must_use]
pub fn advice(address: &str, why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::PermissionDenied if !address.starts_with("unix:") => {
            "ports below 1024 need root or CAP_NET_BIND_SERVICE: start it with that, or choose a higher one in the \
             configuration"
        }
        io::ErrorKind::PermissionDenied => {
            "choose a path in the configuration where this user may make files, or start it as root"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this host does not have that address: choose one of its own in the configuration (`ip -brief address` \
             lists them), or 0.0.0.0 or [::] for all"
        }
        _ => "choose another address in the configuration, or stop the program that has it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_depends_on_what_is_in_the_way() {
        for (address, kind, expected) in [
            ("127.0.0.1:80", io::ErrorKind::PermissionDenied, "CAP_NET_BIND_SERVICE"),
            ("unix:/etc/a.sock", io::ErrorKind::PermissionDenied, "may make files"),
            ("192.0.2.1:80", io::ErrorKind::AddrNotAvailable, "does not have that address"),
            ("127.0.0.1:80", io::ErrorKind::AddrInUse, "stop the program that has it"),
        ] {
            let error = ServerError::Bind { address: address.to_owned(), source: kind.into() };
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
