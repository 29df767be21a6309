//! How many connections there may be at once, and what happens to whoever comes when there are so many.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
};

use super::activity::Activity;

/// What happens to a client that comes when there are as many connections as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overload {
    /// A connection that waits for its client gives way, so that nobody can keep others out by sending nothing: of
    /// whoever has most, the oldest one. If all are being answered, one gives way all the same whose client has so many
    /// more than the one that comes that it still has more then; so nobody can keep others out by always asking either.
    /// Else the client is refused.
    Evict,
    /// It waits until a connection ends.
    Queue,
}

/// Room for connections, which listeners may share.
#[derive(Debug)]
pub struct ConnectionLimit {
    overload: Overload,
    most: usize,
    free: Arc<Semaphore>,
    /// Those that may have to give way, the oldest first; none if none ever has to.
    served: Mutex<Vec<Served>>,
}

/// A connection's part of it, until it is dropped.
pub(super) type ConnectionPermit = OwnedSemaphorePermit;

/// A connection that is served.
#[derive(Debug)]
pub(super) struct Served {
    /// Its client; none on a Unix socket.
    pub from: Option<IpAddr>,
    /// Who serves it.
    pub task: AbortHandle,
    /// What happens on it.
    pub activity: Arc<Activity>,
}

impl ConnectionLimit {
    /// For so many connections.
    #[must_use]
    pub fn new(most: usize, overload: Overload) -> Arc<Self> {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        let free = Arc::new(Semaphore::new(most));
        Arc::new(Self { overload, most, free, served: Mutex::default() })
    }

    /// Waits for a place before a client is taken, where clients wait.
    pub(super) async fn wait(&self) -> Option<ConnectionPermit> {
        match self.overload {
            Overload::Queue => self.acquire().await,
            Overload::Evict => None,
        }
    }

    /// A place for a client that was taken; `None` if it is refused.
    pub(super) async fn admit(&self, from: Option<IpAddr>) -> Option<ConnectionPermit> {
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(place);
        }
        // The place is free as soon as its task is gone.
        if self.overload == Overload::Evict && self.evict(from) { self.acquire().await } else { None }
    }

    async fn acquire(&self) -> Option<ConnectionPermit> {
        // It is never closed.
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    /// Notes a connection that has a place.
    pub(super) fn note(&self, one: Served) {
        if self.overload == Overload::Evict {
            let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
            if served.len() >= self.most {
                served.retain(|one| !one.task.is_finished());
            }
            served.push(one);
        }
    }

    /// Ends a connection, if there is one that may give way to a client.
    fn evict(&self, from: Option<IpAddr>) -> bool {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.retain(|one| !one.task.is_finished());
        let Some(place) = giving_way(&served, from) else { return false };
        served.remove(place).task.abort();
        true
    }

    /// Returns when there is no connection any more.
    pub async fn all_are_gone(&self) {
        let all = self.free.acquire_many(u32::try_from(self.most).unwrap_or(u32::MAX));
        // It is never closed.
        drop(all.await);
    }
}

fn giving_way(served: &[Served], comes: Option<IpAddr>) -> Option<usize> {
    let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
    served.iter().for_each(|one| *counts.entry(client_of(one.from)).or_default() += 1);
    let count = |from| counts.get(&client_of(from)).copied().unwrap_or_default();
    // The last of equal ones is taken: the first one that came.
    let most = |chosen: &dyn Fn(&Served) -> bool| {
        let of_client = served.iter().enumerate().rev().filter(|(_, one)| chosen(one));
        of_client.max_by_key(|(_, one)| count(one.from)).map(|(place, _)| place)
    };
    most(&|one| one.activity.waits_for_client())
        .or_else(|| most(&|_| true).filter(|&place| count(served[place].from) >= count(comes) + 2))
}

/// Whose address it is. A host has a whole /64 of IPv6.
pub fn client_of(from: Option<IpAddr>) -> Option<IpAddr> {
    from.map(|address| match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address @ IpAddr::V4(_) => address,
    })
}

#[cfg(test)]
mod tests {
    //! Who has to go, and who waits.

    use std::{net::Ipv4Addr, time::Duration};

    use tokio::time::timeout;

    use super::{
        super::{activity::AnswerGuard, bounds::Bounds},
        *,
    };

    const MOST: usize = 64;

    /// A client's connection, as long as its place is held.
    fn connected(room: &Arc<ConnectionLimit>, client: u8, place: ConnectionPermit) -> Arc<Activity> {
        let activity = Activity::new(&Bounds::INTERNAL.times);
        let task = tokio::spawn(async move {
            let _place = place;
            std::future::pending::<()>().await;
        });
        room.note(Served {
            from: address(client),
            task: task.abort_handle(),
            activity: Arc::clone(&activity),
        });
        activity
    }

    fn address(client: u8) -> Option<IpAddr> {
        Some(Ipv4Addr::new(192, 0, 2, client).into())
    }

    async fn come(room: &Arc<ConnectionLimit>, client: u8) -> Option<Arc<Activity>> {
        room.admit(address(client)).await.map(|place| connected(room, client, place))
    }

    /// All connections, while they are being answered.
    fn answer_all(room: &ConnectionLimit) -> Vec<AnswerGuard> {
        room.served.lock().unwrap().iter().map(|one| one.activity.answer()).collect()
    }

    #[tokio::test]
    async fn the_oldest_of_whoever_has_most_gives_way() {
        let room = ConnectionLimit::new(MOST, Overload::Evict);
        // One who was first, and one who has taken all the rest; the first of these is being answered.
        let _first = come(&room, 1).await.unwrap();
        let second = come(&room, 2).await.unwrap();
        let _answering = second.answer();
        let mut others = Vec::new();
        while others.len() < MOST - 2 {
            others.push(come(&room, 2).await.unwrap());
        }
        let (oldest, clients) = {
            let served = room.served.lock().unwrap();
            assert_eq!(giving_way(&served, address(2)), Some(2));
            (served[2].task.clone(), |served: &[Served]| {
                served.iter().filter(|one| one.from == served[0].from).count()
            })
        };
        let comes = timeout(Duration::from_secs(10), come(&room, 2)).await;
        others.push(comes.expect("a place in time").expect("a place"));
        assert!(oldest.is_finished());
        {
            let served = room.served.lock().unwrap();
            assert_eq!((served.len(), clients(&served)), (MOST, 1));
        }
        let _all = answer_all(&room);
        assert!(come(&room, 2).await.is_none(), "all are being answered");
        room.served.lock().unwrap()[9].task.abort();
        tokio::task::yield_now().await;
        assert!(come(&room, 2).await.is_some(), "one has ended");
    }

    #[tokio::test]
    async fn who_always_asks_gives_way_to_others_until_all_have_as_many() {
        let room = ConnectionLimit::new(6, Overload::Evict);
        for _ in 0..6 {
            come(&room, 1).await.unwrap();
        }
        let mut answering = answer_all(&room);
        let oldest = room.served.lock().unwrap()[0].task.clone();
        for client in [2, 2, 3] {
            let activity =
                timeout(Duration::from_secs(10), come(&room, client)).await.unwrap().expect("a place");
            answering.push(activity.answer());
        }
        assert!(oldest.is_finished());
        let of =
            |client: u8| room.served.lock().unwrap().iter().filter(|one| one.from == address(client)).count();
        assert_eq!([of(1), of(2), of(3)], [3, 2, 1]);
        assert!(come(&room, 2).await.is_none(), "nobody would have more than it then");
        assert!(come(&room, 3).await.is_some(), "the first still has more");
        assert_eq!([of(1), of(2), of(3)], [2, 2, 2]);
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let of = |text: &str| client_of(Some(text.parse().unwrap()));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }

    #[tokio::test]
    async fn who_comes_too_late_is_refused_or_waits() {
        let evicting = ConnectionLimit::new(1, Overload::Evict);
        assert!(evicting.wait().await.is_none());
        // Nobody is known who could give way.
        let place = evicting.admit(None).await.unwrap();
        assert!(evicting.admit(None).await.is_none());
        drop(place);
        assert!(evicting.admit(None).await.is_some());
        let queueing = ConnectionLimit::new(1, Overload::Queue);
        let place = queueing.wait().await.unwrap();
        assert!(timeout(Duration::ZERO, queueing.wait()).await.is_err());
        drop(place);
        assert!(queueing.wait().await.is_some());
        timeout(Duration::ZERO, queueing.all_are_gone()).await.expect("nobody is there");
    }
}
