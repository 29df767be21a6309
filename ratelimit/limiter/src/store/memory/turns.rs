//! Turns: who has been overtaken again and again gets the store for itself for a moment.
//!
//! They only put requests in order. States are compared when they are exchanged, in a turn as at any other time, so
//! that nobody admits too much who has not noticed that there is one.
//!
//! Tickets are served in the order in which they were taken. Whoever begins something at a bucket waits for those that
//! had been taken by then, and not for later ones: so everybody waits for a bounded number of others.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use super::backoff::Backoff;

/// How many turns were asked for, and how many are over.
#[derive(Debug, Default)]
pub struct Turns {
    taken: AtomicU32,
    over: AtomicU32,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct Turn<'t>(&'t Turns);

impl Turns {
    /// Waits for the caller's turn.
    pub fn take(&self) -> Turn<'_> {
        let ticket = self.taken.fetch_add(1, Relaxed);
        self.wait_for(ticket);
        Turn(self)
    }

    /// Waits for the turns that have been asked for.
    #[inline(always)]
    pub fn wait(&self) {
        let taken = self.taken.load(Relaxed);
        if self.over.load(Relaxed) != taken {
            self.wait_for(taken);
        }
    }

    /// Until so many are over.
    #[cold]
    #[inline(never)]
    fn wait_for(&self, turns: u32) {
        let mut backoff = Backoff::default();
        while !self.are_over(turns) {
            backoff.wait();
        }
    }

    /// Whether so many are over. Both numbers wrap.
    fn are_over(&self, turns: u32) -> bool {
        self.over.load(Acquire).wrapping_sub(turns).cast_signed() >= 0
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.over.fetch_add(1, Release);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
        thread,
    };

    use super::*;

    #[test]
    fn turns_come_one_after_the_other_in_the_order_of_their_tickets() {
        let (turns, order, inside) = (Turns::default(), Mutex::new(Vec::new()), AtomicUsize::new(0));
        let first = turns.take();
        thread::scope(|scope| {
            for number in 0..4_u32 {
                let (turns, order, inside) = (&turns, &order, &inside);
                scope.spawn(move || {
                    let _turn = turns.take();
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    order.lock().unwrap().push(number);
                    inside.fetch_sub(1, SeqCst);
                });
                // Its ticket is taken before the next one comes.
                while turns.taken.load(SeqCst) != number + 2 {
                    thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn others_wait_for_the_turns_that_were_asked_for_before() {
        let turns = Turns { taken: AtomicU32::new(u32::MAX), over: AtomicU32::new(u32::MAX) };
        turns.wait();
        assert!(turns.are_over(u32::MAX - 1) && turns.are_over(u32::MAX) && !turns.are_over(0));
        let first = turns.take();
        turns.taken.fetch_add(1, SeqCst);
        assert!(!turns.are_over(0) && !turns.are_over(1));
        drop(first);
        assert!(turns.are_over(0) && !turns.are_over(1), "one turn is yet to come");
        turns.wait_for(0);
    }
}
