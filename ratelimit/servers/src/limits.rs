//! What the servers bear: sizes and numbers beyond which a request or a connection is refused, and the bounds of
//! connections.

use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::serving::{Bounds, ConnectionTimeouts, Versions};

/// Bytes of a request's body or gRPC message.
pub const BODY: usize = 1 << 20;
/// Requests at once on one connection over gRPC. Gateways begin as many as their circuit breaker lets, by default
/// 1,024, before they hear of a limit, do not ask again about those that are refused, and let them pass.
pub const GRPC_STREAMS: u32 = 2_000;
/// Bytes of all requests that wait for the rest of their body, or for their answer, and of answers until they have been
/// sent. A client gets half of it at most, and so many thousand requests at once.
pub const HELD: usize = 160 << 20;
/// Bytes of a message about health or reflection.
pub const SMALL_MESSAGE: usize = 64 << 10;
/// Requests in one body of `/v1/check`.
pub const REQUESTS: usize = 1000;
/// What is borne on a connection.
pub const BOUNDS: Bounds = Bounds {
    versions: Versions::Both,
    headers: 64 << 10,
    streams: 100,
    // One piece after the other: what waits is counted as long as its answer has more.
    send_buffer: 1,
    times: ConnectionTimeouts {
        headers: Duration::from_secs(10),
        request: Some(Duration::from_secs(10)),
        idle: IDLE_TIME,
        answer: Some(IDLE_TIME),
        silence: Some(IDLE_TIME),
        lifetime: None,
    },
};
/// How long nothing may be heard on a connection, or none of its answers be taken.
const IDLE_TIME: Duration = Duration::from_secs(75);

/// Connections, if there can be so many files.
const CONNECTIONS: usize = 20_000;
/// Files that are needed for other than connections.
const OTHER_FILES: u64 = 256;

/// Requests that are passed on at once, each with a connection to a server.
const REQUESTS_PASSED_ON: usize = 10_000;

/// How much there is room for.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Connections of who asks, over all listeners.
    pub questions: usize,
    /// Connections of the proxy's clients.
    pub clients: usize,
    /// Requests that are passed on at once.
    pub requests: usize,
}

/// How much there is room for, with a proxy or without. It lets this process have as many files as it may.
pub fn capacity(has_proxy: bool) -> Capacity {
    let parts = if has_proxy { [CONNECTIONS, CONNECTIONS, REQUESTS_PASSED_ON] } else { [CONNECTIONS, 0, 0] };
    let wanted: usize = parts.iter().sum();
    let free = files(wanted as u64 + OTHER_FILES).saturating_sub(OTHER_FILES);
    let free = usize::try_from(free).unwrap_or(wanted).min(wanted);
    // If there are fewer, each part gets its share.
    let [questions, clients, requests] = parts.map(|part| (part * free / wanted).max(1));
    Capacity { questions, clients, requests }
}

/// How many files this process may have open, if it can so many as are wanted.
fn files(wanted: u64) -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return wanted };
    let wanted = wanted.min(hard);
    if soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() { wanted } else { soft }
}
