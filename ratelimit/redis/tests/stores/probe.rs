//! What is said of stores before they are used.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use ratelimit_policy::application::{Login, RedisSettings, Topology};
use ratelimit_redis::{Probe, Role, ServerMode, probe};
use ratelimit_redis_testing::{Cluster, Engine, Sentinels, Server, Setup};
use tokio::time::timeout;

use crate::{
    counter::{Counter, settings},
    log::second_subscriber,
};

/// What people are told.
pub fn guide() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/several-daemons.md")).unwrap()
}

/// What a user of the store needs, as the guide has it.
pub fn rights() -> String {
    let guide = guide();
    let line = guide.lines().find_map(|line| line.strip_prefix("user ratelimit on >PASSWORD "));
    line.unwrap().to_owned()
}

async fn found(settings: &RedisSettings) -> Probe {
    probe(settings).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_found_as_it_is() {
    for engine in Engine::ALL {
        let server = Setup::new(engine).max_memory(64 << 20, "volatile-ttl").start();
        let settings = settings(&[server.url()]);
        let good = found(&settings).await;
        assert_eq!((good.errors(), good.warnings()), (Vec::new(), Vec::new()));
        let hello = &good.servers[0].hello;
        assert_eq!(hello.server, engine.to_string().to_lowercase());
        assert_eq!(
            (hello.mode, hello.role, hello.version.is_empty()),
            (ServerMode::Standalone, Role::Master, false)
        );
        assert_eq!(server.keys(), 0);
        server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        assert!(found(&settings).await.warnings()[0].contains("forgets buckets that are in use"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_missing_are_named() {
    let rights = rights();
    for engine in Engine::ALL {
        let server = Setup::new(engine)
            .user("limiter", "secret", &rights)
            .max_memory(64 << 20, "volatile-ttl")
            .start();
        fs::write(server.path("password"), "secret").unwrap();
        let login =
            Login { username: Some("limiter".to_owned()), password_file: Some(server.path("password")) };
        let settings = RedisSettings { login, ..settings(&[server.url()]) };
        let good = found(&settings).await;
        assert_eq!((good.errors(), good.warnings()), (Vec::new(), Vec::new()));
        server.command(&["ACL", "SETUSER", "limiter", "-info"]);
        let warnings = found(&settings).await.warnings();
        assert!(warnings[0].contains("grant +info"), "{warnings:?}");
        for command in
            rights.replace(" +info", "").split_whitespace().filter_map(|right| right.strip_prefix('+'))
        {
            server.command(&["ACL", "SETUSER", "limiter", &format!("-{command}")]);
            let errors = found(&settings).await.errors();
            assert!(errors[0].ends_with(&format!("grant +{command}")), "{command}: {errors:?}");
            server.command(&["ACL", "SETUSER", "limiter", &format!("+{command}")]);
        }
        server.command(&["ACL", "SETUSER", "limiter", "resetkeys", "~other:*"]);
        let errors = found(&settings).await.errors();
        assert!(errors[0].ends_with("grant ~rl:*"), "{errors:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_and_sentinels_are_followed_to_masters() {
    let cluster = Cluster::start(Engine::Valkey);
    let found_in_cluster =
        found(&RedisSettings { topology: Topology::Cluster, ..settings(&cluster.urls()[..1]) }).await;
    assert_eq!((found_in_cluster.servers.len(), found_in_cluster.errors()), (3, Vec::new()));
    let wrong = found(&settings(&cluster.urls()[..1])).await;
    assert!(wrong.errors()[0].contains("write `cluster: true`"), "{:?}", wrong.errors());

    let all = Sentinels::start(Engine::Redis, 1);
    let topology = Topology::Sentinel(all.name().to_owned());
    let of_sentinel = found(&RedisSettings { topology, ..settings(&all.urls()) }).await;
    assert_eq!(of_sentinel.servers[0].address.to_string(), all.servers()[0].url());
    let replica = found(&settings(&[all.servers()[1].url()])).await;
    assert!(replica.errors()[0].contains("read-only replica"), "{:?}", replica.errors());
    let sentinel = found(&settings(&all.urls())).await;
    assert!(sentinel.errors()[0].contains("is a sentinel"), "{:?}", sentinel.errors());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_reached_is_said() {
    let mut server = Server::start(Engine::Redis);
    let settings = settings(&[server.url()]);
    server.kill();
    let error = probe(&settings).await.unwrap_err().to_string();
    assert!(error.starts_with(&server.url()) && error.contains("refused"), "{error}");
}

/// What a log gets.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// In one thread, so that the log of the test is that of the connections.
#[tokio::test]
async fn what_people_should_know_is_logged_once_the_store_is_there() {
    let lines = Lines::default();
    let (of_log, log) = (lines.clone(), tracing_subscriber::fmt().without_time());
    let _second = second_subscriber();
    let _log = tracing::subscriber::set_default(log.with_writer(move || of_log.clone()).finish());
    let mut server = Setup::new(Engine::Redis).max_memory(64 << 20, "allkeys-lru").start();
    server.kill();
    let counter = Counter::at(&server.url());
    let until_logged = async |parts: &[&str]| {
        let asking = async {
            let logged = || String::from_utf8_lossy(&lines.0.lock().unwrap()).into_owned();
            while !parts.iter().all(|part| logged().contains(part)) {
                let _ = counter.incr("a").await;
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(120), asking).await.expect("what is to be logged");
    };
    until_logged(&["does not work"]).await;
    server.start_again();
    until_logged(&["forgets buckets that are in use", "works again"]).await;
}
