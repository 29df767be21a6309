//! What tests start does what it says: each kind of server, on both engines.

use std::time::Duration;

use ratelimit_redis_testing::{Cluster, Engine, Relay, Sentinels, Server, Setup, Way, redis, until};
use redis::Client;

/// A key, and the slot that it is in.
const KEY: &str = "{rl}:a";

fn slot(node: &Server) -> u16 {
    node.ask(&["CLUSTER", "KEYSLOT", KEY])
}

#[test]
fn a_server_answers_at_both_addresses_and_keeps_its_port() {
    for engine in Engine::ALL {
        let mut server = Setup::new(engine).append_only().start();
        assert!(server.info("executable").contains(if engine == Engine::Redis { "redis" } else { "valkey" }));
        let mut by_port = Client::open(server.url()).unwrap().get_connection().unwrap();
        redis::cmd("SET").arg(&[KEY, "1"]).exec(&mut by_port).unwrap();
        server.kill();
        assert!(redis::cmd("PING").exec(&mut by_port).is_err());
        server.start_again();
        assert!(server.has(KEY.as_bytes()));
    }
}

#[test]
fn a_paused_server_answers_later() {
    for engine in Engine::ALL {
        let server = Server::start(engine);
        let mut connection = server.connection();
        server.pause();
        connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(redis::cmd("INCR").arg(KEY).exec(&mut connection).is_err());
        server.resume();
        until("the late command", || server.has(KEY.as_bytes()));
    }
}

#[test]
fn passwords_users_and_memory_are_as_set_up() {
    for engine in Engine::ALL {
        let setup = Setup::new(engine).password("secret").user("limiter", "word", "~rl:* +get");
        let server = setup.max_memory(16 << 20, "volatile-ttl").start();
        let ask = |credentials: &str, command: &[&str]| {
            let url = server.url().replace("://", &format!("://{credentials}"));
            let mut connection = Client::open(url)?.get_connection()?;
            redis::cmd(command[0]).arg(&command[1..]).exec(&mut connection)
        };
        assert!(ask("", &["GET", KEY]).is_err());
        assert!(ask(":secret@", &["GET", KEY]).is_ok());
        assert!(ask("limiter:word@", &["GET", "rl:a"]).is_ok());
        assert!(ask("limiter:word@", &["GET", "other"]).is_err());
        assert_eq!(server.info("maxmemory_policy"), "volatile-ttl");
    }
}

#[test]
fn a_clock_can_be_set() {
    let server = Setup::new(Engine::Valkey).clock().start();
    assert!(server.clock_is(Duration::ZERO, true));
    for (by, ahead) in [(3_600, true), (60, false), (0, true)] {
        let by = Duration::from_secs(by);
        server.set_clock(by, ahead);
        assert!(server.clock_is(by, ahead) && !server.clock_is(by + Duration::from_secs(30), ahead));
    }
}

#[test]
fn a_relay_swallows_replies_holds_and_cuts() {
    let server = Server::start(Engine::Redis);
    let relay = Relay::before(server.address());
    let connect = || {
        let connection = Client::open(relay.url()).unwrap().get_connection().unwrap();
        connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        connection
    };
    let incr = |connection: &mut redis::Connection| redis::cmd("INCR").arg(KEY).query::<u64>(connection);
    assert_eq!(incr(&mut connect()).unwrap(), 1);
    let mut connection = connect();
    relay.set(Way::SwallowReplies);
    assert!(incr(&mut connection).is_err());
    until("a swallowed reply", || relay.swallowed() > 0);
    relay.set(Way::Open);
    let mut connection = connect();
    assert_eq!(incr(&mut connection).unwrap(), 3);
    relay.set(Way::Hold);
    assert!(incr(&mut connection).is_err());
    assert_eq!(server.ask::<u64>(&["GET", KEY]), 3);
    relay.set(Way::Open);
    until("what was held", || server.ask::<u64>(&["GET", KEY]) == 4);
    relay.set(Way::Cut);
    assert!(Client::open(relay.url()).unwrap().get_connection().is_err());
}

#[test]
fn tls_wants_a_certificate() {
    let server = Setup::new(Engine::Redis).tls().start();
    assert!(server.url().starts_with("rediss://") && server.certificates().authority().is_file());
    assert!(Client::open(server.url().replace("rediss", "redis")).unwrap().get_connection().is_err());
    server.command(&["SET", KEY, "1"]);
}

#[test]
fn slots_move_between_the_masters_of_a_cluster() {
    for engine in Engine::ALL {
        let cluster = Cluster::start(engine);
        let slot = slot(&cluster.nodes()[0]);
        let (from, to) = (cluster.master_of(slot), (cluster.master_of(slot) + 1) % 3);
        cluster.nodes()[from].command(&["SET", KEY, "1"]);
        cluster.migrate(slot, to);
        assert_eq!(cluster.master_of(slot), to);
        assert_eq!(cluster.nodes()[to].ask::<u64>(&["GET", KEY]), 1);
        assert_eq!((cluster.keys(), cluster.urls().len()), (1, 3));
    }
}

#[test]
fn a_replica_takes_over_from_a_killed_master() {
    let mut cluster = Cluster::with_replicas(Engine::Valkey);
    let slot = slot(&cluster.nodes()[0]);
    let master = cluster.master_of(slot);
    cluster.nodes_mut()[master].kill();
    let replica = &cluster.nodes()[master + 3];
    until("the replica's election", || replica.info("role") == "master");
}

#[test]
fn clients_of_a_cluster_behind_relays_are_sent_to_relays() {
    let cluster = Cluster::behind_relays(Engine::Redis);
    let slots: Vec<(u16, u16, Vec<redis::Value>)> = cluster.nodes()[0].ask(&["CLUSTER", "SLOTS"]);
    let said = format!("{slots:?}");
    assert!(cluster.relays().iter().all(|relay| said.contains(&relay.address().ip().to_string())), "{said}");
}

#[test]
fn sentinels_replace_the_master() {
    for engine in Engine::ALL {
        let all = Sentinels::start(engine, 1);
        assert_eq!(all.master(), all.servers()[0].address());
        all.fail_over();
        assert_eq!(all.master(), all.servers()[1].address());
        let mut all = Sentinels::start(engine, 1);
        let first = all.master();
        all.servers_mut()[0].kill();
        all.wait_for_another(first);
        assert_eq!(all.urls().len(), all.sentinels_mut().len());
    }
}
