//! One connection: HTTP/1 or HTTP/2, with limits on what a client may send and how long it may take.

use std::{
    convert::Infallible, future::poll_fn, mem, net::IpAddr, pin::pin, sync::Arc, task::Poll, time::Duration,
};

use axum::body::Body;
use http::{HeaderMap, Request, Response};
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

use super::{
    activity::{self, Activity, Answering, Noted},
    bounds::{Bounds, PING_INTERVAL, PING_TIME, TAKEN_BACK, Versions, WINDOWS},
    budget::{Budget, Metered},
    held::Held,
    linger::Lingering,
};

/// How long clients that wait for no answer may take to go at the end: what they ask may be on its way.
const FAREWELL: Duration = Duration::from_secs(2);

/// What whoever serves is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Answering.
    Serving,
    /// Answering those who are connected, and telling them to go.
    Leaving,
    /// Answering what has been asked.
    Ending,
}

/// The address at the other end; none on a Unix socket.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub Option<IpAddr>);

/// Who answers at a listener, and hears what happens there.
pub trait Handler: Clone + Send + Sync + 'static {
    /// The answer to a request.
    fn answer(
        &self,
        peer: PeerAddress,
        request: Request<Metered>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + Send;

    /// The answer where there is no room for a body, or for the answer itself. Whoever fills it must not pass by that.
    fn no_room(&self, path: &str) -> Response<Body>;

    /// The answer to a request whose time is over.
    fn too_late(&self) -> Response<Body>;

    /// The time that a client gives its request by these headers, if it does.
    fn deadline(&self, _: &HeaderMap) -> Option<Duration> {
        None
    }

    /// A request was answered, so long after it came.
    fn answered(&self, _: &Response<Body>, _: Duration) {}

    /// A connection was taken.
    fn opened(&self) {}

    /// A connection is gone.
    fn closed(&self) {}

    /// A connection was refused because there are too many.
    fn refused(&self) {}
}

/// What the connections of a listener are served with.
#[derive(Clone, Debug)]
pub struct Endpoint<H> {
    /// Who answers.
    pub handler: H,
    /// What is borne.
    pub bounds: Bounds,
    /// What bodies may hold.
    pub budget: Arc<Budget>,
    /// What whoever serves is doing.
    pub phase: watch::Receiver<Phase>,
}

impl<H> Endpoint<H> {
    /// Waits until nothing is answered but what has been asked.
    pub(super) fn ending(&self) -> impl Future<Output = ()> + Send + use<H> {
        let mut phase = self.phase.clone();
        async move { drop(phase.wait_for(|phase| *phase == Phase::Ending).await) }
    }
}

/// What bytes come and go by.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Answers what is asked on a connection until it ends.
pub(super) async fn serve<H: Handler>(
    io: Box<dyn Stream>,
    peer: PeerAddress,
    activity: Arc<Activity>,
    endpoint: Endpoint<H>,
) {
    let io = Lingering::new(io, Arc::clone(&activity));
    let io = TokioIo::new(Noted::new(io, Arc::clone(&activity)));
    let (builder, ending) = (builder(&endpoint.bounds), endpoint.ending());
    let client = Arc::new(Client { peer, endpoint });
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
struct Client<H> {
    peer: PeerAddress,
    endpoint: Endpoint<H>,
}

async fn answer<H: Handler>(
    client: Arc<Client<H>>,
    answering: Answering,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (Endpoint { handler, bounds, budget, phase }, start) = (&client.endpoint, answering.since());
    let is_http1 = request.version() < http::Version::HTTP_2;
    let (head, body) = request.into_parts();
    let uri = head.uri.clone();
    // What is read of the body is held until there is an answer.
    let (share, body) = budget.meter(body);
    let time = handler.deadline(&head.headers).into_iter().chain(bounds.times.request).min();
    let answer = handler.answer(client.peer, Request::from_parts(head, body));
    let answered = match time {
        None => Some(answer.await?),
        Some(Duration::ZERO) => None,
        Some(time) => timeout_at(start + time, answer).await.ok().transpose()?,
    };
    let mut response = answered.unwrap_or_else(|| handler.too_late());
    let (was_refused, is_whole) = (share.was_refused(), share.is_whole());
    // What is still to come of a stream is looked at message by message.
    let share = if is_whole { share } else { budget.share(false) };
    let body = mem::take(response.body_mut());
    match Held::hold(body, share, answering).await {
        Ok(body) if !was_refused => *response.body_mut() = body,
        _ => response = handler.no_room(uri.path()),
    }
    // What has not been read of a body is not looked for on the connection.
    if is_http1 && (!is_whole || *phase.borrow() > Phase::Serving) {
        let close = http::HeaderValue::from_static("close");
        response.headers_mut().insert(http::header::CONNECTION, close);
    }
    handler.answered(&response, start.elapsed());
    Ok(response)
}

fn builder(bounds: &Bounds) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        // That is for `Activity` to see, with fewer timers.
        .header_read_timeout(None)
        // Who has said all still gets the answer; and nothing is read, nor room made for it, before that is sent.
        .half_close(true)
        // Answers are short: one piece of memory is sent faster than two.
        .writev(false)
        .max_buf_size(bounds.headers as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(bounds.headers)
        .max_concurrent_streams(bounds.streams)
        .max_pending_accept_reset_streams(TAKEN_BACK)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIME);
    match bounds.versions {
        Versions::Http1 => builder.http1_only(),
        Versions::Http2 => builder.http2_only(),
        Versions::Both => builder,
    }
}
