//! The reverse proxy: requests come in at its listeners, are judged by what they are themselves, and those that may go
//! on are passed on to servers, as are the answers to clients.
//!
//! `request` brings a request into one form, `facts` shows it to the limiter, `table` says where it goes, `exchange`
//! passes it on and `body` its bytes. Nothing is kept: not answers, nor bodies beyond the piece that is on its way.

mod answer;
mod body;
mod connect;
mod exchange;
mod facts;
mod failure;
mod headers;
mod pool;
mod request;
mod route_table;
mod stats;
mod tunnel;
mod upstream;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use axum::body::Body;
use http::{Request, Response, Version};
use hyper::body::{Body as _, Incoming};
use serde::{Deserialize, Serialize};

use self::{
    exchange::ProxyExchange,
    route_table::{RouteTable, Upstreams},
};
pub use self::{
    failure::UpstreamFailure,
    route_table::Fresh as FreshRoutes,
    stats::{ProxyStats, Turned},
};
use crate::{
    context::ServeContext,
    policy::{
        Prefix,
        application::{ProxyListener, ProxyProtocol, UpstreamUrl},
    },
    serving::{
        Announcers, AnswerGuard, Bounds, Budget, Client, ConnectionTimeouts, Exchange, Versions, close_after,
    },
    tls::TlsError,
};

/// What is spoken at listeners with TLS, the preferred one first.
pub const ALPN: &[&[u8]] = &[b"h2", b"http/1.1"];

/// What is borne on a connection. How long servers take is for their routes to say.
pub const BOUNDS: Bounds = Bounds {
    versions: Versions::Both,
    headers: 64 << 10,
    streams: 1_000,
    send_buffer: 64 << 10,
    times: ConnectionTimeouts {
        headers: Duration::from_secs(10),
        request: None,
        idle: Duration::from_secs(75),
        answer: Some(Duration::from_secs(60)),
        silence: None,
        lifetime: None,
    },
};

/// Answers at once that there is no place for a request. A client gets half of them at most: all requests of two
/// connections over HTTP/2.
const REFUSALS: usize = 4_000;

/// All listeners of the proxy, and the servers behind it.
#[derive(Debug)]
pub struct Proxy {
    upstreams: Upstreams,
    /// What each listener does, in their order.
    tables: Vec<ArcSwap<RouteTable>>,
    /// Room for requests on their way, until their clients have taken the answers.
    places: Arc<Budget>,
    /// Room for answers that there is no place, likewise.
    refusals: Arc<Budget>,
    stats: ProxyStats,
}

/// A server, for who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamStatus {
    /// Its URL.
    pub url: String,
    /// The addresses that its name has now.
    pub addresses: Vec<String>,
    /// Requests that it was given.
    pub requests: u64,
    /// Requests that it has yet to answer.
    pub in_flight: u64,
    /// How often it failed, in all ways together.
    pub failures: u64,
}

/// What a server has done, for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamCounts {
    /// Requests that it was given.
    pub requests: u64,
    /// Requests that it has yet to answer.
    pub in_flight: u64,
    /// How often it failed in which way.
    pub failures: [u64; UpstreamFailure::ALL.len()],
}

impl Proxy {
    /// A proxy with these listeners, and with room for so many requests at once.
    ///
    /// # Errors
    /// Certificates to trust can't be read.
    pub fn new(listeners: &[ProxyListener], requests: usize) -> Result<Arc<Self>, TlsError> {
        let upstreams = Upstreams::default();
        let tables = upstreams.read(listeners)?.put_in_force(&upstreams);
        Ok(Arc::new(Self {
            upstreams,
            tables: tables.into_iter().map(ArcSwap::from_pointee).collect(),
            places: Budget::without_reserve(requests),
            refusals: Budget::without_reserve(REFUSALS),
            stats: ProxyStats::default(),
        }))
    }

    /// Reads what another configuration says of the same listeners.
    ///
    /// # Errors
    /// Certificates to trust can't be read. All stays as it was then.
    pub fn read(&self, listeners: &[ProxyListener]) -> Result<FreshRoutes, TlsError> {
        self.upstreams.read(listeners)
    }

    /// Puts it in force.
    pub fn put_in_force(&self, fresh: FreshRoutes) {
        for (place, table) in self.tables.iter().zip(fresh.put_in_force(&self.upstreams)) {
            place.store(Arc::new(table));
        }
    }

    /// What is counted of requests that no server got.
    #[must_use]
    pub const fn stats(&self) -> &ProxyStats {
        &self.stats
    }

    /// A server with an address in a network, which must not be dropped.
    #[must_use]
    pub fn server_in(&self, network: &Prefix) -> Option<UpstreamUrl> {
        let upstreams = self.upstreams.all();
        upstreams.iter().find(|upstream| upstream.is_in(network)).map(|upstream| upstream.url.clone())
    }

    /// Its servers, by their names.
    #[must_use]
    pub fn status(&self) -> Vec<UpstreamStatus> {
        let of = |upstream: Arc<upstream::Upstream>| UpstreamStatus {
            url: upstream.url.to_string(),
            addresses: upstream.addresses.known().iter().map(ToString::to_string).collect(),
            requests: upstream.stats.requests(),
            in_flight: upstream.stats.in_flight(),
            failures: upstream.stats.failures().map(|(_, count)| count).sum(),
        };
        let mut all: Vec<UpstreamStatus> = self.upstreams.all().into_iter().map(of).collect();
        all.sort_by(|one, other| one.url.cmp(&other.url));
        all
    }

    /// What each server has done, by its URL: one that is trusted in two ways counts once.
    #[must_use]
    pub fn counts(&self) -> std::collections::BTreeMap<String, UpstreamCounts> {
        let mut all = std::collections::BTreeMap::new();
        for upstream in self.upstreams.all() {
            let counts: &mut UpstreamCounts = all.entry(upstream.url.to_string()).or_default();
            counts.requests += upstream.stats.requests();
            counts.in_flight += upstream.stats.in_flight();
            for (sum, (_, count)) in counts.failures.iter_mut().zip(upstream.stats.failures()) {
                *sum += count;
            }
        }
        all
    }

    /// Ends connections to servers that are not used, as long as there is a proxy.
    pub async fn sweep(this: Weak<Self>) {
        loop {
            tokio::time::sleep(pool::KEPT / 2).await;
            let Some(proxy) = this.upgrade() else { return };
            proxy.upstreams.all().iter().for_each(|upstream| upstream.sweep());
        }
    }
}

/// Who may say whom the connections of a listener come from.
pub fn announcers(protocol: &ProxyProtocol) -> Option<Announcers> {
    match protocol {
        ProxyProtocol::Off => None,
        ProxyProtocol::Always => Some(Announcers::All),
        ProxyProtocol::From(networks) => Some(Announcers::Networks(networks.clone())),
    }
}

/// Who answers at one listener.
#[derive(Clone, Debug)]
pub struct ProxyHandler {
    context: Arc<ServeContext>,
    proxy: Arc<Proxy>,
    /// The listener's place among all.
    place: usize,
}

impl ProxyHandler {
    pub const fn new(context: Arc<ServeContext>, proxy: Arc<Proxy>, place: usize) -> Self {
        Self { context, proxy, place }
    }
}

impl Exchange for ProxyHandler {
    async fn exchange(
        &self,
        client: &Client,
        mut answering: AnswerGuard,
        request: Request<Incoming>,
    ) -> Response<Body> {
        // Until there is something to take of an answer, it is for the proxy to bound how long that takes.
        answering.rests();
        let is_http1 = request.version() < Version::HTTP_2;
        let has_body = !request.body().is_end_stream();
        let Some(table) = self.proxy.tables.get(self.place).map(ArcSwap::load_full) else {
            return answer::turned(Turned::NoRoute);
        };
        let passing = ProxyExchange { context: &self.context, proxy: &self.proxy, table: &table, client };
        match passing.pass(answering, request).await {
            Ok(response) => response,
            Err(mut response) => {
                // What comes of its body is for nobody.
                if is_http1 && has_body {
                    close_after(&mut response);
                }
                *response
            }
        }
    }

    fn opened(&self) {
        self.context.stats().opened();
    }

    fn closed(&self) {
        self.context.stats().closed();
    }

    fn refused(&self) {
        self.context.stats().refused_one();
    }
}
