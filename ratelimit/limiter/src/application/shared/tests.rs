//! Services over a store that several of them share, by a model of one: the limiter's own decisions, on a clock of its
//! own.

use std::{
    num::NonZeroU32,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use ratelimit_common::{limit::Algorithm, time::Nanos};

use super::*;
use crate::{
    application::{
        Code, Descriptor, DescriptorRule, Domain, LimitOverride, OnStoreError, Quantity, RateOptions,
        RequestLimit, RequestRate, RuleSet, Service, ServicePolicy, SoftLimit, TimeUnit,
    },
    clock::FakeClock,
    store::{State, WideRecord},
};

use bank::Bank;

mod bank;
mod exhausted;

const SECOND: u64 = Nanos::SECOND.0;
const START: Nanos = Nanos(1_700_000_123_456_789_000);
const MINUTE: Nanos = Nanos(60 * SECOND);

/// A limit of requests with this key.
fn rule(key: &str, rate: RequestRate) -> DescriptorRule {
    let limit = RequestLimit {
        name: Some(key.to_owned()),
        replaces: Vec::new(),
        quantity: Quantity::Limited(rate),
        ban: None,
    };
    DescriptorRule { limit: Some(limit), ..DescriptorRule::new(key, None) }
}

fn rate(algorithm: Algorithm, requests: u32, options: RateOptions) -> RequestRate {
    RequestRate::new(algorithm, requests, MINUTE, options).unwrap()
}

fn policy(rules: Vec<DescriptorRule>) -> ServicePolicy {
    let mut set = RuleSet::default();
    set.add(Domain::new("d", rules), false).unwrap();
    ServicePolicy::of_rules(set)
}

/// A service over a bank, whose clock is this one.
fn daemon(policy: &ServicePolicy, bank: &Bank, clock: &FakeClock) -> Service {
    Service::with_clock(policy, Arc::new(clock.clone())).unwrap().sharing(bank.clone())
}

/// A window of so many requests a minute, and two daemons with clocks an hour apart.
fn two_daemons(requests: u32) -> (Bank, Service, Service, [FakeClock; 2]) {
    let bank = Bank::new();
    let policy = policy(vec![rule("user", RequestRate::window(requests, MINUTE).unwrap())]);
    let clocks = [FakeClock::new(START), FakeClock::new(Nanos(START.0 + 3_600 * SECOND))];
    let [a, b] = clocks.each_ref().map(|clock| daemon(&policy, &bank, clock));
    (bank, a, b, clocks)
}

fn asking(descriptors: &[&str]) -> Request {
    let descriptor = |text: &&str| Descriptor::of([text.split_once('=').unwrap()]);
    Request {
        domain: "d".to_owned(),
        descriptors: descriptors.iter().map(descriptor).collect(),
        hits_addend: 1,
    }
}

/// What becomes of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

fn ask(service: &Service, request: &Request) -> Response {
    now(service.decide_async(request)).unwrap()
}

fn passes(service: &Service, descriptors: &[&str]) -> bool {
    ask(service, &asking(descriptors)).allowed()
}

/// Numbers that look random, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[test]
fn answers_are_those_of_memory_in_every_field() {
    let soft = Some(SoftLimit { limit: 3.try_into().unwrap(), lasts: Nanos(7 * SECOND) });
    let some = RateOptions::default();
    let limited = |key: &str, algorithm, options| rule(key, rate(algorithm, 6, options));
    let mut rules = vec![
        limited("token", Algorithm::TokenBucket, RateOptions { burst: 4.try_into().ok(), ..some }),
        limited("window", Algorithm::FixedWindow, some),
        limited("log", Algorithm::SlidingWindowLog, RateOptions { count_denied: true, ..some }),
        limited("counter", Algorithm::SlidingWindowCounter, RateOptions { soft, ..some }),
        limited("debt", Algorithm::TokenBucket, RateOptions { overrun: true, ..some }),
        rule("plain", RequestRate::window(5, MINUTE).unwrap()),
        rule("none", RequestRate::window(0, MINUTE).unwrap()),
        DescriptorRule { shadow_mode: true, ..limited("shadow", Algorithm::LeakyBucket, some) },
    ];
    for key in ["quota", "quota2"] {
        rules.push(DescriptorRule { quota_mode: true, ..limited(key, Algorithm::FixedWindow, some) });
    }
    let (policy, clock, bank) = (policy(rules), FakeClock::new(START), Bank::new());
    bank.vault(|vault| vault.clock = clock.clone());
    let memory = Service::with_clock(&policy, Arc::new(clock.clone())).unwrap();
    let shared = daemon(&policy, &bank, &clock).remembering(0);
    let keys =
        ["token", "window", "log", "counter", "debt", "plain", "none", "shadow", "quota", "quota2", "other"];
    let mut random = Random(7);
    for round in 0..20_000 {
        clock.advance(Nanos(random.below(3) * random.below(9 * SECOND)));
        let count = 1 + random.below(4);
        let descriptors = (0..count).map(|_| {
            let key = keys[random.below(keys.len() as u64) as usize];
            let own =
                LimitOverride { requests_per_unit: random.below(4) as u32, unit: Some(TimeUnit::Minute) };
            Descriptor {
                entries: vec![(key.to_owned(), random.below(2).to_string())],
                limit: (random.below(9) == 0).then_some(own),
                hits_addend: (random.below(3) == 0).then(|| random.below(9)),
                is_negative_hits: random.below(9) == 0,
            }
        });
        let request = Request { domain: "d".to_owned(), descriptors: descriptors.collect(), hits_addend: 1 };
        let (expected, found) = match random.below(12) {
            0 => (memory.report(&request), now(shared.report_async(&request))),
            _ => (memory.decide(&request), now(shared.decide_async(&request))),
        };
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{round}: {request:?}");
    }
    let stats = shared.shared_store().unwrap();
    assert_eq!((stats.disagreements, stats.recalled), (0, 0));
    assert_eq!(shared.rule_counts().len(), memory.rule_counts().len());
    assert!(shared.domain_counts() == memory.domain_counts());
}

#[test]
fn daemons_share_a_limit_whatever_their_clocks_say() {
    let (_, a, b, _) = two_daemons(100);
    let passed = (0..300).filter(|index| passes(if index % 3 == 0 { &a } else { &b }, &["user=x"])).count();
    assert_eq!(passed, 100);
}

#[test]
fn soft_crossings_bind_everywhere() {
    let soft = SoftLimit { limit: 2.try_into().unwrap(), lasts: Nanos(5 * SECOND) };
    let options = RateOptions { soft: Some(soft), ..RateOptions::default() };
    let policy = policy(vec![rule("user", rate(Algorithm::FixedWindow, 10, options))]);
    let (bank, clock) = (Bank::new(), FakeClock::new(START));
    bank.vault(|vault| vault.clock = clock.clone());
    let (a, b) = (daemon(&policy, &bank, &clock), daemon(&policy, &bank, &clock));
    assert!((0..3).all(|_| passes(&a, &["user=x"])));
    assert!(ask(&b, &asking(&["user=x"])).soft());
    clock.advance(Nanos(6 * SECOND));
    assert!(!passes(&b, &["user=x"]) && !passes(&a, &["user=x"]));
}

#[test]
fn without_the_store_answers_have_no_figures() {
    for (policy_says, domain_says, allowed) in [
        (OnStoreError::Allow, None, true),
        (OnStoreError::Deny, None, false),
        (OnStoreError::Deny, Some(OnStoreError::Allow), true),
        (OnStoreError::Allow, Some(OnStoreError::Deny), false),
    ] {
        let (bank, clock) = (Bank::new(), FakeClock::new(START));
        let rules = vec![
            rule("user", RequestRate::window(2, MINUTE).unwrap()),
            rule("none", RequestRate::window(0, MINUTE).unwrap()),
            rule("closed", rate(Algorithm::TokenBucket, 0, RateOptions::default())),
            DescriptorRule { shadow_mode: true, ..rule("shadow", RequestRate::window(1, MINUTE).unwrap()) },
        ];
        let mut set = RuleSet::default();
        set.add(Domain { on_store_error: domain_says, ..Domain::new("d", rules) }, false).unwrap();
        let policy = ServicePolicy { on_store_error: policy_says, ..ServicePolicy::of_rules(set) };
        let a = daemon(&policy, &bank, &clock);
        assert!(passes(&a, &["user=x"]));
        bank.vault(|vault| vault.fails = Some(RemoteError::TimedOut));
        for _ in 0..5 {
            let response = ask(&a, &asking(&["user=x"]));
            assert_eq!(response.allowed(), allowed);
            assert!(response.deciding().is_none() && response.statuses[0].limit.is_none());
            assert_eq!(response.statuses[0].code, if allowed { Code::Ok } else { Code::OverLimit });
        }
        // A limit that only counts denies nothing, and one that lets nothing through nothing passes.
        assert!(passes(&a, &["shadow=x"]));
        assert!(!passes(&a, &["none=x"]) && !passes(&a, &["closed=x"]) && passes(&a, &["unlimited=x"]));
        let mut large = asking(&["user=x"]);
        large.hits_addend = 3;
        assert!(!ask(&a, &large).allowed(), "no state lets it through");
        let stats = a.shared_store().unwrap();
        assert_eq!(stats.errors[1], ("timed_out", 8));
        assert_eq!(stats.without_store[0].1 + stats.without_store[1].1, 8);
        bank.vault(|vault| vault.fails = None);
        assert!(passes(&a, &["user=x"]) && !passes(&a, &["user=x"]), "nothing was charged");
    }
}

#[test]
fn with_local_each_daemon_has_its_share_and_a_store_that_flaps_gives_no_other() {
    let (bank, clock) = (Bank::new(), FakeClock::new(START));
    let rules = vec![
        rule("user", RequestRate::window(10, MINUTE).unwrap()),
        rule(
            "bucket",
            rate(
                Algorithm::TokenBucket,
                10,
                RateOptions { burst: 4.try_into().ok(), ..RateOptions::default() },
            ),
        ),
    ];
    let share = NonZeroU32::new(3).unwrap();
    let policy = ServicePolicy { on_store_error: OnStoreError::Local, local_share: share, ..policy(rules) };
    let a = daemon(&policy, &bank, &clock);
    let fails = |fails: bool| bank.vault(|vault| vault.fails = fails.then_some(RemoteError::Overloaded));
    let passed = |key: &str, count: usize| (0..count).filter(|_| passes(&a, &[key])).count();
    fails(true);
    assert_eq!((passed("user=x", 20), passed("bucket=x", 20)), (4, 2), "a third, rounded up");
    let response = ask(&a, &asking(&["user=x"]));
    assert_eq!(response.deciding().and_then(|status| status.limit).map(|limit| limit.capacity), Some(4));
    for _ in 0..5 {
        fails(false);
        assert_eq!(passed("user=y", 1), 1);
        fails(true);
        assert_eq!((passed("user=x", 5), passed("bucket=x", 5)), (0, 0));
    }
    let own = LimitOverride { requests_per_unit: 7, unit: Some(TimeUnit::Minute) };
    let mut request = asking(&["own=x"]);
    request.descriptors[0].limit = Some(own);
    assert_eq!((0..9).filter(|_| ask(&a, &request).allowed()).count(), 3);
}

#[test]
fn a_reload_does_not_wait_for_a_store_that_is_asked() {
    let (bank, a, ..) = two_daemons(2);
    bank.vault(|vault| vault.hangs = true);
    let request = asking(&["user=x"]);
    let mut deciding = pin!(a.decide_async(&request));
    let mut context = Context::from_waker(Waker::noop());
    assert!(deciding.as_mut().poll(&mut context).is_pending());
    a.reload(&policy(vec![rule("user", RequestRate::window(0, MINUTE).unwrap())])).unwrap();
    bank.vault(|vault| vault.hangs = false);
    // By the rules that were in force when it came.
    assert!(matches!(deciding.poll(&mut context), Poll::Ready(Ok(response)) if response.allowed()));
    assert!(!passes(&a, &["user=x"]));
}

#[test]
fn who_blocks_waits_no_longer_than_the_store_may_take() {
    let (bank, a, ..) = two_daemons(1);
    let request = asking(&["user=x"]);
    assert!(a.decide(&request).unwrap().allowed() && !a.decide(&request).unwrap().allowed());
    bank.vault(|vault| vault.hangs = true);
    let other = asking(&["user=y"]);
    assert!(a.decide(&other).unwrap().allowed(), "as `on_store_error` says");
    assert_eq!(a.shared_store().unwrap().errors[1], ("timed_out", 1));
}

#[test]
fn states_of_another_kind_are_no_states() {
    let (bank, a, ..) = two_daemons(1);
    assert!(passes(&a, &["user=x"]));
    bank.vault(|vault| {
        for (state, _) in vault.buckets.values_mut() {
            *state = State::wide(WideRecord::Log(crate::store::Log::default()));
        }
    });
    assert!(passes(&a, &["user=x"]), "as `on_store_error` says");
    assert_eq!(a.shared_store().unwrap().errors[3], ("foreign", 1));
}

#[test]
fn buckets_are_shown_and_made_new_in_either_store() {
    let (bank, shared, ..) = two_daemons(2);
    let clock = FakeClock::new(START);
    let rules = policy(vec![rule("user", RequestRate::window(2, MINUTE).unwrap())]);
    let memory = Service::with_clock(&rules, Arc::new(clock)).unwrap();
    for service in [&shared, &memory] {
        assert_eq!((0..5).filter(|_| passes(service, &["user=x"])).count(), 2);
        let (before, asked) = (service.domain_counts(), [Descriptor::of([("user", "x")])]);
        let status = now(service.inspect("d", &asked)).unwrap();
        assert_eq!((status[0].code, status[0].remaining), (Code::OverLimit, 0));
        assert_eq!(now(service.reset("d", &asked)).unwrap()[0].code, Code::OverLimit);
        assert_eq!(now(service.inspect("d", &asked)).unwrap()[0].remaining, 2);
        assert!(service.domain_counts() == before && passes(service, &["user=x"]));
        assert_eq!(
            now(service.inspect("e", &asked)).unwrap_err(),
            crate::application::InspectError::NoDomain
        );
    }
    assert!(bank.asked() > 0);
}
