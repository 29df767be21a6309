//! Metrics for Prometheus: what the daemon counts itself, and what the XDP program has counted, read when it is asked
//! for.

mod network;
mod server;

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};

use self::network::NetworkMetrics;
pub use self::server::{MetricsError, Server};
use crate::policy::InstanceName;
pub use crate::server::metrics::RequestMetrics;

/// All metrics of a daemon.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    reloads: Reloads,
    limits_packets: bool,
}

/// How reloads ended.
#[derive(Clone, Debug)]
pub struct Reloads {
    /// A new configuration came in force.
    ok: Counter,
    /// It was refused, and the old one stayed.
    failed: Counter,
    /// When the configuration in force came so, in seconds since the Unix epoch.
    last_success: Gauge,
}

impl Metrics {
    /// Those of a daemon that serves `instance`, with or without a network layer.
    #[must_use]
    pub fn new(instance: &InstanceName, limits_packets: bool) -> Self {
        let mut registry = Registry::with_prefix("ratelimit");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of this daemon", build);
        let reloads = Reloads::register(&mut registry);
        if limits_packets {
            registry.register_collector(Box::new(NetworkMetrics::new(instance.clone())));
        }
        Self { registry, reloads, limits_packets }
    }

    /// For more metrics, whose names get the prefix `ratelimit_`.
    pub const fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// For who reloads.
    #[must_use]
    pub fn reloads(&self) -> Reloads {
        self.reloads.clone()
    }
}

impl Reloads {
    /// A configuration came in force, now.
    pub fn succeeded(&self) {
        self.ok.inc();
        self.started();
    }

    /// The first configuration came in force, now.
    pub fn started(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_success.set(now.as_secs().try_into().unwrap_or(i64::MAX));
    }

    /// A configuration was refused.
    pub fn failed(&self) {
        self.failed.inc();
    }

    fn register(registry: &mut Registry) -> Self {
        let all = Family::<[(&str, &str); 1], Counter>::default();
        let [ok, failed] = ["ok", "failed"].map(|result| all.get_or_create(&[("result", result)]).clone());
        let last_success = Gauge::default();
        registry.register("reloads", "Reloads of the configuration", all);
        registry.register(
            "last_reload_success_timestamp_seconds",
            "When the configuration in force came so",
            last_success.clone(),
        );
        Self { ok, failed, last_success }
    }
}
