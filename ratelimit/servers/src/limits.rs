//! What the servers bear: sizes, numbers and times beyond which a request or a connection is refused or ended.

use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Bytes of a request's body or gRPC message.
pub const BODY: usize = 1 << 20;
/// Bytes of a request's headers.
pub const HEADERS: u32 = 64 << 10;
/// Requests at once on one HTTP/2 connection.
pub const STREAMS: u32 = 100;
/// The same over gRPC. Gateways begin as many as their circuit breaker lets, by default 1,024, before they hear of a limit,
/// do not ask again about those that are refused, and let them pass.
pub const GRPC_STREAMS: u32 = 2_000;
/// Requests that an HTTP/2 client may have taken back before anybody looked at them. More are an attack, and end the connection;
/// so many come from a proxy whose requests time out several times while this machine stands still.
pub const TAKEN_BACK: usize = 1_000;
/// Bytes that an HTTP/2 client may send before they are read: on one stream, and on the whole connection.
pub const WINDOWS: (u32, u32) = (64 << 10, 256 << 10);
/// Bytes of the bodies of all requests that wait for the rest, or for their answer, and of answers until they have been sent.
pub const BODIES: usize = 64 << 20;
/// Bytes of a message about health or reflection.
pub const SMALL_MESSAGE: usize = 64 << 10;
/// Requests in one body of `/v1/check`.
pub const REQUESTS: usize = 1000;
/// How long a request's headers may take to come.
pub const HEADER_TIME: Duration = Duration::from_secs(10);
/// How long a request may take in all.
pub const REQUEST_TIME: Duration = Duration::from_secs(10);
/// How long a TLS handshake may take.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// How long nothing may be heard on a connection, or none of its answers be taken.
pub const IDLE_TIME: Duration = Duration::from_secs(75);
/// How often an HTTP/2 client is asked whether it is still there, when nothing is heard.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long its answer may take.
pub const PING_TIME: Duration = Duration::from_secs(10);

/// Connections, if there can be so many files.
const CONNECTIONS: usize = 20_000;
/// Files that are needed for other than connections.
const OTHER_FILES: u64 = 256;

/// How many connections there may be at once, over all listeners. It lets this process have as many files as it may.
pub fn connections() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return CONNECTIONS };
    let wanted = (CONNECTIONS as u64).saturating_add(OTHER_FILES).min(hard);
    let files =
        if soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() { wanted } else { soft };
    let most = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(CONNECTIONS);
    most.clamp(1, CONNECTIONS)
}
