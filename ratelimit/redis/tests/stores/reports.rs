//! What limiters over Redis have been reported to get wrong.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::future::join_all;
use ratelimit_common::limit::{Algorithm, Limit, LimitSpec, Rate, StateStorage};
use ratelimit_common::time::Nanos;
use ratelimit_redis::SharedBuckets;
use ratelimit_redis_testing::{Engine, Server};

use crate::{
    counter::settings,
    service::Daemon,
    support::{
        asking::{LONG, admits, each_kind, one, store},
        direct::{Clock, Direct},
    },
};

/// A whole week's beginning, so that windows are.
const START: u64 = 1_700_092_800_000_000 / 604_800_000_000 * 604_800_000_000;
const SECOND: u64 = 1_000_000;

async fn at(clock: &Clock, server: &Server) -> SharedBuckets<Direct> {
    store(Direct::with_clock(server, clock).await, LONG)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_a_second_lets_one_a_second_pass_whoever_asks_at_once() {
    let server = Server::start(Engine::Valkey);
    let clock: Clock = Arc::new(AtomicU64::new(START));
    let stores = [at(&clock, &server).await, at(&clock, &server).await];
    for (name, limit) in each_kind(1, Duration::from_secs(1)) {
        let asks = [one(name, "key", &limit)];
        for second in 0..10 {
            let answers = join_all((0..100).map(|number| admits(&stores[number % 2], &asks))).await;
            let passed = answers.into_iter().filter(|answer| answer.clone().unwrap()).count();
            assert_eq!(passed, 1, "{name} in second {second}");
            // Where a second begins, a sliding counter still has all of the one before.
            clock.fetch_add(SECOND + 1, SeqCst);
        }
    }
}

/// Whoever counts in milliseconds lets a thousand pass, or all.
#[tokio::test(flavor = "multi_thread")]
async fn eight_thousand_a_second_are_eight_thousand() {
    let server = Server::start(Engine::Redis);
    let clock: Clock = Arc::new(AtomicU64::new(START));
    let store = at(&clock, &server).await;
    let rate = Rate { amount: 8_000.try_into().unwrap(), per: Nanos::SECOND };
    let build = |spec: LimitSpec| spec.build(StateStorage::UserSpace).unwrap();
    let passing = async |name, limit: &Limit, count| {
        let asks = [one(name, "key", limit)];
        let answers = join_all((0..count).map(|_| admits(&store, &asks))).await;
        answers.into_iter().filter(|answer| answer.clone().unwrap()).count()
    };
    // Without a burst one passes in each eighth of a millisecond, however many ask.
    let single =
        build(LimitSpec { burst: 1.try_into().ok(), ..LimitSpec::new(Algorithm::TokenBucket, rate) });
    for eighth in 0..2_000 {
        assert_eq!(passing("single", &single, 3).await, 1, "{eighth}");
        clock.fetch_add(124, SeqCst);
        assert_eq!(passing("single", &single, 1).await, 0, "{eighth}");
        clock.fetch_add(1, SeqCst);
    }
    clock.store(START + 10 * SECOND, SeqCst);
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowLog] {
        let limit = build(LimitSpec::new(algorithm, rate));
        for second in 0..2 {
            let mut passed = 0;
            for _ in 0..10 {
                passed += passing(algorithm.name(), &limit, 1_000).await;
                clock.fetch_add(SECOND / 10, SeqCst);
            }
            assert_eq!(passed, 8_000, "{algorithm:?} in second {second}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_though_nothing_is_remembered() {
    let rules = "
domain: d
on_store_error: deny
descriptors:
  - key: user
    rate_limit: {unit: week, requests_per_unit: 5}
";
    let server = Server::start(Engine::Redis);
    let daemon = Daemon::sharing(&settings(&[server.url()]), rules);
    let daemon = Daemon(daemon.0.remembering(0));
    daemon.until_passes("user", "first").await;
    assert_eq!(daemon.passing(20, &[("user", "a")]).await, 5);
    assert_eq!(daemon.0.shared_store().unwrap().recalled, 0);
}
