//! Where counts are kept that several daemons share, if the policy names a place.

use ratelimit_redis::RedisStore;
use tokio::runtime::Handle;
use tracing::info;

use crate::{application::Service, policy::Application};

/// The service, with its counts there. It answers before the store is reached, as `on_store_error` says.
pub fn share(service: Service, application: &Application, runtime: &Handle) -> Service {
    let Some(settings) = &application.redis else { return service };
    let service = service.sharing(RedisStore::connect(settings, runtime));
    let store = service.shared_store().map(|stats| stats.health.name).unwrap_or_default();
    info!(%store, timeout = ?std::time::Duration::from(settings.timeout), "counts are shared");
    service
}
