//! A service over a store against one in memory: random requests under the rules of a file, and every field of every
//! answer the same. Nothing is remembered of exhausted keys, and time is the test's.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use futures_util::future::join_all;
use ratelimit_limiter::{
    Nanos,
    application::{
        Descriptor, LimitOverride, Request, RequestError, Response, Service, ServicePolicy, TimeUnit,
    },
    clock::FakeClock,
    store::remote::{BucketKey, Question, Reading, RemoteError, RemoteHealth, RemoteStore},
};
use ratelimit_redis::{SharedBuckets, StoreOptions};
use ratelimit_redis_testing::{Engine, Server};

use crate::{
    differential::{MOST_TIME, START, Times, next_time, requests},
    service::policy,
    support::{
        asking::{LONG, options},
        direct::{Clock, Direct},
        random::Random,
    },
};

const RULES: &str = "
domain: d
descriptors:
  - key: plain
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: second
    rate_limit: {unit: second, requests_per_unit: 3, count_denied: false}
  - key: week
    rate_limit: {unit: week, requests_per_unit: 100, name: weekly}
  - key: none
    rate_limit: {unit: hour, requests_per_unit: 0}
  - key: closed
    rate_limit: {unit: hour, requests_per_unit: 0, algorithm: token_bucket}
  - key: token
    rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 7, burst: 12}
  - key: drained
    rate_limit: {algorithm: token_bucket, per: 10s, requests_per_unit: 3, count_denied: true}
  - key: leaky
    rate_limit: {algorithm: leaky_bucket, per: 15m, requests_per_unit: 9, soft_limit: 4, soft_for: 20s}
  - key: fixed
    rate_limit: {algorithm: fixed_window, per: 100s, requests_per_unit: 8, soft_limit: 5, soft_for: 30s}
  - key: log
    rate_limit: {algorithm: sliding_window_log, unit: minute, requests_per_unit: 6}
  - key: loglong
    rate_limit: {algorithm: sliding_window_log, unit: day, requests_per_unit: 300, soft_limit: 9, soft_for: 1h}
  - key: logall
    rate_limit: {algorithm: sliding_window_log, unit: minute, requests_per_unit: 4, count_denied: true}
  - key: counter
    rate_limit: {algorithm: sliding_window_counter, unit: hour, requests_per_unit: 10, soft_limit: 3, soft_for: 7s}
  - key: counted
    rate_limit: {algorithm: sliding_window_counter, per: 7s, requests_per_unit: 4, count_denied: true}
  - key: tokens
    rate_limit: {algorithm: token_bucket, unit: minute, requests_per_unit: 50, overrun: true}
  - key: tokenlog
    rate_limit: {algorithm: sliding_window_log, unit: minute, requests_per_unit: 20, overrun: true}
  - key: tokenwindow
    rate_limit: {algorithm: fixed_window, unit: minute, requests_per_unit: 20, overrun: true}
  - key: tokencounter
    rate_limit: {algorithm: sliding_window_counter, unit: minute, requests_per_unit: 20, overrun: true}
  - key: shadow
    shadow_mode: true
    rate_limit: {algorithm: leaky_bucket, unit: minute, requests_per_unit: 2}
  - key: shadowed
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: quota
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 4}
  - key: wide
    quota_mode: true
    rate_limit: {algorithm: token_bucket, unit: minute, requests_per_unit: 9}
  - key: shared
    value: 1*
    share_threshold: true
    rate_limit: {algorithm: fixed_window, unit: minute, requests_per_unit: 9}
  - key: nested
    rate_limit: {unit: minute, requests_per_unit: 20}
    descriptors:
      - key: plain
        value: 1
        rate_limit: {algorithm: token_bucket, unit: minute, requests_per_unit: 3}
  - key: free
    rate_limit: {unlimited: true}
  - key: slow
    rate_limit: {unit: second, requests_per_unit: 8000, name: fast}
  - key: instead
    rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 2, replaces: [{name: weekly}]}
";

const KEYS: [&str; 28] = [
    "plain",
    "second",
    "week",
    "none",
    "closed",
    "token",
    "drained",
    "leaky",
    "fixed",
    "log",
    "loglong",
    "logall",
    "counter",
    "counted",
    "tokens",
    "tokenlog",
    "tokenwindow",
    "tokencounter",
    "shadow",
    "shadowed",
    "quota",
    "wide",
    "shared",
    "nested",
    "free",
    "slow",
    "instead",
    "unknown",
];

const UNITS: [TimeUnit; 4] = [TimeUnit::Second, TimeUnit::Minute, TimeUnit::Week, TimeUnit::Month];

/// A store that the test looks at too.
#[derive(Clone)]
struct Shared(Arc<SharedBuckets<Direct>>);

impl RemoteStore for Shared {
    async fn decide(&self, question: Question<'_>) -> Result<Reading, RemoteError> {
        self.0.decide(question).await
    }

    fn charge_later(&self, question: Question<'_>) {
        self.0.charge_later(question);
    }

    async fn reset(&self, buckets: &[BucketKey<'_>]) -> Result<u64, RemoteError> {
        self.0.reset(buckets).await
    }

    fn answers_within(&self) -> std::time::Duration {
        self.0.answers_within()
    }

    fn health(&self) -> RemoteHealth {
        self.0.health()
    }
}

/// Two services with the same rules and the same time.
struct Pair {
    clock: FakeClock,
    memory: Service,
    shared: Service,
    store: Shared,
}

impl Pair {
    async fn new(server: &Server, clock: &Clock, policy: &ServicePolicy, shards: Option<u16>) -> Self {
        server.command(&["FLUSHALL"]);
        // Requests that are tried again keep their order then.
        let options = StoreOptions { most_calls: 1, shards, ..options(LONG) };
        let transport = Direct::with_clock(server, clock).await;
        let store =
            Shared(Arc::new(SharedBuckets::new(transport, &options, tokio::runtime::Handle::current())));
        // Requests that wait for the secret go in any order.
        store.reset(&[]).await.unwrap();
        let of_memory = FakeClock::new(nanos(clock));
        let service = || Service::with_clock(policy, Arc::new(of_memory.clone())).unwrap();
        let (memory, shared) = (service(), service().sharing(store.clone()).remembering(0));
        Self { clock: of_memory, memory, shared, store }
    }

    /// Asks both; whether all were judged in their order, so that the answers can be compared.
    async fn agree(&self, group: &[(Request, bool)], number: u64) -> bool {
        let answers = join_all(group.iter().map(|(request, is_report)| async move {
            match is_report {
                true => self.shared.report_async(request).await,
                false => self.shared.decide_async(request).await,
            }
        }));
        let answers = answers.await;
        if self.store.0.transport().tried_again() && group.len() > 1 {
            return false;
        }
        for ((request, is_report), answer) in group.iter().zip(answers) {
            let expected = match is_report {
                true => self.memory.report(request),
                false => self.memory.decide(request),
            };
            let (answer, expected) = (said(&answer), said(&expected));
            if format!("{answer:?}") == format!("{expected:?}") {
                continue;
            }
            // Line by line, which takes longer to write.
            let (answer, expected) = (format!("{answer:#?}"), format!("{expected:#?}"));
            let differing =
                answer.lines().zip(expected.lines()).find(|(answer, expected)| answer != expected);
            assert!(
                answer == expected,
                "before request {number}, report {is_report}: {request:?}\n{differing:?}\n{answer}\nin memory: {expected}"
            );
        }
        true
    }
}

/// Every field; what came of the whole request is none of the fields that others see.
fn said(answer: &Result<Response, RequestError>) -> impl fmt::Debug {
    (answer, answer.as_ref().ok().map(Response::deciding))
}

fn nanos(clock: &Clock) -> Nanos {
    Nanos(clock.load(SeqCst) * 1_000)
}

fn request(random: &mut Random) -> (Request, bool) {
    let mut descriptors: Vec<Descriptor> = Vec::new();
    let count = if random.once_in(2) { 1 } else { 1 + random.below(5) };
    for _ in 0..count {
        let same = descriptors.last().cloned().filter(|_| random.once_in(6));
        descriptors.push(same.unwrap_or_else(|| descriptor(random)));
    }
    let hits_addend = if random.once_in(4) { random.below(8) as u32 } else { 0 };
    (Request { domain: "d".to_owned(), descriptors, hits_addend }, random.once_in(12))
}

fn descriptor(random: &mut Random) -> Descriptor {
    let mut entries = vec![(random.of(&KEYS), random.of(&["1", "2", "10"]))];
    if entries[0].0 == "nested" && random.once_in(2) {
        entries.push(("plain", random.of(&["1", "2"])));
    }
    let limit = random
        .once_in(12)
        .then(|| LimitOverride { requests_per_unit: random.below(6) as u32, unit: Some(random.of(&UNITS)) });
    let hits_addend = match random.below(10) {
        0 => Some(0),
        1..=3 => Some(1 + random.below(5)),
        4 => Some(random.below(60)),
        5 if random.once_in(4) => {
            Some(random.of(&[200, 5_000, 1_000_000_001, u64::from(u32::MAX) + 9, u64::MAX]))
        }
        _ => None,
    };
    Descriptor { limit, hits_addend, is_negative_hits: random.once_in(9), ..Descriptor::of(entries) }
}

/// Lets time pass; whether it was too much, so that all begins again.
fn pass_time(random: &mut Random, clock: &Clock) -> bool {
    let next = next_time(random, clock.load(SeqCst), Times::Forward);
    let is_over = next > START + MOST_TIME;
    clock.store(if is_over { START } else { next }, SeqCst);
    is_over
}

fn no_errors(pair: &Pair) {
    let stats = pair.shared.shared_store().unwrap();
    assert!(stats.errors.iter().all(|(_, count)| *count == 0), "{stats:?}");
    assert_eq!((stats.disagreements, stats.recalled), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn answers_are_those_of_memory_in_every_field() {
    let server = Server::start(Engine::Redis);
    let clock: Clock = Arc::new(AtomicU64::new(START));
    let (policy, mut random) = (policy(RULES), Random::new(11));
    let mut pair = Pair::new(&server, &clock, &policy, None).await;
    let (mut made, mut groups, mut lost) = (0, 0, 0);
    while made < requests() {
        if pass_time(&mut random, &clock) {
            pair = Pair::new(&server, &clock, &policy, None).await;
        }
        pair.clock.set(nanos(&clock));
        // One alone tells the store what time it is, so that the others keep their order.
        assert!(pair.agree(&[request(&mut random)], made).await);
        let group: Vec<_> = (0..random.below(40)).map(|_| request(&mut random)).collect();
        groups += 1;
        made += 1 + group.len() as u64;
        if !pair.agree(&group, made).await {
            lost += 1;
            pair = Pair::new(&server, &clock, &policy, None).await;
        }
    }
    assert!(lost < groups / 4, "{lost} of {groups} groups were tried again: this machine is too slow");
    no_errors(&pair);
    assert!(lost > 0 || pair.shared.domain_counts() == pair.memory.domain_counts());
}

/// One request after the other, so that nobody is denied by what another charges in vain. Without soft limits: use that
/// goes above one and is taken back has crossed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn answers_across_shards_are_those_of_memory_too() {
    let server = Server::start(Engine::Valkey);
    let clock: Clock = Arc::new(AtomicU64::new(START));
    let hard = |line: &str| match line.split_once(", soft_limit") {
        Some((before, _)) => format!("{before}}}\n"),
        None => format!("{line}\n"),
    };
    let policy = policy(&RULES.lines().map(hard).collect::<String>());
    let mut random = Random::new(12);
    let mut pair = Pair::new(&server, &clock, &policy, Some(16)).await;
    for number in 0..requests() / 16 {
        if pass_time(&mut random, &clock) {
            pair = Pair::new(&server, &clock, &policy, Some(16)).await;
        }
        pair.clock.set(nanos(&clock));
        let (mut request, is_report) = request(&mut random);
        assert!(pair.agree(&[(request.clone(), is_report)], number).await);
        // What is taken back is sent behind the answer, and before what is asked next: it shows while time stands
        // still.
        for descriptor in &mut request.descriptors {
            (descriptor.hits_addend, descriptor.is_negative_hits) = (Some(0), false);
        }
        assert!(pair.agree(&[(request, false)], number).await);
    }
    no_errors(&pair);
    assert!(pair.shared.domain_counts() == pair.memory.domain_counts());
}
