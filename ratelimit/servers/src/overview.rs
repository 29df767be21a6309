//! What the application layer has in force and what it has done, for who asks the daemon: it waits for nobody.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::{
    Servers,
    offenders::Offenders,
    proxy::{Proxy, UpstreamStatus},
    stats::Stats,
};
use crate::application::{Service, ServiceStatus};

/// The application layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerStatus {
    /// The configuration file that is in force.
    pub config: String,
    /// Since when, in seconds since the Unix epoch.
    pub since: u64,
    /// Where questions come in.
    pub listeners: Vec<ListenerStatus>,
    /// The servers behind the proxy.
    #[serde(default)]
    pub upstreams: Vec<UpstreamStatus>,
    /// Connections that are open.
    pub connections: u64,
    /// Connections that were refused because there were too many.
    pub connections_refused: u64,
    /// Requests that were refused before anybody could decide about them.
    pub requests_refused: u64,
    /// Who decides.
    #[serde(flatten)]
    pub service: ServiceStatus,
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerStatus {
    /// What is spoken there: `grpc` or `http`; `proxy` if requests are passed on.
    pub protocol: String,
    /// Its address.
    pub address: String,
    /// Whether over TLS.
    pub tls: bool,
}

/// For who asks.
#[derive(Clone, Debug)]
pub struct Overview {
    config: PathBuf,
    service: Arc<Service>,
    stats: Arc<Stats>,
    listeners: Vec<ListenerStatus>,
    proxy: Arc<Proxy>,
    offenders: Arc<Offenders>,
    since: Since,
}

/// When what is in force came so.
#[derive(Clone, Debug, Default)]
pub struct Since(Arc<AtomicU64>);

impl Since {
    /// It did now.
    pub fn now(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.store(now.as_secs(), Relaxed);
    }
}

impl Overview {
    /// The overview of what is in force by the file `config`.
    pub(super) fn new(config: PathBuf, service: Arc<Service>, servers: &Servers, since: Since) -> Self {
        let (stats, listeners) = (Arc::clone(servers.stats()), servers.listeners().to_vec());
        let (proxy, offenders) = (Arc::clone(servers.proxy()), Arc::clone(servers.offenders()));
        Self { config, service, stats, listeners, proxy, offenders, since }
    }

    /// Who decides.
    #[must_use]
    pub const fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// How it stands, with at most so many rules.
    #[must_use]
    pub fn status(&self, most: usize) -> LayerStatus {
        LayerStatus {
            config: self.config.display().to_string(),
            since: self.since.0.load(Relaxed),
            listeners: self.listeners.clone(),
            upstreams: self.proxy.status(),
            connections: self.stats.open(),
            connections_refused: self.stats.refused(),
            requests_refused: self.stats.refused_requests(),
            service: self.service_status(most),
        }
    }

    /// What the service says of itself, and the bans that its rules have asked for.
    fn service_status(&self, most: usize) -> ServiceStatus {
        let asked = self.offenders.counts().asked_by();
        let mut status = self.service.status(most);
        for rule in &mut status.rules {
            rule.bans_asked = asked.get(&rule.label).copied().unwrap_or_default();
        }
        status
    }
}
