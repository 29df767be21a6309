//! An answer's body that holds what belongs to its request until it has been sent.
//!
//! It is handed out in pieces: HTTP/2 keeps what it is given until the client takes it, however much that is, and asks for
//! more only then.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{Error, body::Body};
use hyper::body::{Bytes, Frame, SizeHint};

/// Bytes of a piece: a frame of HTTP/2.
const PIECE: usize = 16 << 10;

/// A body, with whatever is to be dropped when its last piece is on its way.
#[derive(Debug)]
pub struct Held<H> {
    body: Body,
    /// What has come of the body, and is to be handed out.
    rest: Bytes,
    _held: H,
}

impl<H> Held<H> {
    pub const fn new(body: Body, held: H) -> Self {
        Self { body, rest: Bytes::new(), _held: held }
    }
}

impl<H: Unpin> hyper::body::Body for Held<H> {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context))
                .map(|frame| frame.map(Frame::into_data))
            {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let of_body = self.body.size_hint();
        let rest = self.rest.len() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower().saturating_add(rest));
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}
