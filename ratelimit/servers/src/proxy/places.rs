//! Room for the requests that are passed on at once, which no client can have all of.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::serving::client_of;

/// So many places. A client gets another one only as long as it has fewer than are free: alone it has at most half of them,
/// two have a third each, and for one who comes there is always something left.
#[derive(Debug)]
pub struct Places {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Of each client that has any.
    each: HashMap<Option<IpAddr>, usize>,
}

/// A request's place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    client: Option<IpAddr>,
}

impl Places {
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A place for a client's request, if there is one for it. Clients that can't be told apart are one.
    pub fn take(self: &Arc<Self>, client: Option<IpAddr>) -> Option<Place> {
        let client = client_of(client);
        let mut taken = self.taken();
        let free = self.most.saturating_sub(taken.all);
        let own = taken.each.entry(client).or_default();
        if *own >= free {
            if *own == 0 {
                taken.each.remove(&client);
            }
            return None;
        }
        *own += 1;
        taken.all += 1;
        Some(Place { places: Arc::clone(self), client })
    }

    /// What is locked here is whole at any time.
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Some(own) = taken.each.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                taken.each.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_of(places: &Arc<Places>, client: &str) -> Vec<Place> {
        let client = client.parse().ok();
        std::iter::from_fn(|| places.take(client)).collect()
    }

    #[test]
    fn who_has_most_leaves_room_for_others() {
        let places = Places::new(100);
        let one = all_of(&places, "192.0.2.1");
        assert_eq!(one.len(), 50);
        let other = all_of(&places, "192.0.2.2");
        assert_eq!(other.len(), 25);
        // It has more than its part by now.
        assert!(places.take("192.0.2.1".parse().ok()).is_none());
        let third = all_of(&places, "192.0.2.3");
        assert!(!third.is_empty());
        drop((one, third));
        assert_eq!(all_of(&places, "192.0.2.2").len(), 25, "with what it has, half of all");
        drop(other);
        assert!(places.taken().each.is_empty() && places.taken().all == 0);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client_and_so_are_all_who_are_unknown() {
        let places = Places::new(10);
        let _one = all_of(&places, "2001:db8::1");
        assert!(all_of(&places, "2001:db8::2").is_empty());
        assert!(!all_of(&places, "2001:db8:0:1::1").is_empty());
        let unknown: Vec<Place> = std::iter::from_fn(|| places.take(None)).collect();
        assert!(!unknown.is_empty());
    }

    #[test]
    fn the_last_place_is_somebodys() {
        let places = Places::new(1);
        let one = places.take(None);
        assert!(one.is_some() && places.take(None).is_none());
        drop(one);
        assert!(places.take(None).is_some());
    }
}
