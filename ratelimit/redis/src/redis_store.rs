//! The store as it is configured.

use ratelimit_policy::application::{RedisSettings, Topology};
use tokio::runtime::Handle;

use crate::{
    connect::Connections,
    store::{SharedBuckets, StoreOptions},
};

/// Buckets in Redis or Valkey: one server, a cluster, or what sentinels know.
pub type RedisStore = SharedBuckets<Connections>;

/// Calls on their way to one server at a time: while it runs one, the next is read.
const MOST_CALLS: usize = 2;

impl RedisStore {
    /// A store with these settings. It connects in the background, on the runtime, and again whenever it has to.
    #[must_use]
    pub fn connect(settings: &RedisSettings, runtime: &Handle) -> Self {
        let is_cluster = matches!(settings.topology, Topology::Cluster);
        let options = StoreOptions {
            prefix: settings.prefix.clone(),
            shards: is_cluster.then_some(settings.shards),
            timeout: settings.timeout.into(),
            // Several shards lie on a node, and each has calls of its own.
            most_calls: if is_cluster { 1 } else { MOST_CALLS },
        };
        Self::new(Connections::start(settings, runtime), &options, runtime.clone())
    }
}
