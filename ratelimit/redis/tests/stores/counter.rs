//! A counter as the simplest script: how often calls were applied, and what came of each.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use ratelimit_common::time::Nanos;
use ratelimit_policy::application::RedisSettings;
use ratelimit_redis::{
    connect::Connections,
    transport::{Applied, Call, Failure, FailureKind, Script, Transport as _},
};
use ratelimit_redis_testing::{PATIENCE, redis};
use tokio::runtime::Handle;

/// The longest that a call may take, by the settings.
pub const TIMEOUT: Duration = Duration::from_millis(300);

/// Far more than a machine that does much else adds to that.
pub const BOUND: Duration = Duration::from_secs(5);

static INCR: LazyLock<Script> =
    LazyLock::new(|| Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])".to_owned()));

/// Settings for the servers at these addresses; several are one store unless the caller changes that.
pub fn settings(urls: &[String]) -> RedisSettings {
    let addresses: Vec<_> = urls.iter().map(|url| url.parse().unwrap()).collect();
    let timeout = Nanos(u64::try_from(TIMEOUT.as_nanos()).unwrap());
    RedisSettings { timeout, addresses: addresses.clone(), ..RedisSettings::new(addresses[0].clone()) }
}

/// Connections, and a count of what they have done.
pub struct Counter(pub Connections);

impl Counter {
    pub fn start(settings: &RedisSettings) -> Self {
        Self(Connections::start(settings, &Handle::current()))
    }

    /// To one server.
    pub fn at(url: &str) -> Self {
        Self::start(&settings(&[url.to_owned()]))
    }

    /// Adds one to a key: its count. Checks that it does not take long.
    pub async fn incr(&self, key: &str) -> Result<u64, Failure> {
        self.incr_within(key, TIMEOUT).await
    }

    /// The same with another time that it may take.
    pub async fn incr_within(&self, key: &str, timeout: Duration) -> Result<u64, Failure> {
        let start = Instant::now();
        let call = Call {
            script: &INCR,
            shard: 0,
            keys: vec![key.as_bytes().to_vec()],
            args: vec![b"1".to_vec()],
            deadline: (start + timeout).into(),
        };
        let answer = self.0.call(call).await;
        assert!(start.elapsed() < timeout + BOUND, "a call took {:?}", start.elapsed());
        answer.map(|value| redis::from_redis_value(value).unwrap())
    }

    /// Asks until it is answered.
    pub async fn works(&self, key: &str) -> u64 {
        let start = Instant::now();
        loop {
            match self.incr(key).await {
                Ok(count) => return count,
                Err(failure) => assert!(start.elapsed() < PATIENCE, "no recovery: {failure:?}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep, what another program does can only be polled
        }
    }

    /// Asks until nothing is sent any more, and says how often a call may have been applied.
    pub async fn breaks(&self, key: &str) -> u64 {
        let start = Instant::now();
        let mut maybe = 0;
        loop {
            match self.incr(key).await {
                Err(Failure { kind: FailureKind::Broken, .. }) => return maybe,
                Err(failure) => maybe += u64::from(failure.applied == Applied::Maybe),
                Ok(_) => maybe += 1,
            }
            assert!(start.elapsed() < PATIENCE, "it goes on to be asked");
            tokio::task::yield_now().await;
        }
    }
}
