//! Asking a store about limits in few words.

use std::{num::NonZeroU64, time::Duration};

use ratelimit_common::{
    limit::{Algorithm, Limit, LimitSpec, Rate, Refill, StateStorage},
    time::Nanos,
};
use ratelimit_limiter::store::{
    Account, Enrolment, KeyHash, MemoryStore, Store as _,
    remote::{Act, BucketKey, Outcomes, Over, Part, Question, Reading, RemoteError, RemoteStore, Say},
};
use ratelimit_redis::{SharedBuckets, StoreOptions, transport::Transport};
use tokio::runtime::Handle;

/// So long as to be no matter.
pub const LONG: Duration = Duration::from_secs(30);

/// One limit to ask, and whose bucket.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub rule: &'a str,
    pub key: &'a str,
    pub limit: &'a Limit,
    pub cost: u32,
    pub act: Act,
}

/// A request that takes one unit if it is admitted, or in any case if the limit wants that.
pub fn one<'a>(rule: &'a str, key: &'a str, limit: &'a Limit) -> Ask<'a> {
    let act = if limit.always_charges() { Act::Charge } else { Act::ChargeIfAdmitted };
    Ask { rule, key, limit, cost: 1, act }
}

/// So much in so much time.
pub fn limit(algorithm: Algorithm, amount: u64, per: Duration) -> Limit {
    let rate = Rate { amount: NonZeroU64::new(amount).unwrap(), per: Nanos::from(per) };
    LimitSpec::new(algorithm, rate).build(StateStorage::UserSpace).unwrap()
}

/// One limit for each way in which states are kept.
pub fn each_kind(amount: u64, per: Duration) -> Vec<(&'static str, Limit)> {
    use Algorithm::{FixedWindow, SlidingWindowCounter, SlidingWindowLog, TokenBucket};
    let rate = Rate { amount: NonZeroU64::new(amount).unwrap(), per: Nanos::from(per) };
    let interval = LimitSpec { refill: Refill::Interval, ..LimitSpec::new(TokenBucket, rate) };
    vec![
        ("token bucket", limit(TokenBucket, amount, per)),
        ("interval", interval.build(StateStorage::UserSpace).unwrap()),
        ("fixed window", limit(FixedWindow, amount, per)),
        ("sliding counter", limit(SlidingWindowCounter, amount, per)),
        ("log", limit(SlidingWindowLog, amount, per)),
    ]
}

pub fn options(timeout: Duration) -> StoreOptions {
    StoreOptions { prefix: "rl".to_owned(), shards: None, timeout, most_calls: 2 }
}

pub fn store<T: Transport>(transport: T, timeout: Duration) -> SharedBuckets<T> {
    SharedBuckets::new(transport, &options(timeout), Handle::current())
}

/// Has a store decide about a request, and says whether it passes; the limiter agrees with that.
pub async fn decide(store: &impl RemoteStore, asks: &[Ask<'_>]) -> Result<bool, RemoteError> {
    Ok(outcomes(store, asks).await?.0.admitted)
}

/// What the store alone says: of thousands of limits the limiter is slower.
pub async fn admits(store: &impl RemoteStore, asks: &[Ask<'_>]) -> Result<bool, RemoteError> {
    let memory = MemoryStore::new(100).unwrap();
    let (accounts, _) = memory.enroll(&[Enrolment { name: asks[0].rule, limit: asks[0].limit }]);
    let (accounts, hashes) = (vec![accounts[0]; asks.len()], vec![memory.hash(""); asks.len()]);
    with_question(asks, &accounts, &hashes, async |question| Ok(store.decide(*question).await?.admitted))
        .await
}

/// The same with all that was read and follows; what the script said agrees with it.
pub async fn outcomes(
    store: &impl RemoteStore,
    asks: &[Ask<'_>],
) -> Result<(Outcomes, Reading), RemoteError> {
    let memory = MemoryStore::new(100).unwrap();
    let enrolments: Vec<_> = asks.iter().map(|ask| Enrolment { name: ask.rule, limit: ask.limit }).collect();
    let (accounts, _) = memory.enroll(&enrolments);
    let hashes: Vec<_> = asks.iter().map(|ask| memory.hash(ask.key)).collect();
    with_question(asks, &accounts, &hashes, async |question| {
        let reading = store.decide(*question).await?;
        let outcomes = Outcomes::of(question, &reading).unwrap();
        assert_eq!(outcomes.admitted, reading.admitted, "{asks:?}");
        Ok((outcomes, reading))
    })
    .await
}

async fn with_question<R>(
    asks: &[Ask<'_>],
    accounts: &[Account],
    hashes: &[KeyHash],
    ask: impl AsyncFnOnce(&Question<'_>) -> R,
) -> R {
    let entries: Vec<_> = asks.iter().map(|ask| [("key", ask.key)]).collect();
    let bucket = |(ask, entries)| {
        let Ask { rule, limit, .. }: &Ask<'_> = ask;
        let (kind, window) = limit.shape();
        let entries: &[_; 1] = entries;
        BucketKey { domain: "test", account: rule, kind, window, entries }
    };
    let buckets: Vec<BucketKey<'_>> = asks.iter().zip(&entries).map(bucket).collect();
    let mut parts = Vec::new();
    for ((ask, &account), &hash) in asks.iter().zip(accounts).zip(hashes) {
        let Ask { limit, cost, act, .. } = *ask;
        let (say, over) = (Say::Decides, Over::Denied);
        parts.push(Part { account, hash, limit, cost, act, say, over, soft: None });
    }
    let of_part: Vec<usize> = (0..asks.len()).collect();
    ask(&Question {
        buckets: &buckets,
        parts: &parts,
        of_part: &of_part,
        passes_all: false,
        has_open_quota: false,
        not_after: None,
    })
    .await
}
