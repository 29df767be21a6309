//! A service as a daemon has it, with rules from a file and a store.

use std::{
    fs,
    time::{Duration, Instant},
};

use ratelimit_limiter::application::{Code, Descriptor, Request, Response, Service, ServicePolicy};
use ratelimit_policy::application::RedisSettings;
use ratelimit_redis::RedisStore;
use ratelimit_redis_testing::PATIENCE;
use tokio::runtime::Handle;

use crate::counter::{BOUND, TIMEOUT};

/// The rules of a file as a policy.
pub fn policy(rules: &str) -> ServicePolicy {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rules.yaml");
    fs::write(&path, rules).unwrap();
    let checked = ratelimit_config::check_rules(&[path], false);
    ServicePolicy::of_rules(checked.unwrap_or_else(|errors| panic!("{rules}\n{errors}")).rules)
}

/// A daemon's service.
pub struct Daemon(pub Service);

impl Daemon {
    /// With buckets of its own.
    pub fn in_memory(rules: &str) -> Self {
        Self(Service::new(&policy(rules)).unwrap())
    }

    /// With a store that others may share.
    pub fn sharing(settings: &RedisSettings, rules: &str) -> Self {
        Self::of(settings, &policy(rules))
    }

    /// The same with more than rules.
    pub fn of(settings: &RedisSettings, policy: &ServicePolicy) -> Self {
        let store = RedisStore::connect(settings, &Handle::current());
        Self(Service::new(policy).unwrap().sharing(store))
    }

    /// What is answered to a request of domain `d` with these descriptors, of one entry each. Checks that it does not
    /// take long.
    pub async fn ask(&self, descriptors: &[(&str, &str)], hits: u32) -> Response {
        let descriptors = descriptors.iter().map(|entry| Descriptor::of([*entry])).collect();
        self.request(Request { domain: "d".to_owned(), descriptors, hits_addend: hits }).await
    }

    pub async fn request(&self, request: Request) -> Response {
        let start = Instant::now();
        let response = self.0.decide_async(&request).await.unwrap();
        assert!(start.elapsed() < TIMEOUT + BOUND, "a request took {:?}", start.elapsed());
        response
    }

    /// Whether one passes.
    pub async fn passes(&self, key: &str, value: &str) -> bool {
        self.ask(&[(key, value)], 1).await.allowed()
    }

    /// How many of so many pass, one after the other.
    pub async fn passing(&self, count: usize, descriptors: &[(&str, &str)]) -> usize {
        let mut passing = 0;
        for _ in 0..count {
            passing += usize::from(self.ask(descriptors, 1).await.code == Code::Ok);
        }
        passing
    }

    /// Waits until the store answers, as a refusal to this key shows that has no limit left.
    pub async fn until_passes(&self, key: &str, value: &str) {
        let start = Instant::now();
        while !self.passes(key, value).await {
            assert!(start.elapsed() < PATIENCE, "no recovery");
            tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep, what another program does can only be polled
        }
    }

    /// What is left of a bucket's limit, by asking without a charge.
    pub async fn remaining(&self, key: &str, value: &str) -> u64 {
        let mut descriptor = Descriptor::of([(key, value)]);
        descriptor.hits_addend = Some(0);
        let request = Request { domain: "d".to_owned(), descriptors: vec![descriptor], hits_addend: 1 };
        self.request(request).await.statuses[0].remaining
    }

    /// Waits until the store is asked, which a policy may hide. The values are new, since of exhausted keys it is not
    /// asked.
    pub async fn until_asked(&self, value: &str) {
        let start = Instant::now();
        let without = || self.0.shared_store().unwrap().without_store.map(|(_, count)| count);
        for number in 0.. {
            let before = without();
            self.passes("three", &format!("{value} is asked {number}")).await;
            if without() == before {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "no recovery");
            tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep, what another program does can only be polled
        }
    }
}
