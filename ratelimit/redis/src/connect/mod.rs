//! How calls reach a server: one, the one that sentinels name, or those of a cluster.
//!
//! A connection is made again by itself whenever it ends, and each call ends with its deadline. A call is sent once, and again
//! only if a server has said that it did not run it.

mod backoff;
mod breaker;
mod cluster;
mod dial;
mod hello;
mod link;
mod reply;
mod sentinel;
mod settings;
mod slots;

use std::sync::Arc;

use ratelimit_limiter::store::remote::{Breaker, RemoteHealth};
use redis::{Cmd, Value};
use tokio::{runtime::Handle, time::Instant};

use self::{
    cluster::Cluster,
    dial::Dialer,
    link::{Link, Request},
    reply::Refused,
    sentinel::Sentinels,
    slots::slot_of,
};
pub use self::{
    dial::DialError,
    hello::{Hello, Mode, Role},
    link::MOST_IN_FLIGHT,
    settings::{Credentials, Settings, SettingsError, TlsFiles, Topology},
};
use crate::transport::{Call, Failure, Transport};

/// Connections to a store. They end with their handle.
#[derive(Debug)]
pub struct Connections {
    name: String,
    way: Way,
}

#[derive(Debug)]
enum Way {
    One(Link),
    Cluster(Cluster),
}

impl Connections {
    /// Begins to connect, on this runtime, and never ends to try.
    ///
    /// # Errors
    /// The addresses are none. Everything else can change while the store is in use.
    pub fn start(settings: Settings, runtime: &Handle) -> Result<Self, SettingsError> {
        let settings = Arc::new(settings);
        let addresses = settings.addresses()?;
        let shown: Vec<String> = addresses.iter().map(|address| address.addr().to_string()).collect();
        let name = shown.join(", ");
        let link = |name: String, dialer| Link::start(runtime, name, dialer);
        let way = match &settings.topology {
            Topology::Cluster => Way::Cluster(Cluster::start(runtime, &settings)?),
            Topology::Sentinel(master) => {
                let sentinels = Sentinels::new(Arc::clone(&settings), master)?;
                Way::One(link(format!("{master} of sentinels {name}"), Dialer::Sentinels(sentinels)))
            }
            Topology::Single => {
                let first = addresses.into_iter().next().ok_or(SettingsError::NoUrl)?;
                Way::One(link(name.clone(), Dialer::Master(Arc::clone(&settings), first)))
            }
        };
        Ok(Self { name: format!("redis {name}"), way })
    }

    /// How it is.
    #[must_use]
    pub fn health(&self) -> RemoteHealth {
        RemoteHealth { name: self.name.clone(), breaker: self.breaker() }
    }

    fn breaker(&self) -> Breaker {
        match &self.way {
            Way::One(link) => link.breaker().state(),
            Way::Cluster(cluster) => cluster.breaker(),
        }
    }

    async fn send(&self, slot: Option<u16>, command: &Cmd, deadline: Instant) -> Result<Value, Refused> {
        match &self.way {
            Way::One(link) => link.send(Request::One(command.clone()), deadline).await,
            Way::Cluster(cluster) => cluster.send(slot.unwrap_or(0), command, deadline).await,
        }
    }
}

impl Transport for Connections {
    async fn call(&self, call: Call) -> Result<Value, Failure> {
        let slot = call.keys.first().map(|key| slot_of(key));
        let by_hash = command("EVALSHA", call.script.sha1.as_bytes(), &call);
        match self.send(slot, &by_hash, call.deadline).await {
            // The server keeps it from now on.
            Err(Refused::NoScript) => {
                let by_text = command("EVAL", call.script.text.as_bytes(), &call);
                self.send(slot, &by_text, call.deadline).await
            }
            answer => answer,
        }
        .map_err(Refused::into_failure)
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
