//! One list of behaviours, the same whatever keeps the buckets. Limits are of a week, so that hardly a window ends in
//! between.

use ratelimit_limiter::application::{Code, Descriptor, LimitOverride, Request, TimeUnit};
use ratelimit_policy::application::{Login, RedisSettings, Topology};
use ratelimit_redis_testing::{Cluster, Engine, Sentinels, Setup};

use crate::{counter::settings, probe::rights, service::Daemon};

const RULES: &str = "
domain: d
on_store_error: deny
descriptors:
  - key: token
    rate_limit: {algorithm: token_bucket, unit: week, requests_per_unit: 5}
  - key: leaky
    rate_limit: {algorithm: leaky_bucket, unit: week, requests_per_unit: 5}
  - key: fixed
    rate_limit: {algorithm: fixed_window, unit: week, requests_per_unit: 5}
  - key: log
    rate_limit: {algorithm: sliding_window_log, unit: week, requests_per_unit: 5}
  - key: counter
    rate_limit: {algorithm: sliding_window_counter, unit: week, requests_per_unit: 5}
  - key: plain
    rate_limit: {unit: week, requests_per_unit: 5}
  - key: one
    rate_limit: {algorithm: token_bucket, unit: week, requests_per_unit: 1}
  - key: none
    rate_limit: {unit: week, requests_per_unit: 0}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: week, requests_per_unit: 1}
  - key: narrow
    quota_mode: true
    rate_limit: {unit: week, requests_per_unit: 1}
  - key: wide
    quota_mode: true
    rate_limit: {unit: week, requests_per_unit: 3}
  - key: soft
    rate_limit: {algorithm: fixed_window, unit: week, requests_per_unit: 4, soft_limit: 2, soft_for: 1h}
";

const ALGORITHMS: [&str; 5] = ["token", "leaky", "fixed", "log", "counter"];

/// All behaviours, one after the other, each with values of its own.
async fn conforms(daemon: &Daemon) {
    // Until the store is there, all is denied.
    daemon.until_passes("plain", "first").await;
    exact_counts(daemon).await;
    all_or_nothing(daemon).await;
    costs(daemon).await;
    modes(daemon).await;
    refunds(daemon).await;
    values(daemon).await;
    overrides(daemon).await;
    soft_limits(daemon).await;
}

async fn exact_counts(daemon: &Daemon) {
    for key in ALGORITHMS {
        for left in (0..5).rev() {
            let answer = daemon.ask(&[(key, "exact")], 1).await;
            assert_eq!((answer.code, answer.statuses[0].remaining), (Code::Ok, left), "{key}");
        }
        for _ in 0..3 {
            let denied = daemon.ask(&[(key, "exact")], 1).await;
            assert_eq!((denied.code, denied.statuses[0].remaining), (Code::OverLimit, 0), "{key}");
            let wait = denied.statuses[0].retry_after.unwrap_or_default();
            assert!(wait.0 > 0 && wait.0 <= 7 * 24 * 3600 * 1_000_000_000, "{key}: {wait:?}");
        }
        assert!(daemon.passes(key, "other").await, "{key}");
    }
    assert_eq!(daemon.passing(3, &[("none", "a")]).await, 0);
}

async fn all_or_nothing(daemon: &Daemon) {
    for key in ALGORITHMS {
        // The same value in both, so that the answer is not by chance that of one shard; and one that is elsewhere.
        for other in ["together", "far away"] {
            let both = [("one", other), (key, "together")];
            let name = format!("{key} {other}");
            let passed = daemon.passing(4, &[("one", &name), both[1]]).await;
            assert_eq!(passed, 1, "{name}");
        }
        // Two were admitted; what was denied is not charged.
        assert_eq!(daemon.remaining(key, "together").await, 3, "{key}");
    }
    // As in Envoy's service every descriptor is charged, whoever denies.
    assert_eq!(daemon.passing(4, &[("one", "plain"), ("plain", "together")]).await, 1);
    assert_eq!(daemon.remaining("plain", "together").await, 1);
    let twice = daemon.ask(&[("fixed", "twice"), ("fixed", "twice")], 1).await;
    assert_eq!(twice.statuses.iter().map(|status| status.remaining).collect::<Vec<_>>(), [4, 3]);
}

async fn costs(daemon: &Daemon) {
    for key in ALGORITHMS {
        let never = daemon.ask(&[(key, "costs")], 6).await;
        assert!(!never.allowed() && never.statuses[0].never, "{key}");
        assert!(daemon.ask(&[(key, "costs")], 3).await.allowed(), "{key}");
        assert!(!daemon.ask(&[(key, "costs")], 3).await.allowed(), "{key}");
        assert!(daemon.ask(&[(key, "costs")], 2).await.allowed(), "{key}");
    }
}

async fn modes(daemon: &Daemon) {
    assert_eq!(daemon.passing(3, &[("shadow", "a")]).await, 3);
    assert_eq!(daemon.passing(5, &[("narrow", "a"), ("wide", "a")]).await, 3);
}

async fn refunds(daemon: &Daemon) {
    for key in ["token", "fixed", "counter"] {
        assert_eq!(daemon.passing(6, &[(key, "refund")]).await, 5, "{key}");
        let mut back = Descriptor::of([(key, "refund")]);
        (back.hits_addend, back.is_negative_hits) = (Some(2), true);
        daemon.request(Request { domain: "d".to_owned(), descriptors: vec![back], hits_addend: 0 }).await;
        assert_eq!(daemon.passing(4, &[(key, "refund")]).await, 2, "{key}");
    }
}

/// What clients can write into values is no way to another bucket, nor to an error.
async fn values(daemon: &Daemon) {
    let long = "y".repeat(4_000);
    let longer = format!("{long}z");
    let values =
        ["", "a", "a:b", "a;b", "{a}", "}{", "a\0", "\0a", "a\r\nb", "1:a", "ä", " ", &long, &longer];
    for value in values {
        assert!(daemon.passes("one", value).await, "{value:.10}");
    }
    for value in values {
        assert!(!daemon.passes("one", value).await, "{value:.10}");
    }
}

async fn overrides(daemon: &Daemon) {
    let limited = |count| {
        let mut descriptor = Descriptor::of([("plain", "override")]);
        descriptor.limit = Some(LimitOverride { requests_per_unit: count, unit: Some(TimeUnit::Week) });
        Request { domain: "d".to_owned(), descriptors: vec![descriptor], hits_addend: 1 }
    };
    for (count, passes) in [(2, true), (2, true), (2, false), (10, true), (3, false)] {
        assert_eq!(daemon.request(limited(count)).await.allowed(), passes, "{count}");
    }
}

async fn soft_limits(daemon: &Daemon) {
    let mut said = Vec::new();
    for _ in 0..5 {
        let answer = daemon.ask(&[("soft", "a")], 1).await;
        said.push((answer.allowed(), answer.soft()));
    }
    assert_eq!(said, [(true, false), (true, false), (true, true), (true, true), (false, false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_conforms() {
    conforms(&Daemon::in_memory(RULES)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn single_servers_conform() {
    for engine in Engine::ALL {
        let server = Setup::new(engine).user("limiter", "secret", &rights()).start();
        let by_socket = format!("unix:{}", server.socket().display());
        let other = RedisSettings { prefix: "other".to_owned(), ..settings(&[by_socket]) };
        conforms(&Daemon::sharing(&other, RULES)).await;
        // With no more rights than the documentation says.
        std::fs::write(server.path("password"), "secret").unwrap();
        let login =
            Login { username: Some("limiter".to_owned()), password_file: Some(server.path("password")) };
        conforms(&Daemon::sharing(&RedisSettings { login, ..settings(&[server.url()]) }, RULES)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_conform() {
    for engine in Engine::ALL {
        let cluster = Cluster::start(engine);
        let settings = RedisSettings { topology: Topology::Cluster, ..settings(&cluster.urls()) };
        conforms(&Daemon::sharing(&settings, RULES)).await;
        let used = cluster.nodes().iter().filter(|node| node.keys() > 0).count();
        assert_eq!(used, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn masters_of_sentinels_conform() {
    for engine in Engine::ALL {
        let all = Sentinels::start(engine, 1);
        let topology = Topology::Sentinel(all.name().to_owned());
        conforms(&Daemon::sharing(&RedisSettings { topology, ..settings(&all.urls()) }, RULES)).await;
    }
}
