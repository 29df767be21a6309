//! One server: sending it a request, on a connection that is there or a new one, and which server is next.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use futures_util::future::Either;
use http::{HeaderValue, Method, Request, Response, Uri, Version, header, uri::PathAndQuery};
use hyper::body::{Body as _, Incoming};
use tracing::warn;

use super::{
    body::{Progress, Upload},
    connect::{Connection, TlsTo, UpstreamAddresses, connect},
    failure::UpstreamFailure,
    pool::{Alone, Lease, Pool, Shared, StreamPermit},
    stats::UpstreamStats,
};
use crate::policy::{
    Prefix,
    application::{Balance, Scheme, UpstreamUrl},
};

/// How long a server is left alone that can't be connected to, as long as others answer.
const LEFT_ALONE: Duration = Duration::from_secs(5);
/// How often it is said at most that a server fails.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// A server.
#[derive(Debug)]
pub struct Upstream {
    /// Where it is.
    pub url: UpstreamUrl,
    /// What is counted of it.
    pub stats: UpstreamStats,
    /// Where it is now.
    pub addresses: UpstreamAddresses,
    tls: ArcSwapOption<TlsTo>,
    pool: Pool,
    left_alone_until: Mutex<Option<Instant>>,
    said: Mutex<Option<Instant>>,
}

/// A request that a server has yet to answer, until this is dropped.
#[derive(Debug)]
pub struct InFlight(Arc<Upstream>);

impl InFlight {
    /// The server.
    pub fn upstream(&self) -> &Upstream {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.stats.ended();
    }
}

/// How a request is sent.
#[derive(Debug)]
pub struct How {
    /// Path and query.
    pub target: PathAndQuery,
    /// What is sent as `Host`, or as the authority.
    pub authority: HeaderValue,
    /// Whether it asks for a WebSocket.
    pub is_upgrade: bool,
    /// Whether trailers are welcome.
    pub takes_trailers: bool,
    /// How long connecting may take.
    pub connect: Duration,
    /// How long the beginning of the answer may take.
    pub response: Duration,
    /// How far the request's body has come.
    pub progress: Arc<Progress>,
}

/// Why there is no answer.
pub enum NoAnswer {
    /// Nothing was sent, so that another server can be asked.
    Unsent(UpstreamFailure),
    /// The request may have been carried out.
    Failed(UpstreamFailure),
}

/// An answer that begins.
pub type Begun = (Response<Incoming>, Lease);

impl Upstream {
    pub fn new(url: UpstreamUrl) -> Self {
        Self {
            url,
            stats: UpstreamStats::default(),
            addresses: UpstreamAddresses::default(),
            tls: ArcSwapOption::empty(),
            pool: Pool::default(),
            left_alone_until: Mutex::default(),
            said: Mutex::default(),
        }
    }

    /// Whether it has an address there, as far as that is known.
    pub fn is_in(&self, network: &Prefix) -> bool {
        let named = self.url.host.parse::<IpAddr>().ok();
        let known = self.addresses.known().into_iter().map(|address| address.ip());
        named.into_iter().chain(known).any(|address| network.contains(&address.to_canonical().into()))
    }

    /// Counts a request.
    pub fn begin(self: &Arc<Self>) -> InFlight {
        self.stats.begun();
        InFlight(Arc::clone(self))
    }

    /// Lets a connection be used again on which a request has come to its end.
    pub fn take_back(&self, lease: Lease) {
        self.pool.take_back(lease);
    }

    /// Puts in force how it is trusted.
    pub fn trust(&self, tls: Option<TlsTo>) {
        self.tls.store(tls.map(Arc::new));
    }

    /// Ends connections that were not used for long.
    pub fn sweep(&self) {
        self.pool.sweep();
    }

    fn is_left_alone(&self) -> bool {
        let until = *self.left_alone_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| until > Instant::now())
    }

    /// Notes that it failed.
    pub fn failed(&self, failure: UpstreamFailure) {
        self.stats.failed(failure);
        if failure.is_before_request() {
            let until = Instant::now() + LEFT_ALONE;
            *self.left_alone_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        }
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|said| said.elapsed() >= SAY_AGAIN) {
            *said = Some(Instant::now());
            warn!(upstream = %self.url, reason = failure.name(), "the server {}", failure.what());
        }
    }

    /// Sends a request and waits for the beginning of its answer. What was not sent stays where it is.
    ///
    /// # Errors
    /// There is none.
    pub async fn send(&self, request: &mut Option<Request<Upload>>, how: &How) -> Result<Begun, NoAnswer> {
        loop {
            let (connection, is_new) = match self.reuse(how) {
                Some(connection) => (connection, false),
                // In a box, so that requests on connections that are there do not carry all that connecting takes.
                None => match Box::pin(self.connect(how)).await {
                    Ok(connection) => (connection, true),
                    Err(failure) => return Err(NoAnswer::Unsent(failure)),
                },
            };
            match connection.send(request, how, self.url.scheme).await {
                // One that was there may have been closed before anything was sent on it.
                Err(NoAnswer::Unsent(_)) if !is_new => {}
                done => return done,
            }
        }
    }

    fn reuse(&self, how: &How) -> Option<Ready> {
        let share = || self.pool.share().map(|(connection, turn)| Ready::Shared(connection, turn));
        let take = || self.pool.take().map(Ready::Alone);
        match self.url.scheme {
            Scheme::Http => take(),
            Scheme::H2c => share(),
            Scheme::Https if how.is_upgrade => take(),
            Scheme::Https => share().or_else(take),
        }
    }

    async fn connect(&self, how: &How) -> Result<Ready, UpstreamFailure> {
        let tls = self.tls.load_full();
        let connecting = connect(&self.url, &self.addresses, tls.as_deref(), how.is_upgrade, how.connect);
        if self.url.scheme != Scheme::H2c {
            return Ok(self.ready(connecting.await?));
        }
        // Those who come meanwhile use the same one.
        let _alone = self.pool.connecting.lock().await;
        match self.reuse(how) {
            Some(ready) => Ok(ready),
            None => Ok(self.ready(connecting.await?)),
        }
    }

    fn ready(&self, connection: Connection) -> Ready {
        match connection {
            Connection::Alone(connection) => Ready::Alone(connection),
            Connection::Shared(connection) => {
                let (connection, turn) = self.pool.add(connection);
                Ready::Shared(connection, turn)
            }
        }
    }
}

/// A connection for one request.
enum Ready {
    Alone(Alone),
    Shared(Shared, StreamPermit),
}

impl Ready {
    async fn send(
        mut self,
        request: &mut Option<Request<Upload>>,
        how: &How,
        scheme: Scheme,
    ) -> Result<Begun, NoAnswer> {
        const UNSENT: NoAnswer = NoAnswer::Unsent(UpstreamFailure::Closed);
        let ready = match &mut self {
            Self::Alone(connection) => connection.ready().await,
            Self::Shared(connection, _) => connection.ready().await,
        };
        let Some(outgoing) = request.take_if(|_| ready.is_ok()) else { return Err(UNSENT) };
        let (sending, lease) = match self {
            Self::Alone(mut connection) => {
                let sending = connection.try_send_request(of_http1(outgoing, how));
                (Either::Left(sending), Lease::Alone(connection))
            }
            Self::Shared(mut connection, turn) => {
                let sending = connection.try_send_request(of_http2(outgoing, how, scheme));
                (Either::Right(sending), Lease::Shared(turn))
            }
        };
        let sent = how.progress.wait(sending, how.response).await;
        match sent {
            None => Err(NoAnswer::Failed(UpstreamFailure::ResponseTimeout)),
            Some(Ok(response)) => Ok((response, lease)),
            Some(Err(mut error)) => Err(match error.take_message() {
                Some(unsent) => {
                    *request = Some(unsent);
                    UNSENT
                }
                None => NoAnswer::Failed(UpstreamFailure::of_answer(error.error())),
            }),
        }
    }
}

/// A request as it is over HTTP/1.
fn of_http1(mut request: Request<Upload>, how: &How) -> Request<Upload> {
    *request.version_mut() = Version::HTTP_11;
    *request.uri_mut() = Uri::from(how.target.clone());
    let has_body = !request.body().is_end_stream();
    let length = request.body().size_hint().exact();
    let needs_length = [Method::POST, Method::PUT, Method::PATCH].contains(request.method());
    let headers = request.headers_mut();
    headers.insert(header::HOST, how.authority.clone());
    match length {
        Some(length) if has_body || needs_length => {
            drop(headers.insert(header::CONTENT_LENGTH, length.into()))
        }
        None if has_body => {
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        _ => {}
    }
    if how.is_upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    } else if how.takes_trailers {
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    request
}

/// A request as it is over HTTP/2.
fn of_http2(mut request: Request<Upload>, how: &How, scheme: Scheme) -> Request<Upload> {
    *request.version_mut() = Version::HTTP_2;
    let scheme = if scheme == Scheme::Https { "https" } else { "http" };
    let authority = how.authority.as_bytes();
    let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(how.target.clone()).build();
    // What hosts and targets are was seen when the request came.
    *request.uri_mut() = uri.unwrap_or_else(|_| Uri::from(how.target.clone()));
    let length = request.body().size_hint().exact().filter(|length| *length > 0);
    let headers = request.headers_mut();
    for name in [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::TE] {
        headers.remove(name);
    }
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    if how.takes_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    request
}

/// The servers of a route.
#[derive(Debug)]
pub struct UpstreamGroup {
    upstreams: Vec<Arc<Upstream>>,
    balance: Balance,
    next: AtomicUsize,
}

impl UpstreamGroup {
    pub const fn new(upstreams: Vec<Arc<Upstream>>, balance: Balance) -> Self {
        Self { upstreams, balance, next: AtomicUsize::new(0) }
    }

    /// The servers.
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// The places of its servers, in the order in which they are to be asked.
    pub fn order(&self) -> Vec<usize> {
        let count = self.upstreams.len();
        if count <= 1 {
            return (0..count).collect();
        }
        let first = self.next.fetch_add(1, Relaxed);
        let mut order: Vec<usize> = (0..count).map(|place| first.wrapping_add(place) % count).collect();
        let of = |place: &usize| self.upstreams.get(*place);
        let requests = |place: &usize| of(place).map_or(0, |upstream| upstream.stats.in_flight());
        let is_left_alone = |place: &usize| of(place).is_some_and(|upstream| upstream.is_left_alone());
        match self.balance {
            Balance::RoundRobin => order.sort_by_cached_key(is_left_alone),
            Balance::LeastRequests => {
                order.sort_by_cached_key(|place| (is_left_alone(place), requests(place)))
            }
        }
        order
    }
}

#[cfg(test)]
mod tests;
