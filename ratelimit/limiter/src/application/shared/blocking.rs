//! Waiting for a future without a runtime.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What becomes of a future, if that is so in time.
pub(super) fn wait<F: Future>(mut future: Pin<&mut F>, within: Duration) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let until = Instant::now().checked_add(within)?;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let left = until.checked_duration_since(Instant::now())?;
        thread::park_timeout(left);
    }
}
