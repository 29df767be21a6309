//! Daemons whose clocks differ, with what they remember of exhausted keys: what one does binds the others, and shows
//! there within a second.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use ratelimit_common::limit::Algorithm;
use ratelimit_limiter::{
    Nanos,
    application::{Descriptor, Request, Service},
    clock::FakeClock,
};
use ratelimit_redis::RedisStore;
use ratelimit_redis_testing::{Engine, Server, Setup};
use tokio::runtime::Handle;

use crate::{counter::settings, service::policy, support::random::Random};

const START: u64 = 1_700_000_000;
const HOUR: u64 = 3_600;

/// A daemon, and the clock that it goes by for what it remembers.
struct Daemon {
    service: Service,
    clock: FakeClock,
}

fn daemon(url: &str, rules: &str, seconds: u64) -> Daemon {
    let clock = FakeClock::new(Nanos::from_secs(seconds));
    let service = Service::with_clock(&policy(rules), Arc::new(clock.clone())).unwrap();
    // Long, since a machine that does much else must not make it an error.
    let settings = ratelimit_policy::application::RedisSettings {
        timeout: Nanos::from_secs(10),
        ..settings(&[url.to_owned()])
    };
    Daemon { service: service.sharing(RedisStore::connect(&settings, &Handle::current())), clock }
}

fn asking(key: &str, value: &str) -> Request {
    Request { domain: "d".to_owned(), descriptors: vec![Descriptor::of([(key, value)])], hits_addend: 1 }
}

async fn passes(daemon: &Daemon, key: &str, value: &str) -> bool {
    daemon.service.decide_async(&asking(key, value)).await.unwrap().allowed()
}

async fn passing(daemon: &Daemon, count: usize, key: &str) -> usize {
    let mut passing = 0;
    for _ in 0..count {
        passing += usize::from(passes(daemon, key, "x").await);
    }
    passing
}

fn rule(key: &str, limit: &str) -> String {
    format!("  - key: {key}\n    rate_limit: {{unit: week, {limit}}}\n")
}

fn no_errors(daemon: &Daemon) {
    let stats = daemon.service.shared_store().unwrap();
    assert!(stats.errors.iter().all(|(_, count)| *count == 0) && stats.disagreements == 0, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_daemons_with_clocks_an_hour_apart_let_exactly_the_limit_pass() {
    let server = Server::start(Engine::Redis);
    let mut rules = "domain: d\ndescriptors:\n".to_owned() + &rule("plain", "requests_per_unit: 100");
    for algorithm in Algorithm::ALL.map(Algorithm::name) {
        rules += &rule(algorithm, &format!("requests_per_unit: 100, algorithm: {algorithm}"));
    }
    let clocks = [START, START + HOUR, START - HOUR];
    let daemons = clocks.map(|seconds| daemon(&server.url(), &rules, seconds));
    let mut random = Random::new(5);
    for key in Algorithm::ALL.map(Algorithm::name).into_iter().chain(["plain"]) {
        for round in 0..20 {
            let value = round.to_string();
            let picks: Vec<usize> = (0..150).map(|_| random.below(3) as usize).collect();
            let asked = picks.iter().map(|&pick| passes(&daemons[pick], key, &value));
            let passed = join_all(asked).await.into_iter().filter(|passed| *passed).count();
            assert_eq!(passed, 100, "{key}, round {round}");
            for daemon in &daemons {
                assert!(!passes(daemon, key, &value).await, "{key}, round {round}");
            }
        }
    }
    daemons.iter().for_each(no_errors);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_and_a_reset_at_one_daemon_open_the_others_within_a_second() {
    for engine in Engine::ALL {
        let server = Server::start(engine);
        let rules = "domain: d\ndescriptors:\n".to_owned()
            + &rule("user", "requests_per_unit: 3, algorithm: token_bucket");
        let (a, b) = (daemon(&server.url(), &rules, START), daemon(&server.url(), &rules, START + HOUR));
        assert_eq!((passing(&a, 5, "user").await, passing(&b, 5, "user").await), (3, 0));
        let asked = |daemon: &Daemon| daemon.service.shared_store().unwrap().recalled;
        assert!(asked(&b) >= 4, "it asks the store once");
        let mut back = asking("user", "x");
        back.descriptors[0].is_negative_hits = true;
        // A denied request gives nothing back, so it asks for nothing beside.
        back.descriptors[0].hits_addend = Some(2);
        a.service.decide_async(&back).await.unwrap();
        b.clock.advance(Nanos(Nanos::SECOND.0 + 1));
        assert_eq!(passing(&b, 5, "user").await, 2, "{engine}");

        a.service.reset("d", &back.descriptors).await.unwrap();
        b.clock.advance(Nanos(Nanos::SECOND.0 + 1));
        assert_eq!(passing(&b, 5, "user").await, 3, "{engine}");
        no_errors(&a);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_raised_counts_at_once_with_what_was_counted() {
    let server = Server::start(Engine::Valkey);
    let with = |requests: u32| {
        "domain: d\ndescriptors:\n".to_owned() + &rule("user", &format!("requests_per_unit: {requests}"))
    };
    let (a, b) = (daemon(&server.url(), &with(3), START), daemon(&server.url(), &with(3), START));
    assert_eq!((passing(&a, 3, "user").await, passing(&b, 1, "user").await), (3, 0));
    for daemon in [&a, &b] {
        daemon.service.reload(&policy(&with(10))).unwrap();
    }
    // Ten, of which three passed, and one was denied and counted.
    assert_eq!(passing(&b, 4, "user").await + passing(&a, 10, "user").await, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_soft_limit_that_one_daemon_crosses_binds_the_others() {
    let server = Setup::new(Engine::Valkey).clock().start();
    let limit = "requests_per_unit: 10, algorithm: fixed_window, soft_limit: 2, soft_for: 30s";
    let rules = "domain: d\ndescriptors:\n".to_owned() + &rule("user", limit);
    let (a, b) = (daemon(&server.url(), &rules, START), daemon(&server.url(), &rules, START + HOUR));
    assert_eq!(passing(&a, 3, "user").await, 3);
    let soft = b.service.decide_async(&asking("user", "x")).await.unwrap();
    assert!(soft.allowed() && soft.soft());
    server.set_clock(Duration::from_secs(31), true);
    assert_eq!((passing(&b, 3, "user").await, passing(&a, 3, "user").await), (0, 0));
    no_errors(&b);
}
