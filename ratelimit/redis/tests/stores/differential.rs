//! The script against the limiter: random requests under several limits, all algorithms, flags and orders. What the
//! script charges shows in the states that the next request finds.

mod rules;

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64, atomic::Ordering::SeqCst},
    time::Duration,
};

use futures_util::future::join_all;
use ratelimit_common::{
    algorithm::{self, sliding_window_counter::WideState, sliding_window_log},
    limit::{Limit, StateKind},
    time::{Nanos, Now},
};
use ratelimit_limiter::store::{
    Account, Enrolment, KeyHash, MemoryStore, State, Store as _, WideRecord, Zero,
    remote::{Act, BucketKey, Found, Outcomes, Over, Part, Question, Reading, RemoteStore as _, Say},
};
use ratelimit_redis::{SharedBuckets, StoreOptions};
use ratelimit_redis_testing::{Engine, Server};

use self::rules::{Rule, rules};
use crate::support::{
    direct::{Clock, Direct},
    random::Random,
};

/// How many requests are made without saying otherwise: about a minute of them, in all tests.
const REQUESTS: u64 = 20_000;

/// 2026 or so.
pub const START: u64 = 1_780_000_000_000_000;

/// How much later it may become, in microseconds.
pub const MOST_TIME: u64 = 300 * 86_400_000_000;

const KEYS: [&str; 3] = ["one", "two", "{three}"];

pub fn requests() -> u64 {
    let asked = std::env::var("RATELIMIT_REQUESTS").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(REQUESTS)
}

#[test]
fn requests_are_decided_as_in_memory() {
    run(1, Engine::Redis, &rules(), Times::Forward);
}

#[test]
fn requests_are_decided_as_in_memory_when_clocks_step_back_and_limits_change() {
    let without_logs: Vec<Rule> =
        rules().into_iter().filter(|rule| rule.limits[0].kind() != StateKind::Log).collect();
    run(2, Engine::Valkey, &without_logs, Times::Both);
}

/// How time goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    Forward,
    Both,
}

/// A request as the test makes it.
struct Made<'r> {
    buckets: Vec<Bucket>,
    parts: Vec<Part<'r>>,
    of_part: Vec<usize>,
    passes_all: bool,
    has_open_quota: bool,
}

/// A rule's bucket of a key, by their numbers.
type Bucket = (usize, usize);

struct World<'r> {
    rules: &'r [Rule],
    accounts: Vec<Account>,
    hashes: Vec<KeyHash>,
    random: Random,
    clock: Clock,
    states: HashMap<Bucket, Found>,
    /// Where the times of states begin.
    zero: Option<Zero>,
    /// The latest time so far.
    latest: Now,
    times: Times,
    /// A bucket all of whose requests are shown, for `RATELIMIT_TRACE=rule,key`.
    traced: Option<Bucket>,
}

fn run(number: u64, engine: Engine, rules: &[Rule], times: Times) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = Server::start(engine);
    let clock: Clock = Arc::new(AtomicU64::new(START));
    let options = StoreOptions {
        prefix: "rl".to_owned(),
        shards: None,
        timeout: Duration::from_secs(60),
        // Requests that are tried again keep their order then.
        most_calls: 1,
    };
    let transport = runtime.block_on(Direct::with_clock(&server, &clock));
    let store = SharedBuckets::new(transport, &options, runtime.handle().clone());
    let memory = MemoryStore::new(100).unwrap();
    let names: Vec<String> = (0..rules.len()).map(|rule| rule.to_string()).collect();
    let enrolments: Vec<_> =
        rules.iter().zip(&names).map(|(rule, name)| Enrolment { name, limit: &rule.limits[0] }).collect();
    let (accounts, _) = memory.enroll(&enrolments);
    let hashes = KEYS.iter().map(|key| memory.hash(key)).collect();
    let random = Random::new(number);
    let mut world = World {
        rules,
        accounts,
        hashes,
        random,
        clock,
        states: HashMap::new(),
        zero: None,
        latest: Now(Nanos(0)),
        times,
        traced: traced(),
    };
    let (mut made, mut groups, mut lost) = (0, 0, 0);
    while made < requests() {
        if world.pass_time() {
            world.forget(&server);
        }
        let group: Vec<_> = (0..=world.random.below(40)).map(|_| world.request()).collect();
        runtime.block_on(world.tell_time(&store));
        let readings = runtime.block_on(world.ask(&store, &group));
        made += group.len() as u64;
        if store.transport().tried_again() {
            // The order in which they were judged is not the test's.
            world.forget(&server);
            lost += 1;
            continue;
        }
        groups += 1;
        for (request, reading) in group.iter().zip(readings) {
            world.compare(request, &reading, made);
        }
    }
    assert!(lost < groups / 4, "{lost} of {groups} groups were tried again: this machine is too slow");
}

impl<'r> World<'r> {
    /// Says whether a new year begins.
    fn pass_time(&mut self) -> bool {
        let next = next_time(&mut self.random, self.clock.load(SeqCst), self.times);
        // Within a year, so that states keep their zero; then from the start again, with nothing kept.
        let is_over = next > START + MOST_TIME;
        self.clock.store(if is_over { START } else { next.max(START) }, SeqCst);
        is_over
    }

    fn forget(&mut self, server: &Server) {
        server.command(&["FLUSHALL"]);
        self.states.clear();
        self.latest = Now(Nanos(0));
    }

    fn request(&mut self) -> Made<'r> {
        let mut buckets: Vec<Bucket> = Vec::new();
        let (mut parts, mut of_part) = (Vec::new(), Vec::new());
        let count = if self.random.once_in(2) { 1 } else { 1 + self.random.below(4) };
        for _ in 0..count {
            let again = !buckets.is_empty() && self.random.once_in(5);
            let bucket = match again {
                true => self.random.of(&buckets),
                false => (self.random.below(self.rules.len() as u64) as usize, self.random.below(3) as usize),
            };
            let place = buckets.iter().position(|other| *other == bucket).unwrap_or_else(|| {
                buckets.push(bucket);
                buckets.len() - 1
            });
            parts.push(self.part(bucket));
            of_part.push(place);
        }
        let (passes_all, has_open_quota) = (self.random.once_in(20), self.random.once_in(10));
        Made { buckets, parts, of_part, passes_all, has_open_quota }
    }

    fn part(&mut self, (rule, key): Bucket) -> Part<'r> {
        let Rule { limits, soft } = &self.rules[rule];
        // What a sliding counter owes is cut for good by a smaller limit here, in memory only as long as that asks;
        // and a word tells by the amount in which window it is counted.
        let owes = limits[0].overruns() && limits[0].shape().0 == StateKind::SlidingCounter;
        let changes = self.times == Times::Both && !owes && self.random.once_in(20);
        let limit = if changes { self.random.of(&[&limits[0], &limits[1]]) } else { &limits[0] };
        let say = self.random.of(&[Say::Decides, Say::Decides, Say::Decides, Say::Quota, Say::Observes]);
        let cost = self.cost(limit);
        let act = match self.random.below(12) {
            0 => Act::Ask,
            1 => Act::Report,
            2 => Act::Refund,
            3 => Act::RefundIfAdmitted,
            _ if limit.always_charges() && say != Say::Observes => Act::Charge,
            _ if limit.always_charges() => self.random.of(&[Act::Charge, Act::ChargeIfAdmitted]),
            _ => Act::ChargeIfAdmitted,
        };
        let say = if act == Act::Report { Say::Observes } else { say };
        let counts_all = limit.kind() == StateKind::Window && limit.counts_denied();
        let over = match self.random.below(40) {
            0 if act != Act::ChargeIfAdmitted => Over::Excessive,
            1 if act != Act::ChargeIfAdmitted => Over::Closed,
            _ if counts_all => Over::Counted(limit.capacity()),
            _ => Over::Denied,
        };
        let cost = if act == Act::Ask { 0 } else { cost };
        Part {
            account: self.accounts[rule],
            hash: self.hashes[key],
            limit,
            cost,
            act,
            say,
            over,
            soft: *soft,
        }
    }

    fn cost(&mut self, limit: &Limit) -> u32 {
        let capacity = u32::try_from(limit.capacity()).unwrap_or(u32::MAX);
        match self.random.below(20) {
            0 => 0,
            1..=9 => 1,
            10..=12 => 1 + self.random.below(4) as u32,
            13 | 14 => self.random.below(u64::from(capacity) + 2) as u32,
            15 => capacity,
            16 => capacity.saturating_add(1),
            17 if limit.overruns() => capacity.saturating_mul(1 + self.random.below(12) as u32),
            18 if self.random.once_in(10) => u32::MAX - self.random.below(3) as u32,
            _ => 1 + self.random.below(u64::from(capacity / 3) + 1) as u32,
        }
    }

    /// Has the store learn what the clock says, by a request that comes too late.
    async fn tell_time(&self, store: &SharedBuckets<Direct>) {
        let entries = [("", "")];
        let limit = &self.rules[0].limits[0];
        let (kind, window) = limit.shape();
        let bucket = BucketKey { domain: "", account: "", kind, window, entries: &entries };
        let part = Part {
            account: self.accounts[0],
            hash: self.hashes[0],
            limit,
            cost: 0,
            act: Act::Ask,
            say: Say::Decides,
            over: Over::Denied,
            soft: None,
        };
        let (passes_all, has_open_quota, not_after) = (false, false, Some(Nanos(1_000)));
        let (buckets, parts, of_part) = (&[bucket], &[part], &[0]);
        let question = Question { buckets, parts, of_part, passes_all, has_open_quota, not_after };
        drop(store.decide(question).await);
        store.transport().tried_again();
    }

    async fn ask(&self, store: &SharedBuckets<Direct>, group: &[Made<'r>]) -> Vec<Reading> {
        let ask = async |made: &Made<'r>| {
            let names: Vec<String> = made.buckets.iter().map(|(rule, _)| rule.to_string()).collect();
            let entries: Vec<_> = made.buckets.iter().map(|&(_, key)| [("key", KEYS[key])]).collect();
            let bucket = |index: usize| {
                let (kind, window) = self.rules[made.buckets[index].0].limits[0].shape();
                BucketKey { domain: "test", account: &names[index], kind, window, entries: &entries[index] }
            };
            let buckets: Vec<BucketKey<'_>> = (0..names.len()).map(bucket).collect();
            store.decide(made.question(&buckets)).await.unwrap()
        };
        join_all(group.iter().map(ask)).await
    }

    fn compare(&mut self, made: &Made<'r>, reading: &Reading, number: u64) {
        let buckets: Vec<BucketKey<'_>> = made
            .buckets
            .iter()
            .map(|_| BucketKey {
                domain: "",
                account: "",
                kind: StateKind::Log,
                window: Nanos(0),
                entries: &[],
            })
            .collect();
        let question = made.question(&buckets);
        let theirs = Outcomes::of(&question, reading).unwrap();
        let mut model = Reading::at(reading.zero, reading.now, false);
        assert_eq!(*self.zero.get_or_insert(reading.zero), reading.zero, "states are kept by one zero");
        self.latest = self.latest.max(reading.now);
        for (&(rule, key), found) in made.buckets.iter().zip(&reading.buckets) {
            let limit = &reading.zero.align(self.rules[rule].limits[0]);
            let kept = self.states.get(&(rule, key)).cloned();
            // What was full once may be forgotten or not; a clock that steps back finds it again, as if it were used.
            let kept = kept.filter(|kept| !is_idle(limit, &kept.state, self.latest));
            model.buckets.push(kept.unwrap_or_else(|| {
                assert!(is_idle(limit, &found.state, self.latest), "{:?}: {found:?}", (rule, key));
                found.clone()
            }));
        }
        let ours = Outcomes::of(&question, &model).unwrap();
        let context = || {
            let parts: Vec<_> =
                made.parts.iter().zip(&made.of_part).map(|(part, bucket)| told(part, *bucket)).collect();
            format!(
                "before request {number}, at {:?}, passes all {}, open quota {}: {:?}\n{}\nfound {:?}\nmodel {:?}",
                reading.zero.wall_at(reading.now),
                made.passes_all,
                made.has_open_quota,
                made.buckets,
                parts.join("\n"),
                reading.buckets,
                model.buckets
            )
        };
        if self.traced.is_some_and(|traced| made.buckets.contains(&traced)) {
            eprintln!("{}\nadmitted {}: {:#?}", context(), reading.admitted, theirs.said());
        }
        assert_eq!(theirs.said(), ours.said(), "{}", context());
        assert_eq!(theirs.admitted, ours.admitted, "{}", context());
        assert_eq!(reading.admitted, ours.admitted, "what the script said {}", context());
        for (bucket, found) in made.buckets.iter().zip(ours.after) {
            self.states.insert(*bucket, found);
        }
    }
}

/// What the clock says next: the same, the end of some window, a little later, days later.
pub fn next_time(random: &mut Random, now: u64, times: Times) -> u64 {
    const UNITS: [u64; 9] =
        [1, 10, 1_000, 100_000, 300_000, 1_000_000, 10_000_000, 60_000_000, 3_600_000_000];
    let unit = random.of(&UNITS);
    match random.below(10) {
        0 => now,
        1 => now - now % unit + unit,
        2 if times == Times::Both => now - random.below(2 * unit),
        3 if random.once_in(10) => now + 3 * 86_400_000_000,
        _ => now + random.below(unit),
    }
}

fn traced() -> Option<Bucket> {
    let text = std::env::var("RATELIMIT_TRACE").ok()?;
    let (rule, key) = text.split_once(',')?;
    Some((rule.parse().ok()?, key.parse().ok()?))
}

fn told(part: &Part<'_>, bucket: usize) -> String {
    let Part { limit, cost, act, say, over, soft, .. } = part;
    format!(
        "  of bucket {bucket}: {act:?} {cost} {say:?} {over:?}, soft {:?}, {:?} {}/{:?}, burst {}, counts denied {}, \
         overruns {}",
        soft.map(|soft| soft.limit),
        limit.kind(),
        limit.amount(),
        limit.period(),
        limit.capacity(),
        limit.counts_denied(),
        limit.overruns(),
    )
}

impl<'r> Made<'r> {
    fn question<'q>(&'q self, buckets: &'q [BucketKey<'q>]) -> Question<'q>
    where
        'r: 'q,
    {
        let Self { parts, of_part, passes_all, has_open_quota, .. } = self;
        Question {
            buckets,
            parts,
            of_part,
            passes_all: *passes_all,
            has_open_quota: *has_open_quota,
            not_after: None,
        }
    }
}

/// Whether forgetting it changes no decision from then on. A word of a window alone may look used for a while longer.
fn is_idle(limit: &Limit, state: &State, now: Now) -> bool {
    match (state, limit.kind()) {
        (State::Word(word), StateKind::Window | StateKind::Interval) => {
            algorithm::decide(limit, *word, now, 0).0.used() == 0
        }
        (State::Word(word), StateKind::SlidingCounter) => {
            WideState::of_word(limit, *word, now).is_idle(limit, now)
        }
        (State::Word(word), _) => algorithm::is_idle(*word, now),
        (State::Wide(record), _) => match &**record {
            WideRecord::Counter(counter) => counter.is_idle(limit, now),
            WideRecord::Log(log) => sliding_window_log::is_idle(limit, log, now),
        },
    }
}
