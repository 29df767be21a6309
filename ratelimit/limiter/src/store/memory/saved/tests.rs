//! What a limit owes, in the table and beside it: after a restart, a clock that was set, and refunds.

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicUsize, Ordering},
};

use ratelimit_common::limit::{Algorithm, Limit, LimitSpec, Rate, StateStorage};

use super::*;
use crate::store::{Account, Answer, Buckets as _, Charge, Enrolment, Store as _, Zero};

/// A limit that can be overrun: `amount` in a minute.
fn limit(algorithm: Algorithm, amount: u64) -> Limit {
    let rate = Rate { amount: NonZeroU64::new(amount).unwrap(), per: Nanos::from_secs(60) };
    let spec = LimitSpec { overrun: true, ..LimitSpec::new(algorithm, rate) };
    spec.build(StateStorage::UserSpace).unwrap()
}

fn enrolled(store: &MemoryStore, limit: &Limit) -> (Account, Limits) {
    let (accounts, limits) = store.enroll(&[Enrolment { name: "rule", limit }]);
    (accounts[0], limits)
}

fn ask<'l>(store: &MemoryStore, limits: &Limits, charge: &Charge<'l>) -> Answer<'l> {
    store.read(limits, charge).0.ask(charge.limit, charge.now, charge.cost)
}

fn refund(store: &MemoryStore, limits: &Limits, charge: &Charge<'_>) {
    let (before, spot) = store.read(limits, charge);
    let mut after = before.clone();
    after.refund(charge.limit, charge.now, charge.cost);
    assert!(store.exchange(limits, charge, spot, before, after));
}

/// The kinds of states: a time, an interval, a counter in a word and one too wide for it, a log.
const KINDS: [(Algorithm, u64); 5] = [
    (Algorithm::TokenBucket, 100),
    (Algorithm::FixedWindow, 100),
    (Algorithm::SlidingWindowCounter, 100),
    (Algorithm::SlidingWindowCounter, 10_000_000),
    (Algorithm::SlidingWindowLog, 100),
];

#[test]
fn what_is_owed_survives_a_restart_and_a_clock_that_is_set() {
    for (algorithm, amount) in KINDS {
        let at = |minutes: u64| Now(Nanos::from_secs(3_600 + 60 * minutes));
        let limit = limit(algorithm, amount);
        let store = MemoryStore::new(1_000).unwrap();
        let (account, limits) = enrolled(&store, &limit);
        let hash = store.hash("key");
        let charge = |minutes, cost| Charge { account, hash, limit: &limit, now: at(minutes), cost };
        let cost = u32::try_from(5 * amount).unwrap();
        assert!(store.charge(&limits, &charge(0, cost)).allowed);
        let owed = |store: &MemoryStore, minutes| {
            let (account, limits) = enrolled(store, &limit);
            let charge = Charge { account, ..charge(minutes, 0) };
            ask(store, &limits, &charge).decision().owed()
        };
        assert_eq!(owed(&store, 1), 3 * amount, "{algorithm:?} {amount}");

        let mut bytes = Vec::new();
        store.save(&limits, at(2), Nanos(0)).write(&mut bytes).unwrap();
        let restored = MemoryStore::restore(&bytes, 1_000).unwrap().store;
        assert_eq!(owed(&restored, 2), 2 * amount, "{algorithm:?} {amount}");

        // A day forward ends the window, which pays for itself, and those that were skipped pay nothing.
        let zero = Zero::at(Nanos(0), Now(Nanos(0)), Nanos::from_secs(86_400 * 365));
        let later = Zero::at(Nanos(0), Now(Nanos(0)), Nanos::from_secs(86_400 * 366));
        let (_, limits) = enrolled(&restored, &limit);
        restored.realign(&limits, zero, later, at(2));
        let has_windows = !matches!(algorithm, Algorithm::TokenBucket | Algorithm::SlidingWindowLog);
        let left = if has_windows { amount } else { 2 * amount };
        assert_eq!(owed(&restored, 2), left, "{algorithm:?} {amount}");
        assert_eq!(owed(&restored, 3), left - amount, "{algorithm:?} {amount}");
    }
}

#[test]
fn a_refund_pays_what_is_owed_first() {
    for (algorithm, amount) in KINDS {
        let limit = limit(algorithm, amount);
        let store = MemoryStore::new(1_000).unwrap();
        let (account, limits) = enrolled(&store, &limit);
        let (hash, now) = (store.hash("key"), Now(Nanos::from_secs(3_600)));
        let charge = |times: u64| {
            let cost = u32::try_from(times * amount).unwrap();
            Charge { account, hash, limit: &limit, now, cost }
        };
        assert!(store.charge(&limits, &charge(8)).allowed);
        let found = || ask(&store, &limits, &charge(0)).decision();
        refund(&store, &limits, &charge(6));
        assert_eq!((found().owed(), found().remaining()), (amount, 0), "{algorithm:?} {amount}");
        refund(&store, &limits, &charge(2));
        assert_eq!((found().owed(), found().remaining()), (0, amount), "{algorithm:?} {amount}");
    }
}

#[test]
fn what_was_charged_before_a_save_is_in_it() {
    let limit = limit(Algorithm::FixedWindow, 1_000_000);
    let store = MemoryStore::new(200_000).unwrap();
    let (account, limits) = enrolled(&store, &limit);
    let now = Now(Nanos::from_secs(3_600));
    let charge = |key: usize| {
        let hash = store.hash(&key.to_string());
        Charge { account, hash, limit: &limit, now, cost: 1 }
    };
    let charged = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for key in 1..=100_000 {
                assert!(
                    store.charge(&limits, &charge(0)).allowed && store.charge(&limits, &charge(key)).allowed
                );
                charged.store(key, Ordering::SeqCst);
            }
        });
        while !writer.is_finished() {
            let before = charged.load(Ordering::SeqCst);
            let saved = store.save(&limits, now, Nanos(0));
            let after = charged.load(Ordering::SeqCst) + 1;
            let mut bytes = Vec::new();
            saved.write(&mut bytes).unwrap();
            let restored = MemoryStore::restore(&bytes, 200_000).unwrap().store;
            let (account, limits) = enrolled(&restored, &limit);
            let used = |key| {
                let charge = Charge { account, cost: 0, ..charge(key) };
                1_000_000 - ask(&restored, &limits, &charge).decision().remaining()
            };
            assert!(
                (before as u64..=after as u64).contains(&used(0)),
                "{} not from {before} to {after}",
                used(0)
            );
            let lost = (1..=before).filter(|key| used(*key) != 1).count();
            assert_eq!(lost, 0, "of {before}");
        }
    });
}

/// What asks takes nothing, whatever it would cost and though it is denied.
#[test]
fn a_question_about_a_limit_that_owes_takes_nothing() {
    for (algorithm, amount) in KINDS {
        let limit = limit(algorithm, amount);
        let store = MemoryStore::new(1_000).unwrap();
        let (account, limits) = enrolled(&store, &limit);
        let (hash, now) = (store.hash("key"), Now(Nanos::from_secs(3_600)));
        let cost = u32::try_from(3 * amount).unwrap();
        let charge = Charge { account, hash, limit: &limit, now, cost };
        assert!(ask(&store, &limits, &charge).allowed);
        assert!(store.charge(&limits, &charge).allowed);
        for _ in 0..2 {
            let answer = ask(&store, &limits, &charge);
            let said = answer.decision();
            assert_eq!((answer.allowed, said.owed(), said.cut()), (false, 2 * amount, 0), "{algorithm:?}");
        }
    }
}
