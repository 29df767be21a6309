//! One budget for what the bodies of all requests and answers may hold in memory until these have been sent. A limit on each
//! alone is none on a client, which can begin thousands of requests at once and finish none, or take no answer.

use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use axum::BoxError;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use thiserror::Error;

/// Bytes that are free.
#[derive(Debug)]
pub struct Budget {
    free: AtomicUsize,
}

/// What a request has of the budget, as long as this lives.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    taken: AtomicUsize,
    was_refused: AtomicBool,
    is_whole: AtomicBool,
}

/// A body that ends with an error where there is no more room for it. When its request has been answered, it is not counted
/// any more: what comes then, as messages of a stream, is looked at one by one.
#[derive(Debug)]
pub struct Metered {
    body: Incoming,
    share: Weak<Share>,
}

/// All that may be held is held.
#[derive(Debug, Error)]
#[error("too much is being received; try again later")]
pub struct Full;

impl Budget {
    /// Of so many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { free: AtomicUsize::new(bytes) })
    }

    /// As many as there are.
    pub fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    /// A share for a request, and the body that counts against it.
    pub fn meter(self: &Arc<Self>, body: Incoming) -> (Arc<Share>, Metered) {
        let share = self.share(body.is_end_stream());
        let metered = Metered { body, share: Arc::downgrade(&share) };
        (share, metered)
    }

    /// A share of nothing yet.
    pub fn share(self: &Arc<Self>, is_whole: bool) -> Arc<Share> {
        Arc::new(Share {
            budget: Arc::clone(self),
            taken: AtomicUsize::new(0),
            was_refused: AtomicBool::new(false),
            is_whole: AtomicBool::new(is_whole),
        })
    }
}

impl Share {
    /// Whether there was no room for the body.
    pub fn was_refused(&self) -> bool {
        self.was_refused.load(Relaxed)
    }

    /// Whether the body has come to its end.
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Relaxed)
    }

    /// Takes so much more.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn take(&self, bytes: usize) -> Result<(), Full> {
        let less = |free: usize| free.checked_sub(bytes);
        if self.budget.free.fetch_update(Relaxed, Relaxed, less).is_err() {
            self.was_refused.store(true, Relaxed);
            return Err(Full);
        }
        self.taken.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Takes what it lacks of so much.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn hold(&self, bytes: usize) -> Result<(), Full> {
        match bytes.saturating_sub(self.taken.load(Relaxed)) {
            0 => Ok(()),
            lacking => self.take(lacking),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.free.fetch_add(*self.taken.get_mut(), Relaxed);
    }
}

impl Body for Metered {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context)?);
        let share = self.share.upgrade();
        // Whether anything follows a chunk is not known before it is asked for.
        let is_whole = frame.is_none() || self.body.is_end_stream();
        if let Some(share) = share.as_ref().filter(|_| is_whole) {
            share.is_whole.store(true, Relaxed);
        }
        let Some(frame) = frame else { return Poll::Ready(None) };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let taken = share.map_or(Ok(()), |share| share.take(bytes));
        Poll::Ready(Some(taken.map(|()| frame).map_err(BoxError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
