//! Whatever is wrong with a server, each policy does what it says, nobody waits for long, and all goes on by itself.

use std::{num::NonZeroU32, time::Instant};

use futures_util::future::join_all;
use ratelimit_limiter::application::ServicePolicy;
use ratelimit_policy::application::{Login, RedisSettings};
use ratelimit_redis_testing::{Engine, PATIENCE, Server, Setup};

use crate::{
    counter::settings,
    probe::rights,
    service::{Daemon, policy},
};

/// Whom the daemons are to the store.
const USER: &str = "limiter";

/// What is wrong.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    Paused,
    WithoutMemory,
    ReadOnly,
    OtherPassword,
    NotAllowed,
}

const FAULTS: [Fault; 6] = [
    Fault::Killed,
    Fault::Paused,
    Fault::WithoutMemory,
    Fault::ReadOnly,
    Fault::OtherPassword,
    Fault::NotAllowed,
];

impl Fault {
    fn begin(self, server: &mut Server) {
        match self {
            Self::Killed => server.kill(),
            Self::Paused => server.pause(),
            Self::WithoutMemory => server.command(&["CONFIG", "SET", "maxmemory", "1"]),
            // A replica of a master that nobody reaches.
            Self::ReadOnly => server.command(&["REPLICAOF", "127.0.0.1", "1"]),
            Self::OtherPassword => {
                server.command(&["ACL", "SETUSER", USER, "resetpass", ">other"]);
                server.command(&["CLIENT", "KILL", "USER", USER]);
            }
            Self::NotAllowed => server.command(&["ACL", "SETUSER", USER, "-set"]),
        }
    }

    fn end(self, server: &mut Server) {
        match self {
            Self::Killed => server.start_again(),
            Self::Paused => server.resume(),
            Self::WithoutMemory => server.command(&["CONFIG", "SET", "maxmemory", "0"]),
            Self::ReadOnly => server.command(&["REPLICAOF", "NO", "ONE"]),
            Self::OtherPassword => server.command(&["ACL", "SETUSER", USER, ">secret"]),
            Self::NotAllowed => server.command(&["ACL", "SETUSER", USER, "+set"]),
        }
    }
}

fn rules(on_store_error: &str) -> ServicePolicy {
    let mut policy = policy(&format!(
        "
domain: d
on_store_error: {on_store_error}
descriptors:
  - key: three
    rate_limit: {{algorithm: token_bucket, unit: week, requests_per_unit: 3}}
  - key: none
    rate_limit: {{algorithm: token_bucket, unit: week, requests_per_unit: 0}}
"
    ));
    policy.local_share = NonZeroU32::new(2).unwrap();
    policy
}

/// Asks at once, as many clients do; how many pass.
async fn at_once(daemon: &Daemon, count: usize, key: &str, value: &str) -> usize {
    let answers = join_all((0..count).map(|_| daemon.passes(key, value))).await;
    answers.into_iter().filter(|passes| *passes).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_never_there_keeps_nobody_waiting() {
    let mut server = Server::start(Engine::Redis);
    server.kill();
    let daemon = Daemon::of(&settings(&[server.url()]), &rules("deny"));
    let errors = || daemon.0.shared_store().unwrap().errors;
    let start = Instant::now();
    while errors()[0].1 == 0 {
        assert!(!daemon.passes("three", "a").await);
        assert!(start.elapsed() < PATIENCE, "each waits until its time is over");
    }
    let before = errors();
    for _ in 0..50 {
        assert!(!daemon.passes("three", "a").await);
    }
    // None of them has waited until its time was over.
    let after = errors();
    assert_eq!((after[0].1 - before[0].1, after[1].1 - before[1].1), (50, 0), "{after:?}");
    server.start_again();
    daemon.until_passes("three", "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_policy_does_what_it_says_whatever_is_wrong() {
    for engine in Engine::ALL {
        let mut server = Setup::new(engine).user(USER, "secret", &rights()).start();
        std::fs::write(server.path("password"), "secret").unwrap();
        let login = Login { username: Some(USER.to_owned()), password_file: Some(server.path("password")) };
        let settings = RedisSettings { login, ..settings(&[server.url()]) };
        let daemons = ["allow", "deny", "local"].map(|policy| Daemon::of(&settings, &rules(policy)));
        let [allow, deny, local] = &daemons;
        for fault in FAULTS {
            let of = format!("{engine} {fault:?}");
            // As long as the store is asked, the policies do not matter.
            for (number, daemon) in daemons.iter().enumerate() {
                daemon.until_asked(&format!("{of} {number} before")).await;
                assert_eq!(daemon.passing(2, &[("none", &of)]).await, 0, "{of}");
            }
            fault.begin(&mut server);
            for _ in 0..2 {
                assert_eq!(at_once(allow, 10, "three", &of).await, 10, "{of}");
                assert_eq!(at_once(deny, 10, "three", &of).await, 0, "{of}");
                // No policy lets through what no state would.
                assert_eq!(at_once(allow, 3, "none", &of).await, 0, "{of}");
            }
            // Half of three, rounded up; and nobody gets another burst.
            assert_eq!(at_once(local, 10, "three", &of).await, 2, "{of}");
            assert_eq!(at_once(local, 10, "three", &of).await, 0, "{of}");
            fault.end(&mut server);
            deny.until_passes("three", &format!("{of} is over")).await;
            for (number, (daemon, passes)) in daemons.iter().zip([3, 0, 0]).enumerate() {
                daemon.until_asked(&format!("{of} {number} after")).await;
                assert_eq!(daemon.passing(5, &[("three", &format!("after {of}"))]).await, passes, "{of}");
            }
        }
    }
}
