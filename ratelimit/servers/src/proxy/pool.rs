//! Connections to one server that can be used again: those over HTTP/1 one request at a time, those over HTTP/2 by
//! many.

use std::{
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use hyper::client::conn::{http1, http2};

use super::body::Upload;

/// How long a connection is kept without a request: less than servers do, the shortest of which is 5 seconds, so that a
/// request rarely meets one that is about to be closed.
pub const KEPT: Duration = Duration::from_secs(4);
/// Connections that are kept without a request.
const MOST_IDLE: usize = 1_000;
/// Requests at once on a connection over HTTP/2, as far as there can be more connections: as many as any server should
/// take.
const MOST_ON_EACH: usize = 100;
/// Connections over HTTP/2 at most.
const MOST_SHARED: usize = 64;

/// What sends requests on a connection over HTTP/1.
pub type Alone = http1::SendRequest<Upload>;
/// The same over HTTP/2.
pub type Shared = http2::SendRequest<Upload>;

/// Connections to a server.
#[derive(Debug, Default)]
pub struct Pool {
    idle: Mutex<Vec<Idle>>,
    shared: Mutex<Vec<InUse>>,
    /// Held by who makes a connection over HTTP/2, for which others wait.
    pub connecting: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Idle {
    connection: Alone,
    since: Instant,
}

#[derive(Debug)]
struct InUse {
    connection: Shared,
    requests: Arc<AtomicUsize>,
}

/// A connection on which a request is answered.
#[derive(Debug)]
pub enum Lease {
    /// Over HTTP/1.
    Alone(Alone),
    /// Over HTTP/2.
    Shared(StreamPermit),
}

/// A request on a connection over HTTP/2, until this is dropped.
#[derive(Debug)]
pub struct StreamPermit(Arc<AtomicUsize>);

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// What is locked here is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A connection over HTTP/1 that was used last.
    pub fn take(&self) -> Option<Alone> {
        let mut idle = lock(&self.idle);
        while let Some(last) = idle.pop() {
            if last.since.elapsed() >= KEPT {
                // All others are older.
                idle.clear();
                return None;
            }
            if !last.connection.is_closed() {
                return Some(last.connection);
            }
        }
        None
    }

    /// Lets the connection be used again on which a request has come to its end. One over HTTP/2 is never away.
    pub fn take_back(&self, lease: Lease) {
        let Lease::Alone(connection) = lease else { return };
        if connection.is_closed() {
            return;
        }
        let mut idle = lock(&self.idle);
        if idle.len() < MOST_IDLE {
            idle.push(Idle { connection, since: Instant::now() });
        }
    }

    /// Ends what was not used for long.
    pub fn sweep(&self) {
        let mut idle = lock(&self.idle);
        let old = idle.iter().take_while(|one| one.since.elapsed() >= KEPT).count();
        let ended: Vec<Idle> = idle.drain(..old).collect();
        if idle.is_empty() {
            idle.shrink_to_fit();
        }
        drop(idle);
        let closed = {
            let mut shared = lock(&self.shared);
            let (open, closed): (Vec<_>, Vec<_>) =
                mem::take(&mut *shared).into_iter().partition(|one| !one.connection.is_closed());
            *shared = open;
            closed
        };
        drop((ended, closed));
    }

    /// A place on a connection over HTTP/2.
    pub fn share(&self) -> Option<(Shared, StreamPermit)> {
        let mut shared = lock(&self.shared);
        shared.retain(|one| !one.connection.is_closed());
        let is_full = shared.len() >= MOST_SHARED;
        let least = shared.iter().min_by_key(|one| one.requests.load(Relaxed))?;
        let has_room = least.requests.load(Relaxed) < MOST_ON_EACH;
        (has_room || is_full).then(|| least.take())
    }

    /// Lets others use a new connection over HTTP/2.
    pub fn add(&self, connection: Shared) -> (Shared, StreamPermit) {
        let one = InUse { connection, requests: Arc::default() };
        let turn = one.take();
        lock(&self.shared).push(one);
        turn
    }
}

impl InUse {
    fn take(&self) -> (Shared, StreamPermit) {
        self.requests.fetch_add(1, Relaxed);
        (self.connection.clone(), StreamPermit(Arc::clone(&self.requests)))
    }
}
