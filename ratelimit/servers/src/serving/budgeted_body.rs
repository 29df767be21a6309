//! An answer's body that holds what belongs to its request until it has been sent, and says whether it waits for its
//! client.
//!
//! It is handed out in pieces: HTTP/2 keeps what it is given until the client takes it, however much that is, and asks
//! for more only then. Who hands out the last piece lets go of the answer, so that one is small: the [stream](REQUEST)
//! holds it.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{Error, body::Body};
use http::HeaderMap;
use hyper::body::{Body as _, Bytes, Frame, SizeHint};
use tonic::Status;

use super::{
    activity::AnswerGuard,
    budget::{Full, LAST, Share},
};

/// Bytes of a piece: a frame of HTTP/2.
const PIECE: usize = 16 << 10;

/// What comes next of a body.
type Next = Result<Frame<Bytes>, Error>;

/// A body with its request's share of the budget, and the note that it is being answered.
pub struct BudgetedBody {
    body: Body,
    /// What has come of the body, and is to be handed out.
    next: Option<Next>,
    share: Arc<Share>,
    answering: AnswerGuard,
}

impl BudgetedBody {
    /// Holds a body that there is room for. What gRPC says has no length before it is there, so it is asked for at
    /// once.
    ///
    /// # Errors
    /// There is no room for it.
    pub async fn hold(mut body: Body, share: Arc<Share>, answering: AnswerGuard) -> Result<Body, Full> {
        if body.is_end_stream() {
            return Ok(body);
        }
        let next = poll_fn(|context| match Pin::new(&mut body).poll_frame(context) {
            Poll::Ready(next) => Poll::Ready(next),
            Poll::Pending => Poll::Ready(None),
        });
        let next = next.await;
        share.take(length(next.as_ref()))?;
        Ok(Body::new(Self { body, next, share, answering }))
    }

    /// Holds a body that takes no more room than its share has.
    pub fn within(body: Body, share: Arc<Share>, answering: AnswerGuard) -> Body {
        if body.is_end_stream() { body } else { Body::new(Self { body, next: None, share, answering }) }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Next>> {
        if let Some(next) = self.next.take() {
            return Poll::Ready(Some(next));
        }
        if let Poll::Ready(next) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(next);
        }
        self.answering.rests();
        Poll::Pending
    }
}

fn length(next: Option<&Next>) -> usize {
    next.and_then(|next| next.as_ref().ok()?.data_ref()).map_or(0, Bytes::len)
}

/// Bytes of the next piece of so many.
fn piece(bytes: usize) -> usize {
    if bytes <= LAST { bytes } else { PIECE.min(bytes - LAST) }
}

/// How a stream ends whose next message there is no room for.
fn end(full: Full) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    // The text is no more than a header may have.
    let _ = Status::resource_exhausted(full.to_string()).add_header(&mut trailers);
    Frame::trailers(trailers)
}

impl hyper::body::Body for BudgetedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Next>> {
        let mut data = match ready!(self.poll_next(context)).map(|next| next.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => data,
            Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => return Poll::Ready(None),
        };
        self.answering.goes_on();
        if let Err(full) = self.share.hold(data.len()) {
            return Poll::Ready(Some(Ok(end(full))));
        }
        let piece = data.split_to(piece(data.len()));
        self.next = (!data.is_empty()).then(|| Ok(Frame::data(data)));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        let of_body = self.body.size_hint();
        let rest = length(self.next.as_ref()) as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower().saturating_add(rest));
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    //! Which answers have to be taken, and what they may hold.

    use std::{convert::Infallible, time::Duration};

    use http_body_util::BodyExt as _;
    use tokio::time::timeout;
    use tokio_stream::StreamExt as _;

    use super::{
        super::{
            activity::tests::{activity, hear, rest},
            budget::Budget,
        },
        *,
    };

    /// A share of a budget that leaves so much to a client.
    fn share(bytes: usize) -> Arc<Share> {
        let budget = Budget::new(16 * bytes / 7);
        budget.share(&budget.holder(None), true)
    }

    fn stream(items: &[&'static [u8]]) -> Body {
        let items: Vec<_> = items.iter().map(|item| Ok::<_, Infallible>(Bytes::from(*item))).collect();
        Body::from_stream(tokio_stream::iter(items).chain(tokio_stream::pending()))
    }

    #[tokio::test]
    async fn a_stream_waits_for_its_client_only_with_something_to_say() {
        let (activity, share) = (activity(), share(10));
        let mut held = BudgetedBody::hold(stream(&[]), share, activity.answer()).await.unwrap();
        hear(&activity);
        assert!(rest(&activity).is_zero());
        assert!(timeout(Duration::ZERO, held.frame()).await.is_err());
        assert!(!rest(&activity).is_zero());
    }

    #[tokio::test]
    async fn each_message_of_a_stream_needs_room() {
        let (body, share) = (stream(&[b"0123456789", b"short", b"0123456789a"]), share(10));
        let mut held = BudgetedBody::hold(body, share, activity().answer()).await.unwrap();
        for expected in [&b"0123456789"[..], b"short"] {
            assert_eq!(held.frame().await.unwrap().unwrap().into_data().unwrap(), expected);
        }
        let end = held.frame().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(end["grpc-status"], "8");
    }
}
