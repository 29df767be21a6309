//! One budget for what all requests and answers may hold in memory until these have been sent. A limit on each alone is
//! none on a client, which can begin thousands of requests at once and finish none, or take no answer.
//!
//! A client has at most as much of it as is free then, so that some is left for others, however much one wants: alone
//! it gets half, two get a third each. Places for requests are given out by the same rule.

use std::{
    collections::HashMap,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use axum::BoxError;
use http::HeaderMap;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use thiserror::Error;

use super::overload::client_of;

/// What a request holds beside its headers and its body: its task, its stream, and the last [piece](LAST) of its
/// answer.
pub const REQUEST: usize = 4 << 10;
/// Bytes of an answer's last piece, at most.
pub const LAST: usize = 2 << 10;
/// What a header holds beside its text.
const HEADER: usize = 128;
/// The part of a budget that is left for answers that there is no room.
const RESERVE: usize = 8;

/// Bytes that are free, and who holds the others.
#[derive(Debug)]
pub struct Budget {
    free: AtomicUsize,
    reserve: usize,
    holders: Mutex<HashMap<Option<IpAddr>, Weak<Holder>>>,
}

/// What a client holds, over all its connections.
#[derive(Debug, Default)]
pub struct Holder(AtomicUsize);

/// What a request has of the budget, as long as this lives.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    holder: Arc<Holder>,
    taken: AtomicUsize,
    was_refused: AtomicBool,
    is_whole: AtomicBool,
}

/// A body that ends with an error where there is no more room for it. When its request has been answered, it is not
/// counted any more: what comes then, as messages of a stream, is looked at one by one.
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
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Self::with(bytes, bytes / RESERVE)
    }

    /// A budget of so many places, all of which can be taken.
    pub fn without_reserve(places: usize) -> Arc<Self> {
        Self::with(places, 0)
    }

    fn with(all: usize, reserve: usize) -> Arc<Self> {
        Arc::new(Self { free: AtomicUsize::new(all), reserve, holders: Mutex::default() })
    }

    /// As many as there are.
    pub fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    /// What the client at this address holds.
    pub fn holder(&self, address: Option<IpAddr>) -> Arc<Holder> {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holder) = holders.get(&client_of(address)).and_then(Weak::upgrade) {
            return holder;
        }
        if holders.len() == holders.capacity() {
            // So there are no more than twice as many as are connected.
            holders.retain(|_, holder| holder.strong_count() > 0);
        }
        let holder = Arc::<Holder>::default();
        holders.insert(client_of(address), Arc::downgrade(&holder));
        holder
    }

    /// One place for a client. Clients that can't be told apart are one.
    ///
    /// # Errors
    /// There is none for it.
    pub fn take_one(self: &Arc<Self>, holder: &Arc<Holder>) -> Result<Arc<Share>, Full> {
        let share = self.share(holder, true);
        share.take(1)?;
        Ok(share)
    }

    /// A share for a request, and the body that counts against it.
    pub fn meter(self: &Arc<Self>, holder: &Arc<Holder>, body: Incoming) -> (Arc<Share>, Metered) {
        let share = self.share(holder, body.is_end_stream());
        let metered = Metered { body, share: Arc::downgrade(&share) };
        (share, metered)
    }

    /// A share of nothing yet.
    pub fn share(self: &Arc<Self>, holder: &Arc<Holder>, is_whole: bool) -> Arc<Share> {
        Arc::new(Share {
            budget: Arc::clone(self),
            holder: Arc::clone(holder),
            taken: AtomicUsize::new(0),
            was_refused: AtomicBool::new(false),
            is_whole: AtomicBool::new(is_whole),
        })
    }
}

/// What a request holds as soon as its headers are there.
pub fn held_by(headers: &HeaderMap, path: &str) -> usize {
    let header =
        |(name, value): (&http::HeaderName, &http::HeaderValue)| HEADER + name.as_str().len() + value.len();
    REQUEST + path.len() + headers.iter().map(header).sum::<usize>()
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
        self.take_above(self.budget.reserve, bytes)
    }

    /// Takes so much more, for the answer that there is no room.
    ///
    /// # Errors
    /// There is no room even for that.
    pub fn take_of_reserve(&self, bytes: usize) -> Result<(), Full> {
        self.take_above(0, bytes)
    }

    fn take_above(&self, reserve: usize, bytes: usize) -> Result<(), Full> {
        let wanted = self.holder.0.load(Relaxed).saturating_add(bytes);
        let less = |free: usize| (wanted <= free.saturating_sub(reserve)).then(|| free - bytes);
        if self.budget.free.fetch_update(Relaxed, Relaxed, less).is_err() {
            self.was_refused.store(true, Relaxed);
            return Err(Full);
        }
        self.holder.0.fetch_add(bytes, Relaxed);
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
        let taken = *self.taken.get_mut();
        self.holder.0.fetch_sub(taken, Relaxed);
        self.budget.free.fetch_add(taken, Relaxed);
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

#[cfg(test)]
mod tests {
    //! Who gets how much.

    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some([192, 0, 2, last].into())
    }

    /// How often a client can take so much.
    fn fill(budget: &Arc<Budget>, last: u8, bytes: usize) -> Vec<Arc<Share>> {
        let mut shares = Vec::new();
        loop {
            let share = budget.share(&budget.holder(address(last)), true);
            if share.take(bytes).is_err() {
                return shares;
            }
            shares.push(share);
        }
    }

    #[test]
    fn a_client_leaves_as_much_as_it_has_for_others() {
        let budget = Budget::new(800);
        let first = fill(&budget, 1, 1);
        assert_eq!(first.len(), 350, "half of what is not in reserve");
        let second = fill(&budget, 2, 1);
        assert_eq!(second.len(), 175, "half of the rest");
        assert_eq!(fill(&budget, 1, 1).len(), 0, "its other connections count, too");
        drop(first);
        assert_eq!(fill(&budget, 2, 1).len(), 175, "as much as if it had been alone");
        drop(second);
        assert_eq!(budget.free.load(Relaxed), 800);
    }

    #[test]
    fn who_is_refused_can_be_told_so_until_the_reserve_is_used_up() {
        let budget = Budget::new(80);
        let filled = fill(&budget, 1, 1);
        let share = budget.share(&budget.holder(address(1)), true);
        assert!((0..5).all(|_| share.take_of_reserve(1).is_ok() && share.take(1).is_err()));
        assert!(share.take_of_reserve(1).is_err());
        assert!(fill(&budget, 2, 1).len() > 10, "another client");
        drop(filled);
    }

    #[test]
    fn a_share_takes_what_it_lacks() {
        let budget = Budget::new(800);
        let share = budget.share(&budget.holder(address(1)), true);
        assert!(share.hold(701).is_err());
        share.hold(340).unwrap();
        share.hold(200).unwrap();
        assert_eq!(fill(&budget, 1, 1).len(), 10);
        drop(share);
        assert_eq!(budget.free.load(Relaxed), 800);
    }

    fn places_of(places: &Arc<Budget>, client: &str) -> Vec<Arc<Share>> {
        let client = client.parse().ok();
        std::iter::from_fn(|| places.take_one(&places.holder(client)).ok()).collect()
    }

    #[test]
    fn who_has_most_places_leaves_some_for_others() {
        let places = Budget::without_reserve(100);
        let one = places_of(&places, "192.0.2.1");
        assert_eq!(one.len(), 50);
        let other = places_of(&places, "192.0.2.2");
        assert_eq!(other.len(), 25);
        // It has more than its part by now.
        assert!(places_of(&places, "192.0.2.1").is_empty());
        let third = places_of(&places, "192.0.2.3");
        assert!(!third.is_empty());
        drop((one, third));
        assert_eq!(places_of(&places, "192.0.2.2").len(), 25, "with what it has, half of all");
        drop(other);
        assert_eq!(places.free.load(Relaxed), 100);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client_and_so_are_all_who_are_unknown() {
        let places = Budget::without_reserve(10);
        let _one = places_of(&places, "2001:db8::1");
        assert!(places_of(&places, "2001:db8::2").is_empty());
        assert!(!places_of(&places, "2001:db8:0:1::1").is_empty());
        assert!(!places_of(&places, "nobody").is_empty());
    }

    #[test]
    fn the_last_place_is_somebodys() {
        let places = Budget::without_reserve(1);
        let one = places_of(&places, "nobody");
        assert!(one.len() == 1 && places_of(&places, "nobody").is_empty());
        drop(one);
        assert_eq!(places_of(&places, "nobody").len(), 1);
    }

    #[test]
    fn who_is_gone_is_forgotten() {
        let budget = Budget::unlimited();
        let stays = budget.holder(address(0));
        for number in 0..10_000_u32 {
            budget.holder(Some(number.to_be_bytes().into()));
        }
        assert!(budget.holders.lock().unwrap().len() < 100);
        assert!(Arc::ptr_eq(&stays, &budget.holder(address(0))));
    }

    #[test]
    fn many_small_headers_hold_more_than_their_text() {
        let mut headers = HeaderMap::new();
        (0..100).for_each(|_| {
            assert!(headers.append("a", http::HeaderValue::from_static("b")) || headers.len() == 1)
        });
        assert_eq!(held_by(&headers, "/path"), REQUEST + 5 + 100 * (HEADER + 2));
    }
}
