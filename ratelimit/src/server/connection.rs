//! One connection: HTTP/1 or HTTP/2, with limits on what a client may send and how long it may take.

use std::{convert::Infallible, net::IpAddr, pin::pin, sync::Arc, time::Instant};

use axum::{Router, body::Body, response::IntoResponse as _};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::timeout,
};
use tower_service::Service as _;

use super::{
    activity::{self, Activity, Noted},
    budget::{Budget, Full},
    deadline, grpc, limits,
    stats::Stats,
    web::Problem,
};

/// What the servers are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Answering.
    Serving,
    /// Answering those who are connected, and telling them to go.
    Leaving,
    /// Answering what has been asked.
    Ending,
}

/// Which protocols a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC, so HTTP/2 only.
    Grpc,
    /// HTTP/1 and HTTP/2.
    Http,
}

impl Protocol {
    /// As TLS names them, the preferred one first.
    pub const fn alpn(self) -> &'static [&'static [u8]] {
        match self {
            Self::Grpc => &[b"h2"],
            Self::Http => &[b"h2", b"http/1.1"],
        }
    }
}

/// The address at the other end; none on a Unix socket.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub Option<IpAddr>);

/// What a connection is served with.
#[derive(Clone, Debug)]
pub struct Site {
    /// What is spoken.
    pub protocol: Protocol,
    /// Who answers.
    pub router: Router,
    /// What bodies may hold.
    pub budget: Arc<Budget>,
    /// What is counted.
    pub stats: Arc<Stats>,
    /// What the servers are doing.
    pub phase: watch::Receiver<Phase>,
}

/// Answers what is asked on a connection until it ends.
pub async fn serve<I>(io: I, peer: PeerAddress, site: Site)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let activity = Activity::new(site.protocol);
    let io = TokioIo::new(Noted::new(io, Arc::clone(&activity)));
    let (builder, mut phase) = (builder(site.protocol), site.phase.clone());
    let client = Arc::new(Client { peer, site, activity: Arc::clone(&activity) });
    let service = hyper::service::service_fn(move |request| {
        client.activity.begin_answer();
        answer(Arc::clone(&client), request)
    });
    let mut connection = pin!(builder.serve_connection(io, service));
    let serving = async {
        tokio::select! {
            // What a connection ends with, such as a client that is gone, is no news.
            _ = connection.as_mut() => return,
            ending = phase.wait_for(|phase| *phase == Phase::Ending) => drop(ending),
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.as_mut().await;
    };
    activity::within(&activity, serving).await;
}

/// Who is served.
struct Client {
    peer: PeerAddress,
    site: Site,
    activity: Arc<Activity>,
}

async fn answer(client: Arc<Client>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (site, start) = (&client.site, Instant::now());
    let is_http1 = request.version() < http::Version::HTTP_2;
    let (mut head, body) = request.into_parts();
    head.extensions.insert(client.peer);
    // What is read of the body is held until there is an answer.
    let (share, body) = site.budget.meter(body);
    let time = deadline::of(site.protocol, &head.headers);
    let answering = site.router.clone().call(Request::from_parts(head, body));
    let answered = if time.is_zero() { None } else { timeout(time, answering).await.ok().transpose()? };
    let mut response = answered.unwrap_or_else(|| deadline::exceeded(site.protocol));
    let is_refused = share.was_refused();
    if is_refused {
        response = no_room(site.protocol);
    }
    if is_refused || (site.protocol == Protocol::Grpc && grpc::is_unreadable(&response)) {
        site.stats.refused_request();
    }
    drop(share);
    if is_http1 && *site.phase.borrow() > Phase::Serving {
        let close = http::HeaderValue::from_static("close");
        response.headers_mut().insert(http::header::CONNECTION, close);
    }
    client.activity.end_answer();
    site.stats.answered(site.protocol, start.elapsed());
    Ok(response)
}

fn no_room(protocol: Protocol) -> Response<Body> {
    match protocol {
        Protocol::Grpc => tonic::Status::resource_exhausted(Full.to_string()).into_http(),
        Protocol::Http => Problem::new(StatusCode::SERVICE_UNAVAILABLE, Full).into_response(),
    }
}

fn builder(protocol: Protocol) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        // That is for `Activity` to see, with fewer timers.
        .header_read_timeout(None)
        .max_buf_size(limits::HEADERS as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(limits::HEADERS)
        .max_concurrent_streams(limits::STREAMS)
        .initial_stream_window_size(limits::WINDOWS.0)
        .initial_connection_window_size(limits::WINDOWS.1)
        .keep_alive_interval(limits::PING_INTERVAL)
        .keep_alive_timeout(limits::PING_TIME);
    match protocol {
        Protocol::Grpc => builder.http2_only(),
        Protocol::Http => builder,
    }
}
