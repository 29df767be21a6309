//! One connection to one server, which is made anew whenever it breaks, with few calls in flight.
//!
//! A call ends with its deadline, but keeps its place among those in flight until the server has answered it or the
//! connection is given up. So a server that stands still is sent two calls, not one more with each request.

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use redis::{Cmd, Pipeline, RedisError, RedisResult, Value, aio::MultiplexedConnection};
use tokio::{
    runtime::Handle,
    select,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    backoff::Backoff,
    breaker::CircuitBreaker,
    dial::{Dialer, Dialled},
    reply::{CallFate, too_late},
};
use crate::transport::{Applied, Failure, FailureKind};

/// How many calls a connection has in flight: one that runs, and one that is there when it ends.
pub const MOST_IN_FLIGHT: usize = 2;

/// After this time without an answer a connection is given up.
const DEAD: Duration = Duration::from_secs(1);

/// What is sent: a command, or `ASKING` and a command.
#[derive(Debug, Clone)]
pub(super) enum LinkCommand {
    One(Cmd),
    Asking(Pipeline),
}

/// A server, and the task that keeps a connection to it. It ends with its handle.
#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<LinkState>,
    runtime: Handle,
    keeper: JoinHandle<()>,
}

#[derive(Debug)]
struct LinkState {
    breaker: CircuitBreaker,
    current: watch::Sender<Option<Current>>,
    /// The number of the newest connection that is known to be of no use.
    broken: watch::Sender<u64>,
    in_flight: Arc<Semaphore>,
}

#[derive(Debug, Clone)]
struct Current {
    connection: MultiplexedConnection,
    number: u64,
}

impl Link {
    /// Begins to connect. The name is for people.
    pub(super) fn start(runtime: &Handle, name: String, dialer: Dialer) -> Self {
        let shared = Arc::new(LinkState {
            breaker: CircuitBreaker::new(name),
            current: watch::Sender::new(None),
            broken: watch::Sender::new(0),
            in_flight: Arc::new(Semaphore::new(MOST_IN_FLIGHT)),
        });
        let keeper = runtime.spawn(keep(Arc::clone(&shared), dialer));
        Self { shared, runtime: runtime.clone(), keeper }
    }

    pub(super) fn breaker(&self) -> &CircuitBreaker {
        &self.shared.breaker
    }

    /// Sends it once, and waits for the answer until the deadline.
    pub(super) async fn send(&self, request: LinkCommand, deadline: Instant) -> Result<Value, CallFate> {
        let breaker = &self.shared.breaker;
        // Only while it works is a connection waited for.
        if self.shared.current.borrow().is_none() && !breaker.is_closed() || !breaker.admits() {
            return Err(CallFate::Failed(Failure { applied: Applied::No, kind: FailureKind::Broken }));
        }
        let Ok(ready) = timeout_at(deadline, self.shared.ready()).await else {
            breaker.failed("it did not answer in time");
            return Err(CallFate::Failed(too_late()));
        };
        let (permit, current) = ready.ok_or_else(|| CallFate::Failed(too_late()))?;
        let shared = Arc::clone(&self.shared);
        let exchange = async move {
            let result = shared.exchange(current, request).await;
            drop(permit);
            result
        };
        let exchange = SentCall { future: Some(Box::pin(exchange)), runtime: self.runtime.clone() };
        let result = match timeout_at(deadline, exchange).await {
            Ok(result) => result,
            Err(_) => Err(CallFate::Failed(Failure { applied: Applied::Maybe, kind: FailureKind::TimedOut })),
        };
        // An answer that comes too late is none, or a slow server would be asked for ever.
        match &result {
            Err(refused) if let Some(why) = refused.is_the_servers() => breaker.failed(&why),
            Ok(_) | Err(_) => breaker.succeeded(),
        }
        result
    }
}

type CallFuture = Pin<Box<dyn Future<Output = Result<Value, CallFate>> + Send>>;

/// Something that was sent. If nobody waits for its answer any more, it goes on without them.
struct SentCall {
    future: Option<CallFuture>,
    runtime: Handle,
}

impl Future for SentCall {
    type Output = Result<Value, CallFate>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let polled = future.as_mut().poll(context);
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl Drop for SentCall {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.runtime.spawn(future);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl LinkState {
    /// Waits for a connection with room. `None` if there will be none.
    async fn ready(&self) -> Option<(OwnedSemaphorePermit, Current)> {
        let permit = Arc::clone(&self.in_flight).acquire_owned().await.ok()?;
        let mut currents = self.current.subscribe();
        let current = currents.wait_for(Option::is_some).await.ok()?.clone()?;
        Some((permit, current))
    }

    async fn exchange(&self, mut current: Current, request: LinkCommand) -> Result<Value, CallFate> {
        let sent = async {
            match request {
                LinkCommand::One(command) => current.connection.send_packed_command(&command).await,
                LinkCommand::Asking(commands) => {
                    last(current.connection.send_packed_commands(&commands, 1, 1).await?)
                }
            }
        };
        let result = match timeout(DEAD, sent).await {
            Ok(Ok(Value::ServerError(error))) => Err(error.into()),
            Ok(result) => result,
            Err(_) => {
                self.give_up(current.number);
                return Err(CallFate::Failed(Failure {
                    applied: Applied::Maybe,
                    kind: FailureKind::TimedOut,
                }));
            }
        };
        result.map_err(|error| {
            let refused = CallFate::from_error(&error);
            // Who takes no writes was the master, or is not yet: whoever is now is found by connecting again.
            if error.is_unrecoverable_error() || error.is_io_error() || matches!(refused, CallFate::ReadOnly)
            {
                self.give_up(current.number);
            }
            refused
        })
    }

    fn give_up(&self, number: u64) {
        self.broken.send_if_modified(|broken| {
            let is_newer = number > *broken;
            *broken = number.max(*broken);
            is_newer
        });
        self.current.send_if_modified(|current| {
            let is_it = current.as_ref().is_some_and(|current| current.number <= number);
            if is_it {
                *current = None;
            }
            is_it
        });
    }
}

fn last(values: Vec<Value>) -> RedisResult<Value> {
    values
        .into_iter()
        .next_back()
        .ok_or_else(|| RedisError::from((redis::ErrorKind::Parse, "an answer is missing")))
}

/// Connects, waits until the connection is of no use any more, and connects again.
async fn keep(shared: Arc<LinkState>, mut dialer: Dialer) {
    let mut backoff = Backoff::new();
    for number in 1.. {
        let on_drop = {
            let shared = Arc::downgrade(&shared);
            move || {
                if let Some(shared) = shared.upgrade() {
                    shared.give_up(number);
                }
            }
        };
        match dialer.dial(on_drop).await {
            Ok(dialled) => {
                backoff = Backoff::new();
                shared.breaker.connected();
                use_until_broken(&shared, &mut dialer, dialled, number).await;
                shared.give_up(number);
            }
            Err(error) => {
                shared.breaker.failed(&error.to_string());
                sleep(backoff.next()).await;
            }
        }
    }
}

async fn use_until_broken(shared: &LinkState, dialer: &mut Dialer, dialled: Dialled, number: u64) {
    let mut broken = shared.broken.subscribe();
    // A connection may have ended before anybody could see it.
    if *broken.borrow() < number {
        shared.current.send_replace(Some(Current { connection: dialled.connection, number }));
    }
    select! {
        _ = broken.wait_for(|broken| *broken >= number) => {}
        () = dialer.moved(dialled.address.as_ref()) => {}
    }
}

/// For addresses that do not move.
pub(super) async fn never() {
    pending().await
}
