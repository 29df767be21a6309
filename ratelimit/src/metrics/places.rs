//! Places for connections: when all are taken, one that waits for a request gives way, so that nobody can keep others out by
//! sending none.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::task::AbortHandle;

/// So many connections at once.
const MOST_CONNECTIONS: usize = 64;

/// A connection that is served.
#[derive(Debug)]
pub struct Held {
    /// Its client.
    pub from: IpAddr,
    /// Who serves it.
    pub task: AbortHandle,
    /// Whether a request has come that is not answered yet.
    pub is_answering: Arc<AtomicBool>,
}

/// Connections, the oldest first.
#[derive(Debug, Default)]
pub struct Places(Vec<Held>);

impl Places {
    /// Makes room for another one. There is none if all are being answered, which does not take long.
    pub fn make_room(&mut self) -> bool {
        self.0.retain(|held| !held.task.is_finished());
        if self.0.len() < MOST_CONNECTIONS {
            return true;
        }
        let Some(place) = self.giving_way() else { return false };
        self.0.remove(place).task.abort();
        true
    }

    /// Of those that wait for a request, the oldest one of the client that has the most connections.
    fn giving_way(&self) -> Option<usize> {
        let count = |from: IpAddr| self.0.iter().filter(|held| held.from == from).count();
        let waiting =
            self.0.iter().enumerate().filter(|(_, held)| !held.is_answering.load(Ordering::Relaxed));
        // Of equals the last one is taken: the first one that came.
        waiting.rev().max_by_key(|(_, held)| count(held.from)).map(|(place, _)| place)
    }

    /// Takes the place that there is room for.
    pub fn take(&mut self, held: Held) {
        self.0.push(held);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn the_oldest_of_whoever_has_most_gives_way() {
        let mut places = Places::default();
        let held = |client: u8, is_answering: bool| Held {
            from: Ipv4Addr::new(192, 0, 2, client).into(),
            task: tokio::spawn(std::future::pending::<()>()).abort_handle(),
            is_answering: Arc::new(is_answering.into()),
        };
        // One who was first, and one who has taken all the rest; the first of these is being answered.
        places.take(held(1, false));
        places.take(held(2, true));
        while places.0.len() < MOST_CONNECTIONS {
            places.take(held(2, false));
        }
        let clients = |places: &Places| places.0.iter().filter(|held| held.from == places.0[0].from).count();
        assert_eq!(places.giving_way(), Some(2));
        let oldest = places.0[2].task.clone();
        assert!(places.make_room());
        assert_eq!((places.0.len(), clients(&places)), (MOST_CONNECTIONS - 1, 1));
        assert!(places.make_room(), "there is room still");
        tokio::task::yield_now().await;
        assert!(oldest.is_finished());
        places.take(held(2, false));
        places.0.iter().for_each(|held| held.is_answering.store(true, Ordering::Relaxed));
        assert!(!places.make_room());
        places.0[9].task.abort();
        tokio::task::yield_now().await;
        assert!(places.make_room(), "one has ended");
    }
}
