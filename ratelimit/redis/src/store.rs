//! The store: from a question to the calls that it takes, and from their replies to a reading.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ratelimit_common::{
    limit::{Limit, StateKind},
    time::Nanos,
};
use ratelimit_limiter::store::remote::{
    BucketKey, Question, Reading, RemoteError, RemoteHealth, RemoteStore,
};
use redis::Value;
use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
    time::sleep_until,
};

use crate::{
    call::{number::Micros, reading::Epoch, request::ShardRequest},
    keys::{KeyFormat, Secret, StoreKey},
    queue::{Queue, QueueResult, Trouble},
    script,
    secret::{self, KnownSecret},
    several::Several,
    transport::{Call, FailureKind, Transport},
};

/// How long charges that nobody waits for may take to be sent.
const LATER: Duration = Duration::from_secs(1);

/// How buckets are kept in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// What all keys begin with; without braces.
    pub prefix: String,
    /// Over how many hash tags keys are spread; `None` if one server has them all.
    pub shards: Option<u16>,
    /// How long a request waits at most.
    pub timeout: Duration,
    /// How many calls of a shard are on their way at a time.
    pub most_calls: usize,
}

/// Buckets behind a transport.
#[derive(Debug)]
pub struct SharedBuckets<T> {
    keys: KeyFormat,
    timeout: Duration,
    transport: Arc<T>,
    runtime: Handle,
    /// For each shard the requests on their way there.
    queues: Vec<Arc<Queue<T>>>,
    secret: watch::Receiver<KnownSecret>,
    _told: Arc<secret::Told>,
    epoch: Mutex<Option<Epoch>>,
}

impl<T: Transport> SharedBuckets<T> {
    /// A store that makes its calls on a runtime.
    #[must_use]
    pub fn new(transport: T, options: &StoreOptions, runtime: Handle) -> Self {
        let (transport, keys) = (Arc::new(transport), KeyFormat::new(&options.prefix, options.shards));
        let queue =
            |shard| Queue::new(shard, options.most_calls.max(1), Arc::clone(&transport), runtime.clone());
        let queues = (0..keys.shards()).map(queue).collect();
        let (told, secret) = watch::channel(None);
        let told = Arc::new(told);
        let (weak, timeout) = (Arc::downgrade(&transport), options.timeout);
        runtime.spawn(secret::keep(weak, keys.clone(), timeout, Arc::downgrade(&told)));
        Self { keys, timeout, transport, runtime, queues, secret, _told: told, epoch: Mutex::default() }
    }

    /// What reaches the servers.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    async fn secret(&self, deadline: Instant) -> Result<Secret, RemoteError> {
        if let Some(secret) = secret::known(&self.secret.borrow()) {
            return Ok(secret);
        }
        // If it was asked for in vain, the store is asked for nothing else.
        let mut secret = self.secret.clone();
        let told = async { secret.wait_for(Option::is_some).await.ok().and_then(|told| told.clone()) };
        match self.until(deadline, told).await {
            Some(Some(told)) => told.map_err(error),
            _ => Err(RemoteError::TimedOut),
        }
    }

    /// What a future gives, unless that takes until the deadline. It may be polled outside of the runtime.
    pub(crate) async fn until<R>(&self, deadline: Instant, future: impl Future<Output = R>) -> Option<R> {
        let sleep = {
            let _within = self.runtime.enter();
            sleep_until(deadline.into())
        };
        tokio::select! {
            biased;
            given = future => Some(given),
            () = sleep => None,
        }
    }

    /// Puts a request in its shard's line.
    pub(crate) fn ask(
        &self,
        request: ShardRequest,
        deadline: Instant,
        not_after: Option<Micros>,
    ) -> Option<oneshot::Receiver<QueueResult>> {
        let shard = request.buckets.first()?.shard;
        Some(self.queues.get(usize::from(shard))?.ask(request, deadline, not_after))
    }

    /// Puts a request in its shard's line that nobody waits for.
    pub(crate) fn tell(&self, request: ShardRequest) {
        let shard = request.buckets.first().map_or(0, |bucket| bucket.shard);
        if let Some(queue) = self.queues.get(usize::from(shard)) {
            queue.tell(request, Instant::now() + LATER);
        }
    }

    /// The epoch that states are told in.
    pub(crate) fn epoch(&self, now: Micros) -> Epoch {
        let mut epoch = self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
        match *epoch {
            Some(epoch) if epoch.has(now) => epoch,
            _ => *epoch.insert(Epoch::at(now)),
        }
    }

    async fn ask_one(
        &self,
        request: ShardRequest,
        deadline: Instant,
        not_after: Option<Micros>,
    ) -> Result<Reading, RemoteError> {
        let Some(receiver) = self.ask(request, deadline, not_after) else {
            return Err(RemoteError::Unavailable("a request without buckets".to_owned()));
        };
        let decided = match self.until(deadline, receiver).await {
            Some(Ok(answer)) => answer.map_err(error)?,
            Some(Err(_)) => return Err(RemoteError::Unavailable("it is stopping".to_owned())),
            None => return Err(RemoteError::TimedOut),
        };
        let epoch = self.epoch(decided.now);
        let reading = epoch.reading(decided.now, &decided.request, decided.admitted, &decided.states);
        reading.ok_or_else(|| RemoteError::Foreign("a state that can't be read".to_owned()))
    }

    async fn forget(&self, key: StoreKey, deadline: Instant) -> Result<u64, RemoteError> {
        let (script, args) = (&*script::RESET, Vec::new());
        let call = Call { script, shard: key.shard, keys: vec![key.name], args, deadline: deadline.into() };
        match self.transport.call(call).await {
            Ok(Value::Int(count)) => Ok(u64::try_from(count).unwrap_or(0)),
            Ok(_) => Err(error(Trouble::Reply)),
            Err(failure) => Err(error(Trouble::Failed(failure.kind))),
        }
    }
}

impl<T: Transport> RemoteStore for SharedBuckets<T> {
    async fn decide(&self, question: Question<'_>) -> Result<Reading, RemoteError> {
        if let Some(window) = question.parts.iter().find_map(|part| broken_window(part.limit)) {
            let (Nanos(window), whole) = (window, window.0.div_ceil(1_000).saturating_mul(1_000));
            return Err(RemoteError::Unavailable(format!(
                "a window of {window} ns is not whole microseconds, which a shared store counts in: make it {whole} ns"
            )));
        }
        let deadline = Instant::now() + self.timeout;
        let secret = self.secret(deadline).await?;
        let request = ShardRequest::of(&question, &self.keys, &secret);
        if request.lies_in_one_shard() {
            self.ask_one(request, deadline, question.not_after.map(Micros::down)).await
        } else {
            Several { store: self, question: &question, deadline }.decide(&request).await
        }
    }

    fn charge_later(&self, question: Question<'_>) {
        let Some(secret) = secret::known(&self.secret.borrow()) else { return };
        let deadline = Instant::now() + LATER;
        for (shard, part) in ShardRequest::of(&question, &self.keys, &secret).split() {
            if let Some(queue) = self.queues.get(usize::from(shard)) {
                queue.charge_later(part.request, deadline);
            }
        }
    }

    async fn reset(&self, buckets: &[BucketKey<'_>]) -> Result<u64, RemoteError> {
        let deadline = Instant::now() + self.timeout;
        let secret = self.secret(deadline).await?;
        let mut count = 0;
        for bucket in buckets {
            let forgotten = self.forget(self.keys.of(&secret, bucket), deadline);
            count += self.until(deadline, forgotten).await.unwrap_or(Err(RemoteError::TimedOut))?;
        }
        Ok(count)
    }

    fn answers_within(&self) -> Duration {
        self.timeout
    }

    fn health(&self) -> RemoteHealth {
        self.transport.health()
    }
}

/// A limit's window if the script can't tell it. No configuration has one.
fn broken_window(limit: &Limit) -> Option<Nanos> {
    let is_told = match limit.kind() {
        StateKind::ArrivalTime => true,
        StateKind::Interval
        | StateKind::Window
        | StateKind::SlidingCounter
        | StateKind::Log
        | StateKind::WideSlidingCounter => limit.period().0.is_multiple_of(1_000),
    };
    (!is_told).then(|| limit.period())
}

/// What the limiter is told.
pub(crate) fn error(trouble: Trouble) -> RemoteError {
    match trouble {
        Trouble::Failed(FailureKind::Unavailable(why)) => RemoteError::Unavailable(why),
        Trouble::Failed(FailureKind::TimedOut) | Trouble::Late => RemoteError::TimedOut,
        Trouble::Failed(FailureKind::Broken) => {
            RemoteError::Unavailable("it has failed just before".to_owned())
        }
        Trouble::Failed(FailureKind::Moving) => {
            RemoteError::Unavailable("its keys are moving from node to node".to_owned())
        }
        Trouble::Full => RemoteError::Overloaded,
        Trouble::Foreign(key) => RemoteError::Foreign(key.escape_ascii().to_string()),
        Trouble::Reply => RemoteError::Foreign("a reply of another script".to_owned()),
    }
}
