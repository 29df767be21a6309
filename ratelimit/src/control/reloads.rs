//! What came of the last reload, for those who ask whether the file is in force as it is.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use hyper::Request;
use serde::{Deserialize, Serialize};

use super::{ControlError, PATIENCE, broken, exchange, route};
use crate::policy::InstanceName;

/// A reload, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastReload {
    /// Who or what asked for it.
    pub reason: String,
    /// When, in seconds since the Unix epoch.
    pub at: u64,
    /// Why what was in force before stays; `None` if the file is in force.
    pub error: Option<String>,
    /// The keys that have changed in the file, but count only when the daemon starts again.
    pub needs_restart: Vec<String>,
}

impl LastReload {
    /// Whether all of the file was put in force.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.error.is_none() && self.needs_restart.is_empty()
    }
}

/// When changes of these keys take effect, which a reload can't put in force. The maps of an instance keep their sizes.
#[must_use]
pub fn when_in_effect<K: AsRef<str>>(keys: &[K]) -> &'static str {
    if keys.iter().any(|key| key.as_ref() == "network.table_size") {
        "after `ratelimit detach`, which ends buckets, counters and bans, and a new start of the daemon"
    } else {
        "when the daemon starts again, for instance by `systemctl restart ratelimit`"
    }
}

/// The last reload of a daemon, if there has been one.
#[derive(Clone, Debug, Default)]
pub struct ReloadLog(Arc<Mutex<Option<LastReload>>>);

impl ReloadLog {
    /// Notes one.
    pub fn note(&self, reload: LastReload) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reload);
    }

    /// The last one.
    #[must_use]
    pub fn last(&self) -> Option<LastReload> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What came of the last reload of the daemon at `path`, which serves `instance`; `None` if there has been none.
///
/// # Errors
/// Nobody answers, or what is no such answer.
pub fn last_reload(path: &Path, instance: &InstanceName) -> Result<Option<LastReload>, ControlError> {
    let answer = exchange(path, Request::get(route(instance, "reload")), String::new(), PATIENCE)?;
    serde_json::from_value(answer).map_err(|error| broken(&error))
}
