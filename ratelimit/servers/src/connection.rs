//! One connection: HTTP/1 or HTTP/2, with limits on what a client may send and how long it may take.

use std::{convert::Infallible, future::poll_fn, mem, net::IpAddr, pin::pin, sync::Arc, task::Poll};

use axum::{Router, body::Body};
use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::{timeout, timeout_at},
};
use tower_service::Service as _;

use super::{
    FAREWELL,
    activity::{self, Activity, Answering, Noted},
    budget::{Budget, Full, Metered},
    deadline, grpc,
    held::Held,
    limits,
    linger::Lingering,
    state::State,
    stats::Stats,
    unjudged::Unjudged,
    web,
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

/// Who answers, and in which protocol.
#[derive(Clone, Debug)]
pub enum Answerer {
    /// The services of gRPC: the router has those that are not asked about requests.
    Grpc(Arc<State>, Router),
    /// The routes of HTTP.
    Http(Arc<State>),
}

impl Answerer {
    /// What is spoken.
    pub const fn protocol(&self) -> Protocol {
        match self {
            Self::Grpc(..) => Protocol::Grpc,
            Self::Http(_) => Protocol::Http,
        }
    }

    async fn answer(
        &self,
        peer: PeerAddress,
        request: Request<Metered>,
    ) -> Result<Response<Body>, Infallible> {
        match self {
            Self::Grpc(state, _) if request.uri().path() == grpc::SHOULD_RATE_LIMIT => {
                Ok(grpc::should_rate_limit(state, request.into_body()).await)
            }
            Self::Grpc(_, router) => router.clone().call(request).await,
            Self::Http(state) => Ok(web::answer(state, peer, request).await),
        }
    }

    /// The answer where there is no room for a body, or for the answer itself. Whoever fills it must not pass by that.
    fn no_room(&self, path: &str) -> Response<Body> {
        match self {
            Self::Grpc(state, _) if path == grpc::SHOULD_RATE_LIMIT => {
                state.stats().unjudged(Unjudged::NoRoom);
                grpc::unjudged(state)
            }
            Self::Grpc(state, _) => {
                state.stats().refused_request();
                tonic::Status::resource_exhausted(Full.to_string()).into_http()
            }
            Self::Http(state) => web::no_room(state, path),
        }
    }
}

/// What a connection is served with.
#[derive(Clone, Debug)]
pub struct Site {
    /// Who answers.
    pub answerer: Answerer,
    /// What bodies may hold.
    pub budget: Arc<Budget>,
    /// What is counted.
    pub stats: Arc<Stats>,
    /// What the servers are doing.
    pub phase: watch::Receiver<Phase>,
}

impl Site {
    /// Waits until nothing is answered but what has been asked.
    pub fn ending(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut phase = self.phase.clone();
        async move { drop(phase.wait_for(|phase| *phase == Phase::Ending).await) }
    }
}

/// Answers what is asked on a connection until it ends.
pub async fn serve<I>(io: I, peer: PeerAddress, site: Site)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let protocol = site.answerer.protocol();
    let activity = Activity::new();
    let io = Lingering::new(io, Arc::clone(&activity));
    let io = TokioIo::new(Noted::new(io, Arc::clone(&activity)));
    let (builder, ending) = (builder(protocol), site.ending());
    let client = Arc::new(Client { peer, site });
    let asked = Arc::clone(&activity);
    let service = service_fn(move |request| answer(Arc::clone(&client), asked.answer(), request));
    let mut connection = pin!(builder.serve_connection(io, service));
    let serving = async {
        tokio::select! {
            // What a connection ends with, such as a client that is gone, is no news.
            _ = connection.as_mut() => return,
            () = ending => {}
        }
        // Whose request has begun to come is not told that it is too late.
        let is_at_its_end = poll_fn(|context| match connection.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if activity.is_reading_headers() => Poll::Pending,
            Poll::Pending => Poll::Ready(false),
        });
        if is_at_its_end.await {
            return;
        }
        connection.as_mut().graceful_shutdown();
        // Who waits for nothing may never hear that it is to go, or have a stream that goes on.
        while timeout(FAREWELL, connection.as_mut()).await.is_err() && activity.is_awaited() {}
    };
    activity::within(&activity, serving).await;
}

/// Who is served.
struct Client {
    peer: PeerAddress,
    site: Site,
}

async fn answer(
    client: Arc<Client>,
    answering: Answering,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (site, start) = (&client.site, answering.since());
    let (protocol, is_http1) = (site.answerer.protocol(), request.version() < http::Version::HTTP_2);
    let (head, body) = request.into_parts();
    let uri = head.uri.clone();
    // What is read of the body is held until there is an answer.
    let (share, body) = site.budget.meter(body);
    let time = deadline::of(protocol, &head.headers);
    let answer = site.answerer.answer(client.peer, Request::from_parts(head, body));
    let answered =
        if time.is_zero() { None } else { timeout_at(start + time, answer).await.ok().transpose()? };
    let mut response = answered.unwrap_or_else(|| deadline::exceeded(protocol));
    let (was_refused, is_whole) = (share.was_refused(), share.is_whole());
    // What is still to come of a stream is looked at message by message.
    let share = if is_whole { share } else { site.budget.share(false) };
    let body = mem::take(response.body_mut());
    match Held::hold(body, share, answering).await {
        Ok(body) if !was_refused => *response.body_mut() = body,
        _ => response = site.answerer.no_room(uri.path()),
    }
    if protocol == Protocol::Grpc && grpc::is_unreadable(&response) {
        site.stats.refused_request();
    }
    // What has not been read of a body is not looked for on the connection.
    if is_http1 && (!is_whole || *site.phase.borrow() > Phase::Serving) {
        let close = http::HeaderValue::from_static("close");
        response.headers_mut().insert(http::header::CONNECTION, close);
    }
    site.stats.answered(protocol, start.elapsed());
    Ok(response)
}

fn builder(protocol: Protocol) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        // That is for `Activity` to see, with fewer timers.
        .header_read_timeout(None)
        // Who has said all still gets the answer; and nothing is read, nor room made for it, before that is sent.
        .half_close(true)
        // Answers are short: one piece of memory is sent faster than two.
        .writev(false)
        .max_buf_size(limits::HEADERS as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(limits::HEADERS)
        .max_concurrent_streams(match protocol {
            Protocol::Grpc => limits::GRPC_STREAMS,
            Protocol::Http => limits::STREAMS,
        })
        .max_pending_accept_reset_streams(limits::TAKEN_BACK)
        .initial_stream_window_size(limits::WINDOWS.0)
        .initial_connection_window_size(limits::WINDOWS.1)
        .keep_alive_interval(limits::PING_INTERVAL)
        .keep_alive_timeout(limits::PING_TIME);
    match protocol {
        Protocol::Grpc => builder.http2_only(),
        Protocol::Http => builder,
    }
}
