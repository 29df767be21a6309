//! Requests of one shard on their way: those that wait go together, in the order in which they came, in calls of which
//! few are on their way at a time.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redis::Value;
use tokio::{join, runtime::Handle, sync::oneshot, task::yield_now, time::sleep};

use crate::{
    call::{
        batch::{CallArguments, MOST_KEYS, MOST_REQUESTS, arguments, keys},
        number::Micros,
        reading::{Reply, Said, StateTexts},
        request::ShardRequest,
    },
    clock::ServerClock,
    script,
    transport::{Call, Failure, FailureKind, Transport},
};

/// Requests that may wait.
const MOST_WAITING: usize = 16_384;

/// So few are not worth two calls.
const MOST_UNSHARED: usize = 16;

/// Charges that nobody waits for.
const MOST_LATER: usize = 4_096;

/// How often a request is sent that the script would not judge: its clock was another one, or its windows were.
const MOST_TRIES: u8 = 4;

/// How long after a request was not found in one place it is sent again.
const PAUSE: Duration = Duration::from_millis(2);

/// What became of a request.
pub(crate) type QueueResult = Result<DecidedRequest, Trouble>;

/// A request that was decided.
#[derive(Debug)]
pub(crate) struct DecidedRequest {
    pub(crate) now: Micros,
    pub(crate) admitted: bool,
    pub(crate) states: StateTexts,
    pub(crate) request: Box<ShardRequest>,
}

/// A call that has ended.
#[derive(Debug)]
struct Called {
    batch: Vec<Waiter>,
    reply: Result<Reply, Trouble>,
}

/// Why a request was not decided.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The call failed.
    Failed(FailureKind),
    /// Its time is over, and it was not applied.
    Late,
    /// Too many wait.
    Full,
    /// Something else is kept under this key.
    Foreign(Vec<u8>),
    /// The server's reply is none of the script's.
    Reply,
}

/// A shard's requests.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    shard: u16,
    most_calls: usize,
    transport: Arc<T>,
    runtime: Handle,
    pub(crate) clock: ServerClock,
    line: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    waiting: VecDeque<Waiter>,
    later: VecDeque<Waiter>,
    /// Calls on their way.
    calls: usize,
    /// Requests in them.
    on_way: usize,
}

#[derive(Debug)]
struct Waiter {
    /// It is moved often, and large.
    request: Box<ShardRequest>,
    deadline: Instant,
    /// The time from which on it is void, if the caller says it.
    not_after: Option<Micros>,
    tries: u8,
    /// Whether it goes in a call of its own, since its keys and those of others were not in one place.
    is_alone: bool,
    /// `None` if nobody waits.
    answer: Option<oneshot::Sender<QueueResult>>,
}

impl<T: Transport> Queue<T> {
    pub(crate) fn new(shard: u16, most_calls: usize, transport: Arc<T>, runtime: Handle) -> Arc<Self> {
        let (clock, line) = (ServerClock::new(), Mutex::default());
        Arc::new(Self { shard, most_calls, transport, runtime, clock, line })
    }

    /// Puts a request in line. It is answered, unless the runtime is gone.
    pub(crate) fn ask(
        self: &Arc<Self>,
        request: ShardRequest,
        deadline: Instant,
        not_after: Option<Micros>,
    ) -> oneshot::Receiver<QueueResult> {
        let (sender, receiver) = oneshot::channel();
        let request = Box::new(request);
        let waiting =
            Waiter { request, deadline, not_after, tries: 0, is_alone: false, answer: Some(sender) };
        let mut line = self.line();
        if line.waiting.len() >= MOST_WAITING {
            drop(line);
            waiting.end(Err(Trouble::Full));
            return receiver;
        }
        line.waiting.push_back(waiting);
        self.start(line);
        receiver
    }

    /// Puts a request in line that nobody waits for, before others like it.
    pub(crate) fn tell(self: &Arc<Self>, request: ShardRequest, deadline: Instant) {
        let waiting = Waiter::unanswered(request, deadline);
        let mut line = self.line();
        if line.waiting.len() < MOST_WAITING {
            line.waiting.push_back(waiting);
            self.start(line);
        }
    }

    /// Puts a request in line that nobody waits for; it is dropped if there are too many.
    pub(crate) fn charge_later(self: &Arc<Self>, request: ShardRequest, deadline: Instant) {
        let waiting = Waiter::unanswered(request, deadline);
        let mut line = self.line();
        if line.later.len() < MOST_LATER {
            line.later.push_back(waiting);
            self.start(line);
        }
    }

    /// Begins a call unless enough are on their way: it takes what waits when it is made.
    fn start(self: &Arc<Self>, mut line: MutexGuard<'_, Waiters>) {
        if line.calls >= self.most_calls {
            return;
        }
        line.calls += 1;
        drop(line);
        let queue = Arc::clone(self);
        self.runtime.spawn(async move { queue.run().await });
    }

    /// Makes calls as long as requests wait.
    async fn run(self: Arc<Self>) {
        let mut called = None;
        loop {
            // A call that is full already goes out before the answers to the last one are handed out. Else whoever is
            // answered, or came together with others, asks first, so that they go together.
            if !self.line().is_full(self.most_calls) {
                self.hand_out(called.take());
                yield_now().await;
            }
            let batch = {
                let mut line = self.line();
                let batch = line.batch(self.most_calls);
                if batch.is_empty() && called.is_none() {
                    line.calls -= 1;
                    return;
                }
                line.on_way += batch.len();
                batch
            };
            let before = called.take();
            if batch.is_empty() {
                self.hand_out(before);
                continue;
            }
            let count = batch.len();
            let (now_called, ()) = join!(self.call(batch), async { self.hand_out(before) });
            self.line().on_way -= count;
            called = Some(now_called);
        }
    }

    async fn call(&self, batch: Vec<Waiter>) -> Called {
        let reply = match self.learn_time(&batch).await {
            Ok(()) => self.send(&batch).await,
            Err(trouble) => Err(trouble),
        };
        if batch.len() == 1 && matches!(reply, Err(Trouble::Failed(FailureKind::Moving))) {
            sleep(PAUSE).await;
        }
        Called { batch, reply }
    }

    /// Asks the server what time it is before anything is dated by its clock for the first time: by another clock,
    /// what a server that stands still is sent might not be void yet when it goes on.
    async fn learn_time(&self, batch: &[Waiter]) -> Result<(), Trouble> {
        let Some(first) = batch.first().filter(|_| !self.clock.is_known()) else { return Ok(()) };
        // The key says which server it is.
        let key = first.request.buckets.first().map(|bucket| bucket.key.clone());
        let nothing = CallArguments {
            keys: key.into_iter().collect(),
            ..arguments([].into_iter(), self.clock.times())
        };
        let value = self.run_script(nothing, latest(batch)).await?;
        let reply = Reply::of(&value, [].into_iter()).ok_or(Trouble::Reply)?;
        self.clock.heard(reply.now);
        Ok(())
    }

    async fn send(&self, batch: &[Waiter]) -> Result<Reply, Trouble> {
        let void = |waiting: &Waiter| {
            waiting.not_after.unwrap_or_else(|| self.clock.at(waiting.deadline)).max(Micros(1))
        };
        let requests = batch.iter().map(|waiting| (&*waiting.request, void(waiting)));
        let value = self.run_script(arguments(requests, self.clock.times()), latest(batch)).await?;
        let counts = batch.iter().map(|waiting| waiting.request.buckets.len());
        let reply = Reply::of(&value, counts).ok_or(Trouble::Reply)?;
        let is_wrong = |said: &Said| matches!(said, Said::Late | Said::OtherWindow);
        if reply.said.iter().any(is_wrong) {
            self.clock.set(reply.now);
        } else {
            self.clock.heard(reply.now);
        }
        Ok(reply)
    }

    async fn run_script(&self, arguments: CallArguments, deadline: Instant) -> Result<Value, Trouble> {
        let CallArguments { keys, numbers } = arguments;
        let (script, shard, args) = (&*script::DECIDE, self.shard, vec![numbers]);
        let call = Call { script, shard, keys, args, deadline: deadline.into() };
        self.transport.call(call).await.map_err(|Failure { kind, .. }| Trouble::Failed(kind))
    }

    /// Answers what a call was about.
    fn hand_out(&self, called: Option<Called>) {
        match called {
            Some(Called { batch, reply: Ok(reply) }) => self.answer(batch, reply),
            Some(Called { batch, reply: Err(Trouble::Failed(FailureKind::Moving)) }) => self.ask_apart(batch),
            Some(Called { batch, reply: Err(trouble) }) => end_all(batch, &trouble),
            None => {}
        }
    }

    fn answer(&self, batch: Vec<Waiter>, reply: Reply) {
        let has_foreign = reply.said.iter().any(|said| matches!(said, Said::Foreign(_)));
        let keys = if has_foreign { keys(batch.iter().map(|waiting| &*waiting.request)) } else { Vec::new() };
        let mut again = Vec::new();
        for (mut waiting, said) in batch.into_iter().zip(reply.said) {
            match said {
                Said::Decided { admitted, states } => waiting.decided(reply.now, admitted, states),
                Said::Foreign(key) => {
                    let key = key.checked_sub(1).and_then(|key| keys.get(key)).cloned().unwrap_or_default();
                    waiting.end(Err(Trouble::Foreign(key)));
                }
                Said::Late | Said::OtherWindow if waiting.may_try_again() => {
                    waiting.tries += 1;
                    again.push(waiting);
                }
                Said::Late | Said::OtherWindow => waiting.end(Err(Trouble::Late)),
            }
        }
        self.line().put_first(again);
    }

    /// Has each of these go alone, since they were not found together; one that was alone goes behind the others.
    fn ask_apart(&self, mut batch: Vec<Waiter>) {
        batch.iter_mut().for_each(|waiting| waiting.is_alone = true);
        match <[Waiter; 1]>::try_from(batch) {
            Ok([waiting]) => self.line().waiting.push_back(waiting),
            Err(batch) => self.line().put_first(batch),
        }
    }

    fn line(&self) -> MutexGuard<'_, Waiters> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiters {
    /// How many requests are worth a call: their share of all that is to be answered, so that calls are about as large,
    /// and one waits for its turn while another runs.
    fn share(&self, calls: usize) -> usize {
        let all = self.waiting.len() + self.on_way;
        all.div_ceil(calls).clamp(MOST_UNSHARED, MOST_REQUESTS)
    }

    /// Puts requests in front, in their order.
    fn put_first(&mut self, requests: Vec<Waiter>) {
        requests.into_iter().rev().for_each(|waiting| self.waiting.push_front(waiting));
    }

    /// Whether so many wait.
    fn is_full(&self, calls: usize) -> bool {
        self.waiting.len() >= self.share(calls)
    }

    /// The requests of the next call: those that came first, and if there is room then, charges that nobody waits for.
    fn batch(&mut self, calls: usize) -> Vec<Waiter> {
        let share = self.share(calls);
        let mut batch = NextCall { requests: Vec::new(), keys: 0 };
        let now = Instant::now();
        for (line, most) in [(&mut self.waiting, share), (&mut self.later, MOST_REQUESTS)] {
            while let Some(waiting) = line.pop_front() {
                if !waiting.is_waited_for(now) {
                    waiting.end(Err(Trouble::Late));
                } else if let Err(waiting) = batch.add(waiting, most) {
                    line.push_front(waiting);
                    return batch.requests;
                }
            }
        }
        batch.requests
    }
}

/// Until when somebody waits for one of them.
fn latest(batch: &[Waiter]) -> Instant {
    batch.iter().map(|waiting| waiting.deadline).max().unwrap_or_else(Instant::now)
}

struct NextCall {
    requests: Vec<Waiter>,
    /// How many keys they have, counted with each request.
    keys: usize,
}

impl NextCall {
    /// Adds a request to at most so many, or gives it back if there is no room. One alone finds room whatever it has.
    fn add(&mut self, waiting: Waiter, most: usize) -> Result<(), Waiter> {
        let keys = self.keys + waiting.request.buckets.len();
        let is_apart = |first: &Waiter| first.is_alone || waiting.is_alone;
        if self.requests.first().is_some_and(is_apart)
            || !self.requests.is_empty() && (self.requests.len() >= most || keys > MOST_KEYS)
        {
            return Err(waiting);
        }
        self.keys = keys;
        self.requests.push(waiting);
        Ok(())
    }
}

impl Waiter {
    /// One that nobody waits for.
    fn unanswered(request: ShardRequest, deadline: Instant) -> Self {
        let request = Box::new(request);
        Self { request, deadline, not_after: None, tries: 0, is_alone: false, answer: None }
    }

    fn is_waited_for(&self, now: Instant) -> bool {
        now < self.deadline && self.answer.as_ref().is_none_or(|answer| !answer.is_closed())
    }

    fn may_try_again(&self) -> bool {
        // What the caller says is final.
        self.tries < MOST_TRIES && self.not_after.is_none() && self.is_waited_for(Instant::now())
    }

    fn decided(self, now: Micros, admitted: bool, states: StateTexts) {
        if let Some(answer) = self.answer {
            let _ = answer.send(Ok(DecidedRequest { now, admitted, states, request: self.request }));
        }
    }

    fn end(self, result: QueueResult) {
        if let Some(answer) = self.answer {
            let _ = answer.send(result);
        }
    }
}

fn end_all(batch: Vec<Waiter>, trouble: &Trouble) {
    for waiting in batch {
        waiting.end(Err(trouble.clone()));
    }
}

#[cfg(test)]
mod tests;
