//! Bodies on their way through: piece by piece, in step with who takes them, and with a note of when the last piece
//! came.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderMap, HeaderName, header};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{failure::UpstreamFailure, headers, pool::Lease, upstream::InFlight};
use crate::serving::AnswerGuard;

/// Bytes of a piece: a frame of HTTP/2.
const PIECE: usize = 16 << 10;

/// How far a request's body has come.
#[derive(Debug)]
pub struct Progress {
    start: Instant,
    /// Milliseconds after the start at which something was last passed on.
    last: AtomicU64,
    /// Whether the server waits for the client.
    waits_for_client: AtomicBool,
    is_whole: AtomicBool,
    has_failed: AtomicBool,
}

impl Progress {
    fn new(is_whole: bool) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
            waits_for_client: AtomicBool::new(false),
            is_whole: AtomicBool::new(is_whole),
            has_failed: AtomicBool::new(false),
        })
    }

    fn moved(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Relaxed);
    }

    /// When something was last passed on.
    pub fn last(&self) -> Instant {
        self.start + Duration::from_millis(self.last.load(Relaxed))
    }

    /// Whether the rest of the request is for the client to send.
    pub fn waits_for_client(&self) -> bool {
        self.waits_for_client.load(Relaxed)
    }

    /// Whether all of it was passed on.
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Relaxed)
    }

    /// Whether the client broke it off.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// Waits for something as long as the request goes on, and for so long after that; `None` if it does not come.
    pub async fn wait<F: Future>(&self, future: F, time: Duration) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let mut end = Instant::now() + time;
        loop {
            if let Ok(output) = tokio::time::timeout_at(end, future.as_mut()).await {
                return Some(output);
            }
            let later = self.last() + time;
            if later <= Instant::now() {
                return None;
            }
            end = later;
        }
    }
}

/// A request's body.
#[derive(Debug)]
pub struct Upload {
    body: Incoming,
    progress: Arc<Progress>,
    /// Headers that rules are about; `None` if there is nothing to come.
    judged: Option<Arc<[HeaderName]>>,
}

impl Upload {
    /// The body of a request whose head has come, and was judged by such headers.
    pub fn new(body: Incoming, judged: &Arc<[HeaderName]>) -> (Self, Arc<Progress>) {
        let is_whole = body.is_end_stream();
        let progress = Progress::new(is_whole);
        let judged = (!is_whole).then(|| Arc::clone(judged));
        (Self { body, progress: Arc::clone(&progress), judged }, progress)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let progress = &self.progress;
        progress.waits_for_client.store(polled.is_pending(), Relaxed);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(_))) => {
                progress.moved();
                if self.body.is_end_stream() {
                    progress.is_whole.store(true, Relaxed);
                }
            }
            Poll::Ready(Some(Err(_))) => progress.has_failed.store(true, Relaxed),
            Poll::Ready(None) => progress.is_whole.store(true, Relaxed),
        }
        let judged = self.judged.as_deref().unwrap_or_default();
        let clean = |trailers: &mut HeaderMap| clean_request(trailers, judged);
        polled.map(|next| next.map(|next| next.map(|frame| with_trailers(frame, clean))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn with_trailers(frame: Frame<Bytes>, clean: impl FnOnce(&mut HeaderMap)) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            clean(&mut trailers);
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }
}

/// Some servers put trailers among the headers, where no client is believed what only proxies may say, and where rules
/// would have seen them.
fn clean_request(trailers: &mut HeaderMap, judged: &[HeaderName]) {
    clean(trailers);
    headers::remove_claims(trailers);
    for name in judged {
        trailers.remove(name);
    }
}

/// Takes off what belongs to headers alone (RFC 9110, section 6.5.1).
fn clean(trailers: &mut HeaderMap) {
    headers::remove_those_of_connection(trailers);
    headers::remove_ambiguous(trailers);
    for name in [
        header::CONTENT_LENGTH,
        header::HOST,
        header::AUTHORIZATION,
        header::COOKIE,
        header::CONTENT_ENCODING,
    ] {
        trailers.remove(name);
    }
}

/// What belongs to an answer until it has been passed on.
#[derive(Debug)]
pub struct Rest {
    /// The server's connection.
    pub lease: Lease,
    /// The server, which is answering.
    pub in_flight: InFlight,
    /// How far the request has come.
    pub progress: Arc<Progress>,
    /// How long it may pause.
    pub idle: Duration,
}

/// An answer's body. It says whether it waits for its client, and ends if the server stops in the middle.
#[derive(Debug)]
pub struct Download {
    body: Incoming,
    /// What is still to be handed out of what has come.
    piece: Bytes,
    answering: AnswerGuard,
    last: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    /// Until all has come.
    rest: Option<Rest>,
}

impl Download {
    /// The body of an answer that is passed on.
    pub fn new(body: Incoming, answering: AnswerGuard, rest: Rest) -> Self {
        let mut download = Self {
            body,
            piece: Bytes::new(),
            answering,
            last: Instant::now(),
            timer: None,
            rest: Some(rest),
        };
        download.settle();
        download
    }

    /// Gives the server's connection back when all has come.
    fn settle(&mut self) {
        if self.body.is_end_stream() {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(Rest { lease, in_flight, progress, .. }) = self.rest.take()
            && progress.is_whole()
        {
            in_flight.upstream().take_back(lease);
        }
    }

    fn next_piece(&mut self) -> Frame<Bytes> {
        self.answering.goes_on();
        let length = self.piece.len().min(PIECE);
        Frame::data(self.piece.split_to(length))
    }

    /// Whether the server has stopped in the middle.
    fn has_stopped(&mut self, context: &mut Context<'_>) -> bool {
        let Some(Rest { progress, idle, .. }) = &self.rest else { return false };
        loop {
            let end = self.last.max(progress.last()) + *idle;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
            if timer.as_mut().poll(context).is_pending() {
                return false;
            }
            if end <= Instant::now() {
                return true;
            }
            timer.as_mut().reset(end);
        }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let this = &mut *self;
        if !this.piece.is_empty() {
            return Poll::Ready(Some(Ok(this.next_piece())));
        }
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                this.last = Instant::now();
                this.settle();
                match frame.into_data() {
                    Ok(data) => {
                        this.piece = data;
                        Poll::Ready(Some(Ok(this.next_piece())))
                    }
                    Err(other) => Poll::Ready(Some(Ok(with_trailers(other, clean)))),
                }
            }
            Poll::Ready(Some(Err(error))) => {
                if let Some(rest) = this.rest.take() {
                    rest.in_flight.upstream().stats.failed(UpstreamFailure::of_answer(&error));
                }
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(None) => {
                this.end();
                Poll::Ready(None)
            }
            Poll::Pending => {
                this.answering.rests();
                if !this.has_stopped(context) {
                    return Poll::Pending;
                }
                if let Some(rest) = this.rest.take() {
                    rest.in_flight.upstream().stats.failed(UpstreamFailure::Idle);
                }
                Poll::Ready(Some(Err(UpstreamFailure::Idle.what().into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.piece.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (of_body, rest) = (self.body.size_hint(), self.piece.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower().saturating_add(rest));
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}
