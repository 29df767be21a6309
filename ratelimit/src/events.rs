//! Events of packets that were dropped, or would have been, on their way from the XDP program to whoever asks: the
//! daemon reads them, and each client gets all of them that it is fast enough for.

mod describe;

use std::{convert::Infallible, time::Duration};

use futures_util::{Stream, stream};
use hyper::body::Bytes;
use serde_json::json;
use tokio::{
    io::unix::AsyncFd,
    sync::broadcast::{Receiver, Sender, error::RecvError},
    time::Instant,
};
use tracing::warn;

pub use self::describe::Description;
use crate::{
    dataplane::{self, in_one_line},
    policy::InstanceName,
};

/// So many events wait for a slow client; of more it loses the oldest.
const BACKLOG: usize = 1024;

/// So many clients may listen at once.
pub const MOST_CLIENTS: usize = 64;

/// For how long the names of rules hold.
const NAMES_HOLD: Duration = Duration::from_secs(1);

/// Where events come from.
#[derive(Clone, Debug)]
pub struct Hub(Sender<Bytes>);

impl Hub {
    /// Reads the events of an instance for as long as the runtime lives. What can't be read is said in the log: limits
    /// are in force without it.
    #[must_use]
    pub fn start(instance: &InstanceName) -> Self {
        let hub = Self(Sender::new(BACKLOG));
        match dataplane::EventReader::open(instance) {
            Ok(events) => {
                tokio::spawn(forward(events, hub.0.clone()));
            }
            Err(error) => warn!("no events of packets: {}", in_one_line(&error)),
        }
        hub
    }

    /// All events from now on, as JSON, one a line. `None` if too many listen already.
    #[must_use]
    pub fn lines(&self) -> Option<impl Stream<Item = Result<Bytes, Infallible>> + Send + use<>> {
        if self.0.receiver_count() >= MOST_CLIENTS {
            return None;
        }
        Some(stream::unfold(self.0.subscribe(), |mut receiver| async {
            let line = next_line(&mut receiver).await?;
            Some((Ok(line), receiver))
        }))
    }
}

async fn next_line(receiver: &mut Receiver<Bytes>) -> Option<Bytes> {
    match receiver.recv().await {
        Ok(line) => Some(line),
        Err(RecvError::Lagged(missed)) => Some(Bytes::from(format!("{}\n", json!({"missed": missed})))),
        Err(RecvError::Closed) => None,
    }
}

async fn forward(events: dataplane::EventReader, clients: Sender<Bytes>) {
    // SAFETY: the events own the descriptor, keep it open as long as they live, and always answer with the same.
    let mut events = match unsafe { AsyncFd::register(events) } {
        Ok(events) => events,
        Err(error) => return warn!(%error, "no events of packets"),
    };
    let (mut rules, mut read_at) = (Vec::new(), None::<Instant>);
    while let Ok(mut ready) = events.readable_mut().await {
        let events = ready.get_inner_mut();
        while let Some(event) = events.next() {
            if clients.receiver_count() == 0 {
                continue;
            }
            if read_at.is_none_or(|at| at.elapsed() > NAMES_HOLD) {
                (rules, read_at) = (events.rules(), Some(Instant::now()));
            }
            let line = json!(Description::new(&event, &rules));
            // Fails if nobody listens any more.
            let _ = clients.send(Bytes::from(format!("{line}\n")));
        }
        ready.clear_ready();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn a_slow_client_is_told_how_many_it_has_lost() {
        let hub = Hub(Sender::new(4));
        let mut lines = Box::pin(hub.lines().unwrap());
        for number in 0..10 {
            hub.0.send(Bytes::from(format!("{number}\n"))).unwrap();
        }
        let mut got = Vec::new();
        for _ in 0..5 {
            got.push(String::from_utf8(lines.next().await.unwrap().unwrap().to_vec()).unwrap());
        }
        assert_eq!(got, ["{\"missed\":6}\n", "6\n", "7\n", "8\n", "9\n"]);
        drop(hub);
        assert_eq!(lines.next().await, None);
    }

    #[test]
    fn clients_are_bounded_and_leave_room_when_they_go() {
        let hub = Hub(Sender::new(4));
        let mut clients: Vec<_> = (0..MOST_CLIENTS).map(|_| hub.lines().unwrap()).collect();
        assert!(hub.lines().is_none());
        clients.pop();
        assert!(hub.lines().is_some());
    }
}
