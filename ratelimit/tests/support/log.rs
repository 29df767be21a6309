//! Logs of one thread, for tests that look at them.

use tracing::{Dispatch, subscriber::NoSubscriber};

/// A subscriber that is to live beside the one of the thread. While there is only one, another thread that comes to an
/// event first finds that nobody listens there, and that would count for all threads.
pub fn second_subscriber() -> Dispatch {
    Dispatch::new(NoSubscriber::default())
}
