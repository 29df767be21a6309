//! Bans on the way from those who answer requests to who drops packets, who may be slower.

use std::{
    collections::HashMap,
    mem,
    sync::{Condvar, Mutex, PoisonError},
};

use crate::policy::{BanTerms, Prefix};

/// Bans that wait at most. One is made in microseconds.
pub const MOST_WAITING: usize = 1_024;

/// A ban to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanOrder {
    /// Who is banned.
    pub prefix: Prefix,
    /// For how long.
    pub terms: BanTerms,
    /// The domain and label of the rule that wants it.
    pub rule: String,
}

/// Bans that wait, one for each prefix. Whoever adds one never waits.
#[derive(Debug, Default)]
pub struct BanQueue {
    waiting: Mutex<WaitingBans>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WaitingBans {
    orders: HashMap<Prefix, BanOrder>,
    /// Whether somebody takes them.
    is_open: bool,
}

impl BanQueue {
    /// Somebody takes bans from now on.
    pub fn open(&self) {
        self.with(|waiting| waiting.is_open = true);
    }

    /// Nobody does any more: who waits for some is told.
    pub fn close(&self) {
        self.with(|waiting| *waiting = WaitingBans::default());
        self.changed.notify_all();
    }

    /// Adds a ban; the longer one stays if one of the prefix is there. Whether there is room, and somebody who takes
    /// it.
    pub fn push(&self, order: BanOrder) -> bool {
        let is_taken = self.with(|waiting| {
            let has_room = waiting.orders.len() < MOST_WAITING || waiting.orders.contains_key(&order.prefix);
            if !waiting.is_open || !has_room {
                return false;
            }
            let there = waiting.orders.entry(order.prefix).or_insert_with(|| order.clone());
            if there.terms.length < order.terms.length {
                *there = order;
            }
            true
        });
        self.changed.notify_one();
        is_taken
    }

    /// All that wait, when there are some; `None` when it is closed.
    pub fn take(&self) -> Option<Vec<BanOrder>> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |waiting: &mut WaitingBans| waiting.is_open && waiting.orders.is_empty();
        let mut waiting = self.changed.wait_while(waiting, is_idle).unwrap_or_else(PoisonError::into_inner);
        waiting.is_open.then(|| mem::take(&mut waiting.orders).into_values().collect())
    }

    fn with<T>(&self, change: impl FnOnce(&mut WaitingBans) -> T) -> T {
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
