//! One place at which requests are judged that are passed on: what becomes of them if nobody can decide.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

use tracing::error;

use crate::{
    application::{InForce, Request, Response},
    policy::application::OnStoreError,
};

/// What was decided about a request.
#[derive(Debug)]
pub enum Judgement {
    /// By its limits.
    Decided(Box<Response>),
    /// Nobody could decide: the limiter has failed.
    Failed,
}

/// Decides about a request. A limiter that panics takes nobody with it.
pub async fn decide(in_force: &InForce<'_>, request: &Request) -> Judgement {
    let mut deciding = pin!(in_force.decide_async(request));
    let decided = poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| deciding.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    });
    match decided.await {
        Some(Ok(response)) => Judgement::Decided(Box::new(response)),
        Some(Err(error)) => {
            error!("a request can't be judged: {error}");
            Judgement::Failed
        }
        None => Judgement::Failed,
    }
}

impl Judgement {
    /// Whether a request passes that nobody could decide about.
    #[must_use]
    pub const fn passes_unjudged(on_store_error: OnStoreError) -> bool {
        !matches!(on_store_error, OnStoreError::Deny)
    }
}
