//! Requests that others overtake at every bucket, until it is their turn.

use std::{cell::Cell, hash::Hash};

use ratelimit_common::{
    limit::{Algorithm, Limit, LimitSpec, Rate, StateStorage},
    time::{Nanos, Now},
};

use super::*;
use crate::store::{
    Account, Buckets, Charge, Enrolment, KeyHash, MOST_LOST, MemoryStore, Zero,
    memory::{MemorySpot, MemoryTurn},
};

const NOW: Now = Now(Nanos::from_secs(100));

/// A store where somebody else takes a unit of each bucket that is about to be exchanged, unless somebody has the turn.
struct Contended {
    store: MemoryStore,
    /// Exchanges before the first that is overtaken.
    undisturbed: Cell<u32>,
    overtaken: Cell<u32>,
}

impl Buckets for Contended {
    type Spot<'s> = MemorySpot<'s>;

    fn read(&self, limits: &Limits, charge: &Charge<'_>) -> (State, MemorySpot<'_>) {
        self.store.read(limits, charge)
    }

    fn exchange(
        &self,
        limits: &Limits,
        charge: &Charge<'_>,
        spot: MemorySpot<'_>,
        before: State,
        after: State,
    ) -> bool {
        if self.undisturbed.get() > 0 {
            self.undisturbed.update(|left| left - 1);
        } else if self.store.charge(limits, &Charge { cost: 1, ..*charge }).allowed {
            self.overtaken.update(|times| times + 1);
            assert!(self.overtaken.get() < 1_000, "it goes on for ever");
        }
        self.store.exchange(limits, charge, spot, before, after)
    }
}

impl Store for Contended {
    type Turn<'s> = MemoryTurn<'s>;

    fn hash<K: Hash + ?Sized>(&self, key: &K) -> KeyHash {
        self.store.hash(key)
    }

    fn enroll(&self, rules: &[Enrolment<'_>]) -> (Vec<Account>, Limits) {
        self.store.enroll(rules)
    }

    fn turn(&self) -> MemoryTurn<'_> {
        self.store.turn()
    }

    fn charge<'l>(&self, limits: &Limits, charge: &Charge<'l>) -> Answer<'l> {
        self.store.charge(limits, charge)
    }

    fn realign(&self, limits: &Limits, from: Zero, to: Zero, now: Now) {
        self.store.realign(limits, from, to, now);
    }

    fn settle(&self, limits: &Limits, now: Now) {
        Store::settle(&self.store, limits, now);
    }

    fn clamp(&self, limits: &Limits, now: Now) {
        self.store.clamp(limits, now);
    }
}

fn limit(algorithm: Algorithm, amount: u64) -> Limit {
    let rate = Rate { amount: amount.try_into().unwrap(), per: Nanos::from_secs(3_600) };
    LimitSpec::new(algorithm, rate).build(StateStorage::UserSpace).unwrap()
}

/// Whether a request of one unit of each limit passes that is overtaken after so many exchanges, how often it was, and
/// what each limit has let through then.
fn evaluated(limits: &[Limit; 2], undisturbed: u32) -> (bool, u32, [u64; 2]) {
    let store = Contended {
        store: MemoryStore::new(100).unwrap(),
        undisturbed: Cell::new(undisturbed),
        overtaken: Cell::new(0),
    };
    let (accounts, known) = store
        .enroll(&[Enrolment { name: "a", limit: &limits[0] }, Enrolment { name: "b", limit: &limits[1] }]);
    let part = |index: usize| Part {
        account: accounts[index],
        hash: store.hash("key"),
        limit: &limits[index],
        cost: 1,
        act: Act::ChargeIfAdmitted,
        say: Say::Decides,
        over: Over::Denied,
        soft: None,
    };
    let parts = [part(0), part(1)];
    let terms = Terms { now: NOW, passes_all: false, has_open_quota: false };
    let transaction = Transaction { store: &store, limits: &known, crossings: None, terms };
    let mut decided = Decided::none(&terms);
    transaction.judge(&parts, &mut decided, || NOW);
    let used =
        parts.map(|part| store.read(&known, &part.charge(NOW)).0.ask(part.limit, NOW, 0).decision().used());
    (decided.admitted, store.overtaken.get(), used)
}

#[test]
fn a_request_that_is_overtaken_again_and_again_gets_a_turn() {
    let most = u64::from(MOST_LOST);
    for algorithm in Algorithm::ALL {
        let limits = [limit(algorithm, 1_000), limit(algorithm, 1_000)];
        assert_eq!(evaluated(&limits, 0), (true, MOST_LOST, [most + 1, 1]), "{algorithm:?}");
        assert_eq!(evaluated(&limits, 1), (true, MOST_LOST, [1, most + 1]), "{algorithm:?}");
    }
}

#[test]
fn others_may_take_all_that_there_is_meanwhile() {
    for algorithm in Algorithm::ALL {
        let limits = [limit(algorithm, 10), limit(algorithm, 1_000)];
        assert_eq!(evaluated(&limits, 0), (false, 10, [10, 0]), "{algorithm:?}");
    }
}

/// The first bucket was charged before others took all of the second, and they take from it while it is given back.
#[test]
fn what_was_charged_in_vain_is_given_back_in_a_turn() {
    for algorithm in Algorithm::ALL {
        let limits = [limit(algorithm, 1_000), limit(algorithm, 3)];
        let (admitted, overtaken, used) = evaluated(&limits, 1);
        assert_eq!((admitted, used[1]), (false, 3), "{algorithm:?}");
        assert_eq!(used[0], u64::from(overtaken) - 3, "{algorithm:?}: only what others have taken");
    }
}
