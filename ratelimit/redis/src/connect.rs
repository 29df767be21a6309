//! How calls reach a server: one, the one that sentinels name, or those of a cluster.
//!
//! A connection is made again by itself whenever it ends, and each call ends with its deadline. A call is sent once,
//! and again only if a server has said that it did not run it.

mod backoff;
mod breaker;
mod client;
mod cluster;
mod dial;
mod hello;
mod link;
mod reply;
mod sentinel;
mod slots;

use std::{sync::Arc, time::Duration};

use ratelimit_limiter::store::remote::{Breaker, RemoteHealth};
use ratelimit_policy::application::{RedisAddress, RedisSettings, Topology};
use redis::{Cmd, Value};
use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{Instant, sleep},
};

use self::{
    backoff::jittered,
    cluster::Cluster,
    dial::Dialer,
    link::{Link, LinkCommand},
    reply::CallFate,
    sentinel::Sentinels,
    slots::slot_of,
};
pub use self::{
    client::ClientError,
    dial::DialError,
    hello::{Hello, Role, ServerMode},
    link::MOST_IN_FLIGHT,
};
pub(crate) use self::{
    dial::{Dialled, GREETING, connect},
    reply::slot_is_elsewhere,
};
use crate::{
    probe::probe,
    transport::{Call, Failure, Transport},
};

/// How long after a store was not there it is looked at once more, at first and at last.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LAST_LOOK: Duration = Duration::from_secs(10);

/// Connections to a store. They end with their handle.
#[derive(Debug)]
pub struct Connections {
    name: String,
    way: ServerRoute,
    advice: JoinHandle<()>,
}

#[derive(Debug)]
enum ServerRoute {
    One(Link),
    Cluster(Cluster),
}

impl Connections {
    /// Begins to connect, on this runtime, and goes on trying as long as it lives. Nothing that can go wrong is final:
    /// files are read for each connection.
    #[must_use]
    pub fn start(settings: &RedisSettings, runtime: &Handle) -> Self {
        let settings = Arc::new(settings.clone());
        let shown: Vec<String> = settings.addresses.iter().map(RedisAddress::to_string).collect();
        let name = shown.join(", ");
        let way = match &settings.topology {
            Topology::Cluster => ServerRoute::Cluster(Cluster::start(runtime, &settings)),
            Topology::Sentinel(master) => {
                let sentinels = Sentinels::new(Arc::clone(&settings), master);
                let name = format!("{master} of sentinels {name}");
                ServerRoute::One(Link::start(runtime, name, Dialer::Sentinels(sentinels)))
            }
            Topology::Single => {
                let dialer = Dialer::Master(Arc::clone(&settings));
                ServerRoute::One(Link::start(runtime, name.clone(), dialer))
            }
        };
        let advice = runtime.spawn(advise(settings));
        Self { name, way, advice }
    }

    /// How it is.
    #[must_use]
    pub fn health(&self) -> RemoteHealth {
        RemoteHealth { name: self.name.clone(), breaker: self.breaker() }
    }

    fn breaker(&self) -> Breaker {
        match &self.way {
            ServerRoute::One(link) => link.breaker().state(),
            ServerRoute::Cluster(cluster) => cluster.breaker(),
        }
    }

    async fn send(&self, slot: Option<u16>, command: Cmd, deadline: Instant) -> Result<Value, CallFate> {
        match &self.way {
            ServerRoute::One(link) => link.send(LinkCommand::One(command), deadline).await,
            ServerRoute::Cluster(cluster) => cluster.send(slot.unwrap_or(0), &command, deadline).await,
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.advice.abort();
    }
}

/// Says in the log, once the store is there, what people should know of before they rely on it.
async fn advise(settings: Arc<RedisSettings>) {
    let mut wait = FIRST_LOOK;
    let found = loop {
        match probe(&settings).await {
            Ok(found) => break found,
            Err(_) => sleep(jittered(wait)).await,
        }
        wait = (wait * 2).min(LAST_LOOK);
    };
    found.errors().iter().for_each(|error| tracing::error!("{error}"));
    found.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
}

/// The addresses of all masters of a store.
pub(crate) async fn masters(settings: &Arc<RedisSettings>) -> Result<Vec<RedisAddress>, DialError> {
    match &settings.topology {
        Topology::Single => Ok(settings.addresses.iter().take(1).cloned().collect()),
        Topology::Sentinel(name) => Ok(vec![Sentinels::new(Arc::clone(settings), name).master().await?]),
        Topology::Cluster => cluster::masters(settings).await,
    }
}

impl Transport for Connections {
    async fn call(&self, call: Call) -> Result<Value, Failure> {
        let slot = call.keys.first().map(|key| slot_of(key));
        let by_hash = command("EVALSHA", call.script.sha1.as_bytes(), &call);
        match self.send(slot, by_hash, call.deadline).await {
            // The server keeps it from now on.
            Err(CallFate::NoScript) => {
                let by_text = command("EVAL", call.script.text.as_bytes(), &call);
                self.send(slot, by_text, call.deadline).await
            }
            answer => answer,
        }
        .map_err(CallFate::into_failure)
    }

    fn health(&self) -> RemoteHealth {
        Self::health(self)
    }
}

fn command(name: &str, script: &[u8], call: &Call) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(call.keys.len());
    for text in call.keys.iter().chain(&call.args) {
        command.arg(text.as_slice());
    }
    command
}
