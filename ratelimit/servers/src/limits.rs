//! What the servers bear: sizes and numbers beyond which a request or a connection is refused, and the bounds of connections.

use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::serving::{Bounds, Times, Versions};

/// Bytes of a request's body or gRPC message.
pub const BODY: usize = 1 << 20;
/// Requests at once on one connection over gRPC. Gateways begin as many as their circuit breaker lets, by default 1,024, before they hear of a limit,
/// do not ask again about those that are refused, and let them pass.
pub const GRPC_STREAMS: u32 = 2_000;
/// Bytes of the bodies of all requests that wait for the rest, or for their answer, and of answers until they have been sent.
pub const BODIES: usize = 64 << 20;
/// Bytes of a message about health or reflection.
pub const SMALL_MESSAGE: usize = 64 << 10;
/// Requests in one body of `/v1/check`.
pub const REQUESTS: usize = 1000;
/// What is borne on a connection.
pub const BOUNDS: Bounds = Bounds {
    versions: Versions::Both,
    headers: 64 << 10,
    streams: 100,
    times: Times {
        headers: Duration::from_secs(10),
        request: Some(Duration::from_secs(10)),
        idle: IDLE_TIME,
        answer: Some(IDLE_TIME),
        lifetime: None,
    },
};
/// How long nothing may be heard on a connection, or none of its answers be taken.
const IDLE_TIME: Duration = Duration::from_secs(75);

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
