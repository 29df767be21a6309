//! One connection: HTTP/1 or HTTP/2, with limits on what a client may send and how long it may take.

use std::{
    convert::Infallible,
    future::{pending, poll_fn},
    mem,
    net::IpAddr,
    pin::{Pin, pin},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::Poll,
    time::Duration,
};

use axum::body::Body;
use futures_util::future::Either;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::{
    body::{Body as _, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::{sleep, timeout, timeout_at},
};

use super::{
    activity::{self, Activity, AnswerGuard, Noted},
    bounds::{Bounds, PING_INTERVAL, PING_TIME, TAKEN_BACK, Versions, WINDOWS},
    budget::{Budget, Full, Holder, Metered, REQUEST, Share, held_by},
    budgeted_body::BudgetedBody,
    linger::Lingering,
};

/// How long clients that wait for no answer may take to go at the end: what they ask may be on its way.
const FAREWELL: Duration = Duration::from_secs(2);

/// How often a request that there is no room for looks for room to be told so, and how long it waits in between. It
/// holds little meanwhile.
const REFUSAL_TRIES: u32 = 10;
const REFUSAL_WAIT: Duration = Duration::from_millis(25);

/// What whoever serves is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Answering all who come.
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

/// Who answers at a listener, whatever bodies hold; what that is then is for it to bound, and how long it takes.
pub trait Exchange: Clone + Send + Sync + 'static {
    /// The answer to a request of a client.
    fn exchange(
        &self,
        client: &Client,
        answering: AnswerGuard,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// A connection was taken.
    fn opened(&self) {}

    /// A connection is gone.
    fn closed(&self) {}

    /// A connection was refused because there are too many.
    fn refused(&self) {}
}

/// A handler within bounds: each request in its time, and its body and answer within a budget.
#[derive(Clone, Debug)]
pub struct Bounded<H> {
    /// Who answers.
    pub handler: H,
    /// What requests and answers may hold.
    pub budget: Arc<Budget>,
    /// How long a request may take, from its headers to its answer; `None` if that is for the handler to say.
    pub time: Option<Duration>,
}

/// Who is served on a connection.
pub struct Client {
    /// Its address.
    pub peer: PeerAddress,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// What it holds of the budget.
    holder: OnceLock<Arc<Holder>>,
    /// What the connection becomes when its requests are over.
    afterwards: Mutex<Option<Afterwards>>,
}

type Afterwards = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Client {
    pub(super) const fn new(peer: PeerAddress, is_tls: bool) -> Self {
        Self { peer, is_tls, holder: OnceLock::new(), afterwards: Mutex::new(None) }
    }

    /// What it holds of the budget of its listener, which is one and the same for all of its requests.
    pub fn holder(&self, budget: &Budget) -> &Arc<Holder> {
        self.holder.get_or_init(|| budget.holder(self.peer.0))
    }

    /// Lets the connection go on as this when a request has upgraded it.
    pub fn becomes(&self, afterwards: impl Future<Output = ()> + Send + 'static) {
        *self.afterwards.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::pin(afterwards));
    }

    fn afterwards(&self) -> Option<Afterwards> {
        self.afterwards.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What the connections of a listener are served with.
#[derive(Clone, Debug)]
pub struct Endpoint<E> {
    /// Who answers.
    pub exchange: E,
    /// What is borne.
    pub bounds: Bounds,
    /// What whoever serves is doing.
    pub phase: watch::Receiver<Phase>,
}

impl<E> Endpoint<E> {
    /// Waits until nothing is answered but what has been asked.
    pub(super) fn ending(&self) -> impl Future<Output = ()> + Send + use<E> {
        let mut phase = self.phase.clone();
        async move { drop(phase.wait_for(|phase| *phase == Phase::Ending).await) }
    }
}

/// What bytes come and go by.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Answers what is asked on a connection until it ends.
pub(super) async fn serve<E: Exchange>(
    io: Box<dyn Stream>,
    client: Client,
    activity: Arc<Activity>,
    endpoint: Endpoint<E>,
) {
    let io = Lingering::new(io, Arc::clone(&activity));
    let io = TokioIo::new(Noted::new(io, Arc::clone(&activity)));
    let (builder, ending) = (builder(&endpoint.bounds), endpoint.ending());
    let versions = endpoint.bounds.versions;
    let ended = endpoint.ending();
    let (client, asked) = (Arc::new(client), Arc::clone(&activity));
    // What all connections share is counted once for each connection, and not for each request: processors would wait
    // for each other.
    let connected = Arc::new((endpoint, Arc::clone(&client)));
    // In a box, so that connections without a request do not keep room for one, and streams are not copied on their
    // way.
    let service =
        service_fn(move |request| Box::pin(answer(Arc::clone(&connected), asked.answer(), request)));
    // A connection that can be upgraded speaks both versions, whatever the builder was told.
    let mut connection = pin!(match versions {
        Versions::Both => Either::Left(builder.serve_connection_with_upgrades(io, service)),
        Versions::Http1 | Versions::Http2 => Either::Right(builder.serve_connection(io, service)),
    });
    let serving = async {
        tokio::select! {
            // What a connection ends with, such as a client that is gone, is no news.
            _ = connection.as_mut() => return,
            () = activity.is_to_end() => return,
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
        match connection.as_mut().as_pin_mut() {
            Either::Left(connection) => connection.graceful_shutdown(),
            Either::Right(connection) => connection.graceful_shutdown(),
        }
        // Who waits for nothing may never hear that it is to go, or have a stream that goes on.
        while timeout(FAREWELL, connection.as_mut()).await.is_err() && activity.is_awaited() {}
    };
    let all = async {
        serving.await;
        if let Some(afterwards) = client.afterwards() {
            tokio::select! {
                () = afterwards => {}
                () = ended => {}
            }
        }
    };
    activity::within(&activity, all).await;
}

async fn answer<E: Exchange>(
    connected: Arc<(Endpoint<E>, Arc<Client>)>,
    answering: AnswerGuard,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (Endpoint { exchange, phase, .. }, client) = &*connected;
    let is_http1 = request.version() < http::Version::HTTP_2;
    let mut response = exchange.exchange(client, answering, request).await;
    let is_last = *phase.borrow() > Phase::Serving;
    if is_http1 && is_last && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        close_after(&mut response);
    }
    Ok(response)
}

/// Tells a client over HTTP/1 that the connection ends with this.
pub fn close_after(response: &mut Response<Body>) {
    response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
}

/// Room for the answer that there is none for a request, by what takes it. It is waited for a moment: whoever asks much
/// at once may be about to take what it was answered.
///
/// # Errors
/// There is none even then.
pub async fn room_for_refusal<R>(take: impl Fn() -> Result<R, Full>) -> Result<R, Full> {
    for _ in 0..REFUSAL_TRIES {
        if let Ok(room) = take() {
            return Ok(room);
        }
        sleep(REFUSAL_WAIT).await;
    }
    take()
}

impl<H: Handler> Bounded<H> {
    /// Answers a request that there is no room for. Who takes none of these answers either is not served any more.
    async fn turn_away(
        &self,
        begun: Arc<Share>,
        mut answering: AnswerGuard,
        no_room: Response<Body>,
    ) -> Response<Body> {
        if room_for_refusal(|| begun.take_of_reserve(REQUEST)).await.is_err() {
            answering.end_connection();
            return pending().await;
        }
        answering.holds(Arc::clone(&begun));
        no_room.map(|body| BudgetedBody::within(body, begun, answering))
    }
}

impl<H: Handler> Exchange for Bounded<H> {
    async fn exchange(
        &self,
        client: &Client,
        mut answering: AnswerGuard,
        request: Request<Incoming>,
    ) -> Response<Body> {
        let (Self { handler, budget, .. }, start) = (self, answering.since());
        let is_http1 = request.version() < http::Version::HTTP_2;
        let (head, body) = request.into_parts();
        let uri = head.uri.clone();
        let holder = client.holder(budget);
        let begun = budget.share(holder, true);
        if begun.take(held_by(&head.headers, uri.path())).is_err() {
            let no_room = handler.no_room(uri.path());
            drop((head, uri));
            let mut response = self.turn_away(begun, answering, no_room).await;
            if is_http1 && !body.is_end_stream() {
                close_after(&mut response);
            }
            handler.answered(&response, start.elapsed());
            return response;
        }
        answering.holds(begun);
        // What is read of the body is held until there is an answer.
        let (share, body) = budget.meter(holder, body);
        let time = handler.deadline(&head.headers).into_iter().chain(self.time).min();
        let answer = handler.answer(client.peer, Request::from_parts(head, body));
        let answered = match time {
            None => Some(answer.await),
            Some(Duration::ZERO) => None,
            Some(time) => timeout_at(start + time, answer).await.ok(),
        };
        let mut response = answered.map_or_else(|| handler.too_late(), |Ok(response)| response);
        let (was_refused, is_whole) = (share.was_refused(), share.is_whole());
        // What is still to come of a stream is looked at message by message.
        let share = if is_whole { share } else { budget.share(holder, false) };
        let body = mem::take(response.body_mut());
        match BudgetedBody::hold(body, share, answering).await {
            Ok(body) if !was_refused => *response.body_mut() = body,
            _ => response = handler.no_room(uri.path()),
        }
        // What has not been read of a body is not looked for on the connection.
        if is_http1 && !is_whole {
            close_after(&mut response);
        }
        handler.answered(&response, start.elapsed());
        response
    }

    fn opened(&self) {
        self.handler.opened();
    }

    fn closed(&self) {
        self.handler.closed();
    }

    fn refused(&self) {
        self.handler.refused();
    }
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
        .max_send_buf_size(bounds.send_buffer)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIME);
    match bounds.versions {
        Versions::Http1 => builder.http1_only(),
        Versions::Http2 => builder.http2_only(),
        Versions::Both => builder,
    }
}

#[cfg(test)]
mod tests;
