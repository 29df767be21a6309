//! An answer's body that holds what belongs to its request until it has been sent.
//!
//! It is handed out in pieces: HTTP/2 keeps what it is given until the client takes it, however much that is, and asks for
//! more only then. So its end is told apart from its last piece, too.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{Error, body::Body};
use hyper::body::{Bytes, Frame, SizeHint};

use super::{activity::Answering, budget::Share};

/// Bytes of a piece: a frame of HTTP/2.
const PIECE: usize = 16 << 10;

/// A body with its request's share of the budget, and the note that it is being answered.
#[derive(Debug)]
pub struct Held {
    body: Body,
    /// What has come of the body, and is to be handed out.
    rest: Bytes,
    _share: Arc<Share>,
    answering: Answering,
}

impl Held {
    pub const fn new(body: Body, share: Arc<Share>, answering: Answering) -> Self {
        Self { body, rest: Bytes::new(), _share: share, answering }
    }
}

impl hyper::body::Body for Held {
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
        self.answering.goes_on();
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
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
