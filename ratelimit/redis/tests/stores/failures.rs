//! A daemon whose store fails: nobody gets more than the limit, nobody waits for long, and it recovers by itself.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use ratelimit_common::time::Nanos;
use ratelimit_policy::application::{RedisSettings, Topology};
use ratelimit_redis_testing::{Cluster, Engine, PATIENCE, Relay, Sentinels, Server, Setup, Way, until};
use tokio::runtime::{Builder, Handle};

use crate::{
    counter::{TIMEOUT, settings},
    service::Daemon,
};

const RULES: &str = "
domain: d
on_store_error: deny
descriptors:
  - key: many
    rate_limit: {algorithm: fixed_window, unit: week, requests_per_unit: 1000}
  - key: three
    rate_limit: {algorithm: token_bucket, unit: week, requests_per_unit: 3}
  - key: none
    rate_limit: {algorithm: token_bucket, unit: week, requests_per_unit: 0}
  - key: log
    rate_limit: {algorithm: sliding_window_log, unit: week, requests_per_unit: 9999}
  - key: hourly
    rate_limit: {algorithm: fixed_window, unit: hour, requests_per_unit: 3}
";

/// Asks at once, as many clients do; how many pass.
async fn at_once(daemon: &Daemon, count: usize, key: &str, value: &str) -> usize {
    let answers = join_all((0..count).map(|_| daemon.passes(key, value))).await;
    answers.into_iter().filter(|passes| *passes).count()
}

async fn used(daemon: &Daemon, value: &str) -> u64 {
    1_000 - daemon.remaining("many", value).await
}

fn of_cluster(cluster: &Cluster) -> RedisSettings {
    RedisSettings { topology: Topology::Cluster, ..settings(&cluster.urls()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_paused_server_was_sent_is_not_charged_late() {
    for engine in Engine::ALL {
        let server = Server::start(engine);
        let daemon = Daemon::sharing(&settings(&[server.url()]), RULES);
        daemon.until_passes("many", "a").await;
        let before = used(&daemon, "a").await;
        server.pause();
        for _ in 0..5 {
            assert_eq!(at_once(&daemon, 100, "many", "a").await, 0);
        }
        // What was sent waits in the socket; by the server's clock it is over.
        server.resume();
        daemon.until_passes("many", "other").await;
        assert_eq!(used(&daemon, "a").await, before, "{engine}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_whose_reply_is_lost_is_charged_once() {
    for engine in Engine::ALL {
        let server = Server::start(engine);
        let relay = Relay::before(server.address());
        let daemon = Daemon::sharing(&settings(&[relay.url()]), RULES);
        daemon.until_passes("many", "a").await;
        relay.set(Way::SwallowReplies);
        // One call takes most, and all of its requests are charged, though nobody hears of it.
        let values: Vec<String> = (0..10).map(|value| format!("lost {value}")).collect();
        let passed = join_all(values.iter().map(|value| daemon.passes("many", value))).await;
        assert!(passed.iter().all(|passed| !passed), "{engine}: {passed:?}");
        relay.set(Way::Cut);
        relay.set(Way::Open);
        daemon.until_passes("many", "a").await;
        let mut charged = 0;
        for value in &values {
            let used = used(&daemon, value).await;
            assert!(used <= 1, "{engine}: {value} is charged {used} times");
            charged += used;
        }
        assert!(charged > 0, "{engine}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_charges_once_what_it_answers_in_vain() {
    let cluster = Cluster::behind_relays(Engine::Redis);
    let daemon = Daemon::sharing(&of_cluster(&cluster), RULES);
    let values: Vec<String> = (0..30).map(|value| value.to_string()).collect();
    // What a shard is asked first charges nothing.
    for value in &values {
        daemon.until_passes("many", value).await;
    }
    cluster.relays().iter().for_each(|relay| relay.set(Way::SwallowReplies));
    for value in &values {
        daemon.passes("many", value).await;
    }
    for way in [Way::Cut, Way::Open] {
        cluster.relays().iter().for_each(|relay| relay.set(way));
    }
    let mut charged = 0;
    for value in &values {
        daemon.until_passes("many", &format!("{value} again")).await;
        daemon.until_passes("many", value).await;
        let used = used(&daemon, value).await;
        assert!((2..=3).contains(&used), "{value}: {used}");
        charged += used - 2;
    }
    assert!(charged > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_take_back_what_another_denies() {
    let cluster = Cluster::start(Engine::Valkey);
    let daemon = Daemon::sharing(&of_cluster(&cluster), RULES);
    // What is known to be exhausted is not asked about.
    let daemon = Daemon(daemon.0.remembering(0));
    daemon.until_passes("many", "a").await;
    assert_eq!(daemon.passing(5, &[("three", "exhausted")]).await, 3);
    for value in 0..20 {
        let value = value.to_string();
        assert_eq!(daemon.passing(3, &[("many", &value), ("three", "exhausted")]).await, 0);
        // What is taken back is sent behind the answer.
        let start = Instant::now();
        while used(&daemon, &value).await > 0 {
            assert!(start.elapsed() < PATIENCE, "{value}: it is not taken back");
        }
    }
}

/// What takes the server long would keep all others waiting.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_back_from_a_long_log_keeps_nobody_waiting() {
    let cluster = Cluster::start(Engine::Redis);
    let patient = RedisSettings { timeout: Nanos::from_secs(3), ..of_cluster(&cluster) };
    let daemon = Daemon(Daemon::sharing(&patient, RULES).0.remembering(0));
    daemon.until_passes("log", "a").await;
    while daemon.ask(&[("log", "a")], 900).await.allowed() {}
    assert_eq!(daemon.passing(5, &[("three", "exhausted")]).await, 3);
    let before = daemon.remaining("log", "a").await;
    for _ in 0..5 {
        let asked = (0..20).map(|_| daemon.ask(&[("log", "a"), ("three", "exhausted")], 1));
        assert!(join_all(asked).await.iter().all(|answer| !answer.allowed()));
    }
    let start = Instant::now();
    while daemon.remaining("log", "a").await < before {
        assert!(start.elapsed() < PATIENCE, "it is not taken back");
    }
    let stats = daemon.0.shared_store().unwrap();
    assert!(stats.errors[1].1 == 0, "{stats:?}");
}

/// Half of a request is charged, then the daemon is killed: the other half is not, and nobody gets more for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_killed_between_two_shards_admits_nothing_extra() {
    let cluster = Arc::new(Cluster::behind_relays(Engine::Valkey));
    let of_cluster = of_cluster(&cluster);
    for (number, relay) in cluster.relays().iter().enumerate() {
        let killed = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let values: Vec<String> = (0..10).map(|value| format!("{number} {value}")).collect();
        let (settings, of_killed) = (of_cluster.clone(), values.clone());
        relay.set(Way::Open);
        let first_of_killed = killed.spawn(async move { Daemon::sharing(&settings, RULES) }).await.unwrap();
        first_of_killed.until_passes("many", "a").await;
        relay.set(Way::Hold);
        let first = &first_of_killed;
        let asked = of_killed.iter().map(|value| async move {
            let other = format!("{value} too");
            first.ask(&[("three", value), ("three", &other)], 1).await.allowed()
        });
        let passed = join_all(asked).await;
        drop(first_of_killed);
        killed.shutdown_background();
        relay.set(Way::Cut);
        relay.set(Way::Open);
        let second = Daemon::sharing(&of_cluster, RULES);
        second.until_passes("many", "a").await;
        for (value, passed) in values.iter().zip(passed) {
            let again = second.passing(5, &[("three", value)]).await;
            assert!(usize::from(passed) + again <= 3 && again >= 2, "{value}: {passed}, {again}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_store_counts_from_the_beginning_for_all_daemons() {
    for engine in Engine::ALL {
        let server = Server::start(engine);
        let settings = settings(&[server.url()]);
        let long = "y".repeat(500);
        let first = Daemon::sharing(&settings, RULES);
        first.until_passes("many", "a").await;
        server.command(&["FLUSHALL"]);
        server.command(&["SCRIPT", "FLUSH"]);
        let second = Daemon::sharing(&settings, RULES);
        second.until_passes("many", "a").await;
        // What long values are hashed with was lost as well: soon all daemons have one secret again.
        for number in 0.. {
            let value = format!("{long}{number}");
            if first.passing(5, &[("three", &value)]).await == 3 && !second.passes("three", &value).await {
                break;
            }
            assert!(number < 10_000, "{engine}: they keep different secrets");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_admits_no_more_than_what_was_lost() {
    let mut all = Sentinels::start(Engine::Redis, 1);
    let settings =
        RedisSettings { topology: Topology::Sentinel(all.name().to_owned()), ..settings(&all.urls()) };
    let daemon = Daemon::sharing(&settings, RULES);
    daemon.until_passes("many", "a").await;
    assert_eq!(daemon.passing(2, &[("three", "a")]).await, 2);
    let [master, replica] = all.servers();
    until("what is replicated", || master.info("master_repl_offset") == replica.info("slave_repl_offset"));
    let before = all.master();
    all.servers_mut()[0].kill();
    all.wait_for_another(before);
    daemon.until_passes("many", "b").await;
    assert_eq!(daemon.passing(5, &[("three", "a")]).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_move_admit_nothing_extra() {
    for engine in Engine::ALL {
        let cluster = Cluster::start(engine);
        let daemon = Daemon::sharing(&of_cluster(&cluster), RULES);
        daemon.until_passes("many", "a").await;
        let slots: Vec<u16> = cluster.nodes().iter().flat_map(slots_of_keys).collect();
        daemon.until_passes("many", "moving").await;
        let start = used(&daemon, "moving").await;
        let passed = tokio::task::block_in_place(|| {
            std::thread::scope(|scope| {
                let moves = scope.spawn(|| {
                    let all: Vec<u16> = cluster.nodes().iter().flat_map(slots_of_keys).chain(slots).collect();
                    for to in [1, 2, 0] {
                        all.iter().for_each(|slot| cluster.migrate(*slot, to));
                    }
                });
                let mut passed = 0;
                while !moves.is_finished() {
                    passed += Handle::current().block_on(at_once(&daemon, 4, "many", "moving"));
                }
                passed
            })
        });
        assert!(passed > 0);
        // Each that passed was charged; what was charged without an answer admits less, not more.
        let charged = used(&daemon, "moving").await - start;
        assert!(charged >= passed as u64, "{engine}: {charged} charged, {passed} passed");
        assert_eq!(daemon.passing(5, &[("three", "after")]).await, 3);
    }
}

/// A node that is giving the slot away makes no key anew, also within a script.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_back_from_a_log_while_its_slot_is_moving_leaves_the_rest_in_it() {
    for engine in Engine::ALL {
        let cluster = Cluster::start(engine);
        let daemon = Daemon(Daemon::sharing(&of_cluster(&cluster), RULES).0.remembering(0));
        daemon.until_passes("log", "first").await;
        assert_eq!(daemon.passing(5, &[("three", "exhausted")]).await, 3);
        // One of them lies in another shard than what denies.
        for value in 0..4 {
            let value = value.to_string();
            assert!(daemon.ask(&[("log", &value)], 5).await.allowed());
            let left = daemon.remaining("log", &value).await;
            let has_it =
                |node: &&Server| node.ask::<Vec<String>>(&["KEYS", &format!("*3:log1:{value}")]).len() == 1;
            let node = cluster.nodes().iter().find(has_it).unwrap();
            let key = node.ask::<Vec<String>>(&["KEYS", &format!("*3:log1:{value}")]).remove(0);
            let slot: u16 = node.ask(&["CLUSTER", "KEYSLOT", &key]);
            cluster.begin_migration(slot, (cluster.master_of(slot) + 1) % 3);
            assert_eq!(daemon.passing(3, &[("log", &value), ("three", "exhausted")]).await, 0);
            until("what is taken back", || node.ask::<u64>(&["LLEN", &key]) == 1 + 9_999 - left);
        }
    }
}

/// A call may have keys that have moved, keys that have not, and keys that are nowhere yet.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_come_together_are_answered_while_their_slot_is_moving() {
    for engine in Engine::ALL {
        let cluster = Cluster::start(engine);
        let patient = RedisSettings { timeout: Nanos::from_secs(5), shards: 1, ..of_cluster(&cluster) };
        let daemon = Daemon::sharing(&patient, RULES);
        let values: Vec<String> = (0..100).map(|value| value.to_string()).collect();
        let (known, new) = values.split_at(60);
        for value in known {
            daemon.until_passes("many", value).await;
        }
        let node = cluster.nodes().iter().max_by_key(|node| node.keys()).unwrap();
        let key = node.ask::<Vec<String>>(&["KEYS", "*many*"]).remove(0);
        let slot: u16 = node.ask(&["CLUSTER", "KEYSLOT", &key]);
        let to = (cluster.master_of(slot) + 1) % 3;
        cluster.begin_migration(slot, to);
        cluster.move_keys(slot, to, 30);
        let asked = known.iter().chain(new).map(|value| daemon.passes("many", value));
        let answered = join_all(asked).await.into_iter().filter(|passes| *passes).count();
        assert_eq!(answered, values.len(), "{engine}: {:?}", daemon.0.shared_store());
        cluster.move_keys(slot, to, 1_000);
        cluster.end_migration(slot, to);
        for (value, expected) in
            known.iter().map(|value| (value, 2)).chain(new.iter().map(|value| (value, 1)))
        {
            assert_eq!(used(&daemon, value).await, expected, "{engine}: {value}");
        }
    }
}

fn slots_of_keys(node: &Server) -> Vec<u16> {
    let keys: Vec<Vec<u8>> = node.ask(&["KEYS", "*"]);
    let slot = |key: &Vec<u8>| node.ask(&["CLUSTER", "KEYSLOT", std::str::from_utf8(key).unwrap()]);
    keys.iter().map(slot).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_admits_nothing_extra() {
    let server = Setup::new(Engine::Valkey).clock().start();
    let daemon = Daemon::sharing(&settings(&[server.url()]), RULES);
    daemon.until_passes("many", "a").await;
    assert_eq!(daemon.passing(5, &[("hourly", "a")]).await, 3);
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    for (by, ahead) in [(minutes(30), false), (minutes(5), false)] {
        server.set_clock(by, ahead);
        daemon.until_passes("many", "back").await;
        assert_eq!(daemon.passing(3, &[("hourly", "a")]).await, 0);
    }
    server.set_clock(minutes(180), true);
    daemon.until_passes("many", "ahead").await;
    // The limit is a new one in a later hour, once what is remembered of the last one is over.
    daemon.until_passes("hourly", "a").await;
    assert_eq!(daemon.passing(5, &[("hourly", "a")]).await, 2);
}

/// With the recommended policy a full memory costs what is about to end anyway.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_new_values_loses_no_weekly_quota() {
    const QUOTAS: usize = 200;
    for engine in Engine::ALL {
        let server = Setup::new(engine).max_memory(64 << 20, "volatile-ttl").start();
        let patient = RedisSettings { timeout: Nanos(5_000_000_000), ..settings(&[server.url()]) };
        let daemon = Daemon::sharing(&patient, FLOOD);
        daemon.until_passes("quota", "first").await;
        let quotas: Vec<String> = (0..QUOTAS).map(|number| number.to_string()).collect();
        for quota in &quotas {
            assert!(daemon.passes("quota", quota).await);
        }
        let used: u64 = server.info("used_memory").parse().unwrap();
        server.command(&["CONFIG", "SET", "maxmemory", &(used + (1 << 20)).to_string()]);
        let mut number = 0;
        while server.info("evicted_keys").parse::<u64>().unwrap() < 2_000 {
            let values: Vec<String> =
                (number..number + 1_000).map(|number| format!("value {number}")).collect();
            let answers = join_all(values.iter().map(|value| daemon.passes("minute", value))).await;
            let stats = daemon.0.shared_store().unwrap();
            assert!(answers.iter().all(|passes| *passes), "{engine}: a flood makes errors: {stats:?}");
            number += 1_000;
            assert!(number < 200_000, "{engine}: nothing is evicted");
        }
        for quota in &quotas {
            assert!(!daemon.passes("quota", quota).await, "{engine}: quota {quota} is lost");
        }
    }
}

const FLOOD: &str = "
domain: d
on_store_error: deny
descriptors:
  - key: quota
    rate_limit: {algorithm: token_bucket, unit: week, requests_per_unit: 1}
  - key: minute
    rate_limit: {algorithm: token_bucket, unit: minute, requests_per_unit: 10}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_ends_in_time_and_without_a_trace() {
    let server = Server::start(Engine::Redis);
    let relay = Relay::before(server.address());
    let daemon = Daemon::sharing(&settings(&[relay.url()]), RULES);
    daemon.until_passes("many", "a").await;
    let before = used(&daemon, "a").await;
    relay.set(Way::Hold);
    assert_eq!(at_once(&daemon, 3_000, "many", "a").await, 0);
    tokio::time::sleep(TIMEOUT).await; // tidy: sleep, what was sent has to be over by the server's clock
    relay.set(Way::Open);
    daemon.until_passes("many", "other").await;
    assert_eq!(used(&daemon, "a").await, before);
}
