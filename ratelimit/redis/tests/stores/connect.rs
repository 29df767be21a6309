//! Connections: each call is sent once, ends in time, and works again by itself, whatever becomes of servers.

use std::time::Duration;

use ratelimit_common::time::Nanos;
use ratelimit_limiter::store::remote::Breaker;
use ratelimit_policy::application::{Login, RedisSettings, RedisTls, Topology};
use ratelimit_redis::transport::{Applied, FailureKind};
use ratelimit_redis_testing::{Cluster, Engine, PATIENCE, Relay, Sentinels, Server, Setup, Way, until};

use crate::counter::{Counter, TIMEOUT, settings};

/// A key of a shard.
const KEY: &str = "rl{1}:a";

fn count(server: &Server) -> u64 {
    server.ask::<Option<u64>>(&["GET", KEY]).unwrap_or_default()
}

fn cluster_settings(cluster: &Cluster) -> RedisSettings {
    RedisSettings { topology: Topology::Cluster, ..settings(&cluster.urls()) }
}

fn sentinel_settings(all: &Sentinels) -> RedisSettings {
    RedisSettings { topology: Topology::Sentinel(all.name().to_owned()), ..settings(&all.urls()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_found_again_empty_or_not() {
    for engine in Engine::ALL {
        let mut server = Server::start(engine);
        let counter = Counter::at(&server.url());
        assert_eq!(counter.works(KEY).await, 1);
        server.kill();
        counter.breaks(KEY).await;
        assert_ne!(counter.0.health().breaker, Breaker::Closed);
        server.start_again();
        assert_eq!(counter.works(KEY).await, 1);
        assert_eq!(counter.0.health().breaker, Breaker::Closed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_was_flushed_is_sent_again() {
    for engine in Engine::ALL {
        let server = Server::start(engine);
        let counter = Counter::at(&server.url());
        for expected in 1..5 {
            assert_eq!(counter.incr(KEY).await.unwrap(), expected);
            server.command(&["SCRIPT", "FLUSH"]);
        }
        server.command(&["FLUSHALL"]);
        assert_eq!(counter.incr(KEY).await.unwrap(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swallowed_reply_is_counted_once() {
    for engine in Engine::ALL {
        let server = Server::start(engine);
        let relay = Relay::before(server.address());
        let counter = Counter::at(&relay.url());
        assert_eq!(counter.works(KEY).await, 1);
        relay.set(Way::SwallowReplies);
        let failure = counter.incr(KEY).await.unwrap_err();
        assert_eq!(failure.applied, Applied::Maybe, "{failure:?}");
        assert!(matches!(failure.kind, FailureKind::TimedOut), "{failure:?}");
        relay.set(Way::Cut);
        assert_eq!(count(&server), 2);
        relay.set(Way::Open);
        assert_eq!(counter.works(KEY).await, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_is_sent_at_most_two_calls() {
    for engine in Engine::ALL {
        let server = Server::start(engine);
        let counter = Counter::at(&server.url());
        assert_eq!(counter.works(KEY).await, 1);
        server.pause();
        let maybe = counter.breaks(KEY).await;
        assert!((1..=2).contains(&maybe), "{maybe}");
        server.resume();
        until("the late calls", || count(&server) == 1 + maybe);
        assert_eq!(counter.works(KEY).await, 2 + maybe);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_beyond_the_timeout_opens_the_breaker_and_its_end_closes_it() {
    let server = Server::start(Engine::Valkey);
    let relay = Relay::before(server.address());
    let counter = Counter::at(&relay.url());
    counter.works(KEY).await;
    relay.set(Way::Delay(TIMEOUT));
    counter.breaks(KEY).await;
    relay.set(Way::Open);
    counter.works(KEY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_not_asked_until_it_is_the_master() {
    for engine in Engine::ALL {
        let mut master = Server::start(engine);
        let replica = Setup::new(engine).replica_of(&master).start();
        replica.wait_for_sync();
        let counter = Counter::at(&replica.url());
        let maybe = counter.breaks(KEY).await;
        assert_eq!((maybe, count(&replica)), (0, 0));
        master.kill();
        replica.command(&["REPLICAOF", "NO", "ONE"]);
        assert_eq!(counter.works(KEY).await, 1);
        // A master that becomes a replica while it is connected says so with the first write.
        master.start_again();
        let address = master.address();
        replica.command(&["REPLICAOF", &address.ip().to_string(), &address.port().to_string()]);
        assert_eq!(counter.breaks(KEY).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_replica_has_lost_what_it_had_not_seen_and_no_more() {
    let mut master = Server::start(Engine::Redis);
    let replica = Setup::new(Engine::Redis).replica_of(&master).start();
    replica.wait_for_sync();
    let counter = Counter::at(&master.url());
    for _ in 0..10 {
        counter.works(KEY).await;
    }
    until("what is replicated", || count(&replica) == 10);
    replica.pause();
    for _ in 0..5 {
        counter.works(KEY).await;
    }
    master.kill();
    replica.resume();
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    let seen = count(&replica);
    assert!((10..=15).contains(&seen), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_memory_nothing_is_applied() {
    for engine in Engine::ALL {
        let server = Setup::new(engine).max_memory(1_000, "noeviction").start();
        let counter = Counter::at(&server.url());
        let failure = counter.incr(KEY).await.unwrap_err();
        assert_eq!(failure.applied, Applied::No, "{failure:?}");
        assert!(matches!(&failure.kind, FailureKind::Unavailable(why) if why.contains("OOM")), "{failure:?}");
        counter.breaks(KEY).await;
        server.command(&["CONFIG", "SET", "maxmemory", "0"]);
        assert_eq!(counter.works(KEY).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_read_again() {
    for engine in Engine::ALL {
        let server = Setup::new(engine).user("limiter", "right", "~rl* +evalsha +eval +incrby").start();
        let file = server.path("password");
        std::fs::write(&file, "wrong\n").unwrap();
        let login = Login { username: Some("limiter".to_owned()), password_file: Some(file.clone()) };
        let counter = Counter::start(&RedisSettings { login, ..settings(&[server.url()]) });
        assert_eq!(counter.breaks(KEY).await, 0);
        std::fs::write(&file, "right\n").unwrap();
        assert_eq!(counter.works(KEY).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_trusts_its_own_authority_and_shows_a_certificate() {
    let server = Setup::new(Engine::Redis).tls().start();
    let (ca, identity) = (Some(server.certificates().authority()), Some(server.certificates().client()));
    let settings = |tls| RedisSettings { tls, ..settings(&[server.url()]) };
    let counter = Counter::start(&settings(RedisTls { ca: ca.clone(), identity: identity.clone() }));
    assert_eq!(counter.works(KEY).await, 1);
    for tls in [RedisTls { ca: None, identity }, RedisTls { ca, identity: None }] {
        assert_eq!(Counter::start(&settings(tls)).breaks(KEY).await, 0);
    }
    assert_eq!(count(&server), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_name_the_new_master() {
    for engine in Engine::ALL {
        let all = Sentinels::start(engine, 1);
        let counter = Counter::start(&sentinel_settings(&all));
        assert_eq!(counter.works(KEY).await, 1);
        all.fail_over();
        // What the old master has taken since is lost; it is asked until the sentinels have told it.
        let seen = count(&all.servers()[1]);
        assert!(seen <= 1);
        while count(&all.servers()[1]) == seen {
            counter.works(KEY).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_replace_a_killed_master() {
    for engine in Engine::ALL {
        let mut all = Sentinels::start(engine, 1);
        let counter = Counter::start(&sentinel_settings(&all));
        counter.works(KEY).await;
        let first = all.master();
        all.servers_mut()[0].kill();
        all.wait_for_another(first);
        counter.works(KEY).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_have_passwords_of_their_own_and_may_be_down() {
    let servers = |setup: Setup| setup.password("ofservers");
    let mut all = Sentinels::set_up(Engine::Valkey, 3, servers, |setup| {
        setup.user("asker", "ofsentinels", "-@all +sentinel|get-master-addr-by-name")
    });
    let directory = all.servers()[0].path("");
    let file = |name: &str| {
        std::fs::write(directory.join(name), name).unwrap();
        Login { username: None, password_file: Some(directory.join(name)) }
    };
    let settings = RedisSettings {
        login: file("ofservers"),
        sentinel_login: Login { username: Some("asker".to_owned()), ..file("ofsentinels") },
        ..sentinel_settings(&all)
    };
    all.sentinels_mut()[0].kill();
    all.sentinels_mut()[1].pause();
    let counter = Counter::start(&settings);
    assert_eq!(counter.works(KEY).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_move_under_load_and_each_call_is_counted_once() {
    for engine in Engine::ALL {
        let cluster = Cluster::start(engine);
        let counter = Counter::start(&cluster_settings(&cluster));
        assert_eq!(counter.works(KEY).await, 1);
        let slot: u16 = cluster.nodes()[0].ask(&["CLUSTER", "KEYSLOT", KEY]);
        let counted = tokio::task::block_in_place(|| {
            std::thread::scope(|scope| {
                let moves = scope.spawn(|| {
                    for to in [1, 2, 0, 1, 2, 0] {
                        cluster.migrate(slot, to);
                    }
                });
                let mut counted = 1;
                while !moves.is_finished() {
                    let answer = tokio::runtime::Handle::current().block_on(counter.incr(KEY));
                    counted += u64::from(answer.is_ok());
                }
                counted
            })
        });
        assert_eq!(count(&cluster.nodes()[0]), counted);
        assert!(counted > 10, "{counted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_moving_are_asked_where_they_are() {
    let cluster = Cluster::start(Engine::Redis);
    let counter = Counter::start(&cluster_settings(&cluster));
    assert_eq!(counter.works(KEY).await, 1);
    let slot: u16 = cluster.nodes()[0].ask(&["CLUSTER", "KEYSLOT", KEY]);
    let to = (cluster.master_of(slot) + 1) % 3;
    cluster.begin_migration(slot, to);
    assert_eq!(counter.incr(KEY).await.unwrap(), 2);
    cluster.move_keys(slot, to, 100);
    assert_eq!(counter.incr(KEY).await.unwrap(), 3);
    cluster.end_migration(slot, to);
    assert_eq!(counter.incr(KEY).await.unwrap(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clusters_swallowed_reply_is_counted_once() {
    for engine in Engine::ALL {
        let cluster = Cluster::behind_relays(engine);
        let counter = Counter::start(&cluster_settings(&cluster));
        assert_eq!(counter.works(KEY).await, 1);
        let slot: u16 = cluster.nodes()[0].ask(&["CLUSTER", "KEYSLOT", KEY]);
        let master = cluster.master_of(slot);
        cluster.relays()[master].set(Way::SwallowReplies);
        let failure = counter.incr(KEY).await.unwrap_err();
        assert_eq!(failure.applied, Applied::Maybe, "{failure:?}");
        cluster.relays()[master].set(Way::Cut);
        assert_eq!(count(&cluster.nodes()[master]), 2);
        cluster.relays()[master].set(Way::Open);
        assert_eq!(counter.works(KEY).await, 3);
    }
}

/// While there is still time to ask again.
#[tokio::test(flavor = "multi_thread")]
async fn a_clusters_connection_that_ends_before_the_reply_is_counted_once() {
    let cluster = Cluster::behind_relays(Engine::Redis);
    let patient = RedisSettings { timeout: Nanos::from_secs(10), ..cluster_settings(&cluster) };
    let counter = Counter::start(&patient);
    assert_eq!(counter.works(KEY).await, 1);
    let slot: u16 = cluster.nodes()[0].ask(&["CLUSTER", "KEYSLOT", KEY]);
    let (node, relay) =
        (&cluster.nodes()[cluster.master_of(slot)], &cluster.relays()[cluster.master_of(slot)]);
    relay.set(Way::SwallowReplies);
    let cut = async {
        tokio::task::block_in_place(|| until("the call", || count(node) == 2));
        relay.set(Way::Cut);
        relay.set(Way::Open);
    };
    let (failure, ()) = tokio::join!(counter.incr_within(KEY, PATIENCE), cut);
    let failure = failure.unwrap_err();
    assert_eq!(failure.applied, Applied::Maybe, "{failure:?}");
    assert_eq!((count(node), counter.works(KEY).await), (2, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clusters_replica_takes_over() {
    let mut cluster = Cluster::with_replicas(Engine::Redis);
    let counter = Counter::start(&cluster_settings(&cluster));
    assert_eq!(counter.works(KEY).await, 1);
    let slot: u16 = cluster.nodes()[0].ask(&["CLUSTER", "KEYSLOT", KEY]);
    let master = cluster.master_of(slot);
    until("what is replicated", || cluster.nodes()[master + 3].keys() == 1);
    cluster.nodes_mut()[master].kill();
    assert_eq!(counter.works(KEY).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_listens_at_first() {
    let mut server = Server::start(Engine::Valkey);
    server.kill();
    let counter = Counter::at(&server.url());
    assert_eq!(counter.breaks(KEY).await, 0);
    server.start_again();
    assert_eq!(counter.works(KEY).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_holds_few_calls_and_none_for_long() {
    let server = Server::start(Engine::Redis);
    let relay = Relay::before(server.address());
    let counter = std::sync::Arc::new(Counter::at(&relay.url()));
    counter.works(KEY).await;
    relay.set(Way::Hold);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..2_000 {
        let counter = std::sync::Arc::clone(&counter);
        calls.spawn(async move { counter.incr(KEY).await.map_err(|failure| failure.applied) });
    }
    let answers = calls.join_all().await;
    let maybe = answers.iter().filter(|answer| **answer == Err(Applied::Maybe)).count();
    assert!(answers.iter().all(Result::is_err) && maybe <= 2, "{maybe}");
    relay.set(Way::Open);
    until("what was held", || count(&server) <= 1 + maybe as u64);
    tokio::time::timeout(Duration::from_secs(30), counter.works(KEY)).await.unwrap();
}
