//! A circuit breaker: whether a server is asked, after how it has answered.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use ratelimit_limiter::store::remote::Breaker;
use tokio::time::Instant;

use super::backoff::Backoff;

/// How many failures in a row open it.
const MOST_FAILURES: u32 = 3;

/// The state of one server. One line in the log tells each change.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    name: String,
    /// Read without the lock, for most calls.
    is_closed: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Breaker,
    failures: u32,
    /// From then on one call tries whether the server works again, if it is open.
    next_try: Instant,
    backoff: Backoff,
}

impl CircuitBreaker {
    /// A breaker for the server with this name.
    pub(super) fn new(name: String) -> Self {
        let inner =
            Inner { state: Breaker::Closed, failures: 0, next_try: Instant::now(), backoff: Backoff::new() };
        Self { name, is_closed: AtomicBool::new(true), inner: Mutex::new(inner) }
    }

    pub(super) fn state(&self) -> Breaker {
        self.lock().state
    }

    /// Whether each call may be sent.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }

    /// Whether a call may be sent now: each while it is closed, else one in a while.
    pub(super) fn admits(&self) -> bool {
        if self.is_closed() {
            return true;
        }
        let (mut inner, now) = (self.lock(), Instant::now());
        if inner.state == Breaker::Closed {
            return true;
        }
        let is_try = now >= inner.next_try;
        if is_try {
            inner.state = Breaker::HalfOpen;
            inner.next_try = now + inner.backoff.next();
        }
        is_try
    }

    /// There is a new connection, so that the next call may try.
    pub(super) fn connected(&self) {
        self.lock().next_try = Instant::now();
    }

    /// The server has done what it was asked.
    pub(super) fn succeeded(&self) {
        let mut inner = self.lock();
        inner.failures = 0;
        if inner.state != Breaker::Closed {
            inner.state = Breaker::Closed;
            self.is_closed.store(true, Relaxed);
            tracing::info!("the store {} works again", self.name);
        }
    }

    /// It has not, or can't be reached.
    pub(super) fn failed(&self, why: &str) {
        let mut inner = self.lock();
        inner.failures = inner.failures.saturating_add(1);
        if inner.state == Breaker::Closed && inner.failures >= MOST_FAILURES {
            self.is_closed.store(false, Relaxed);
            inner.backoff = Backoff::new();
            inner.next_try = Instant::now() + inner.backoff.next();
            tracing::warn!(
                "the store {} does not work: {why}; until it does, `on_store_error` decides",
                self.name
            );
        }
        if inner.state != Breaker::Closed || inner.failures >= MOST_FAILURES {
            inner.state = Breaker::Open;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    //! When it opens and closes.

    use tokio::time::{Duration, advance};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_open_it_and_one_call_in_a_while_tries() {
        let breaker = CircuitBreaker::new("a".to_owned());
        for _ in 0..10 {
            (1..MOST_FAILURES).for_each(|_| breaker.failed("x"));
            assert!(breaker.admits());
            breaker.succeeded();
        }
        (0..MOST_FAILURES).for_each(|_| breaker.failed("x"));
        assert_eq!((breaker.admits(), breaker.state()), (false, Breaker::Open));
        let mut tries = 0;
        for _ in 0..10_000 {
            advance(Duration::from_millis(1)).await;
            if breaker.admits() {
                assert_eq!((breaker.admits(), breaker.state()), (false, Breaker::HalfOpen));
                tries += 1;
                breaker.failed("x");
                assert_eq!(breaker.state(), Breaker::Open);
            }
        }
        assert!((10..=30).contains(&tries), "{tries}");
        breaker.connected();
        assert!(breaker.admits());
        breaker.succeeded();
        assert_eq!((breaker.admits(), breaker.state()), (true, Breaker::Closed));
    }
}
