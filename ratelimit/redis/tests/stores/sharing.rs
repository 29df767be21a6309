//! Several processes with one limit, and calls that nobody waits for any more.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use ratelimit_common::limit::Algorithm;
use ratelimit_limiter::store::remote::{RemoteError, RemoteStore as _};
use ratelimit_redis::{SharedBuckets, StoreOptions};
use ratelimit_redis_testing::{Engine, Server, Setup};
use tokio::runtime::Handle;

use crate::support::{
    asking::{LONG, decide, each_kind, limit, one, options, outcomes, store},
    direct::Direct,
    random::Random,
};

const WEEK: Duration = Duration::from_secs(7 * 86_400);

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_let_exactly_as_many_pass_as_the_limit_says() {
    let server = Server::start(Engine::Redis);
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(store(Direct::to(&server).await, LONG));
    }
    let mut random = Random::new(3);
    for (name, limit) in each_kind(100, WEEK) {
        for round in 0..20 {
            let key = round.to_string();
            let asks = [one(name, &key, &limit)];
            let picks: Vec<usize> = (0..150).map(|_| random.below(3) as usize).collect();
            let answers = join_all(picks.iter().map(|&pick| decide(&stores[pick], &asks))).await;
            let passed = answers.into_iter().filter(|answer| answer.clone().unwrap()).count();
            assert_eq!(passed, 100, "{name}, round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_tells_the_time_whatever_the_processes_think_it_is() {
    let server = Setup::new(Engine::Valkey).clock().start();
    server.set_clock(Duration::from_secs(3_600), true);
    let store = store(Direct::to(&server).await, LONG);
    for (name, limit) in each_kind(3, WEEK) {
        let asks = [one(name, "key", &limit)];
        for number in 0..5 {
            assert_eq!(decide(&store, &asks).await.unwrap(), number < 3, "{name} {number}");
        }
        // Set back, it gives nothing extra, and nobody waits for it longer than for an answer.
        server.set_clock(Duration::from_secs(1_800), true);
        assert!(!decide(&store, &asks).await.unwrap(), "{name} after the clock stepped back");
        server.set_clock(Duration::from_secs(3_600), true);
        assert!(!decide(&store, &asks).await.unwrap(), "{name} after it stepped forward again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_waits_for_is_not_charged_late() {
    let server = Server::start(Engine::Redis);
    let quick = store(Direct::to(&server).await, Duration::from_millis(100));
    let patient = store(Direct::to(&server).await, LONG);
    let limit = limit(Algorithm::FixedWindow, 1_000, Duration::from_secs(365 * 86_400));
    let asks = [one("rule", "key", &limit)];
    assert!(decide(&quick, &asks).await.unwrap() && decide(&patient, &asks).await.unwrap());
    server.pause();
    let answers = join_all((0..200).map(|_| decide(&quick, &asks))).await;
    assert!(answers.iter().all(|answer| *answer == Err(RemoteError::TimedOut)), "{answers:?}");
    server.resume();
    let (after, _) = outcomes(&patient, &asks).await.unwrap();
    assert!(after.said()[0].contains("[997, 3, 0, 0]"), "{:?}", after.said());
    assert!(decide(&quick, &asks).await.unwrap(), "it goes on by itself");
}

/// Nothing that a daemon's clock says is true of a server's: its first requests are no exception.
#[tokio::test(flavor = "multi_thread")]
async fn first_requests_that_a_stopped_server_was_sent_are_not_charged_late() {
    let server = Setup::new(Engine::Valkey).clock().start();
    for hours in [0, 1] {
        server.set_clock(Duration::from_secs(hours * 3_600), false);
        let quick = store(Direct::to(&server).await, Duration::from_millis(300));
        let limits = each_kind(10, WEEK);
        // It waits for the secret, and asks the server nothing that tells the time.
        while quick.reset(&[]).await.is_err() {}
        let before = server.keys();
        server.pause();
        let key = hours.to_string();
        let asks: Vec<_> = limits.iter().map(|(name, limit)| [one(name, &key, limit)]).collect();
        let answers = join_all(asks.iter().map(|asks| decide(&quick, asks))).await;
        assert!(answers.iter().all(|answer| *answer == Err(RemoteError::TimedOut)), "{answers:?}");
        server.resume();
        while decide(&quick, &[one("after", &key, &limits[0].1)]).await.is_err() {}
        assert_eq!(server.keys(), before + 1, "{hours} h behind");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_and_strange_values_are_the_same_bucket_for_all_and_nobody_elses() {
    let server = Server::start(Engine::Redis);
    let (one_store, other) = (store(Direct::to(&server).await, LONG), store(Direct::to(&server).await, LONG));
    let limit = limit(Algorithm::FixedWindow, 1, Duration::from_secs(365 * 86_400));
    let long = "x".repeat(5_000);
    for key in [
        &*long,
        &long[1..],
        &long[..64],
        &long[..65],
        "",
        ":",
        "1:",
        "a{b}c",
        "{",
        "\0",
        "\0\0",
        "#",
        "%",
        "\r\n",
    ] {
        let asks = [one("rule", key, &limit)];
        assert!(decide(&one_store, &asks).await.unwrap(), "{key:?} is fresh");
        assert!(!decide(&other, &asks).await.unwrap(), "{key:?} is shared");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn once_a_second_under_load_lets_one_a_second_pass() {
    let server = Server::start(Engine::Valkey);
    let store = Arc::new(store(Direct::to(&server).await, LONG));
    for (name, limit) in each_kind(1, WEEK) {
        let asks = [one(name, "key", &limit)];
        let answers = join_all((0..2_000).map(|_| decide(&*store, &asks))).await;
        let passed = answers.into_iter().filter(|answer| answer.clone().unwrap()).count();
        assert_eq!(passed, 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn across_shards_what_one_denies_others_take_back() {
    let server = Server::start(Engine::Redis);
    let sharded = StoreOptions { shards: Some(64), ..options(LONG) };
    let store = SharedBuckets::new(Direct::to(&server).await, &sharded, Handle::current());
    let keys: Vec<String> = (0..40).map(|key| key.to_string()).collect();
    for (name, wide) in each_kind(100, WEEK) {
        let narrow = limit(Algorithm::FixedWindow, 1, Duration::from_secs(365 * 86_400));
        let mut asks: Vec<_> = keys.iter().map(|key| one(name, key, &wide)).collect();
        asks.insert(17, one("narrow", name, &narrow));
        assert!(decide(&store, &asks).await.unwrap(), "{name}");
        for _ in 0..3 {
            assert!(!decide(&store, &asks).await.unwrap(), "{name}");
        }
        // What is taken back may still be on its way, which denies more meanwhile and never less.
        let mut left: Vec<String> = Vec::new();
        for _ in 0..200 {
            let (after, _) = outcomes(&store, &asks).await.unwrap();
            let said = asks.iter().zip(after.said()).filter(|(ask, _)| ask.rule == name);
            left = said
                .filter(|(_, said)| !said.contains("[99, 1, 0, 0]"))
                .map(|(_, said)| said.to_owned())
                .collect();
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await; // tidy: sleep, what another program does can only be polled
        }
        assert!(left.is_empty(), "{name}: {left:?}");
    }
}
