//! Which instance the daemon at a socket serves.

use std::path::Path;

use hyper::Request;

use super::{ControlError, PATIENCE, broken, read, send};
use crate::policy::InstanceName;

/// Asks the daemon at `path` which instance it serves.
///
/// # Errors
/// Nobody answers, or something else does.
pub fn served(path: &Path) -> Result<InstanceName, ControlError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| broken(&error))?;
    let answer = runtime.block_on(async {
        let answer = async { read(send(path, Request::get("/v1/instance"), String::new()).await?).await };
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        answer.unwrap_or_else(|_| Err(ControlError::Stuck(path.to_owned())))
    })?;
    let name = answer["instance"].as_str().and_then(|name| name.parse().ok());
    name.ok_or_else(|| broken(&format_args!("{}: no daemon of ratelimit answers there", path.display())))
}

/// What is said to who means another instance than the one that a socket is of.
#[must_use]
pub fn of_another(path: &Path, served: &InstanceName) -> String {
    format!(
        "{}: this is the socket of instance `{served}`: name it with `--instance {served}`",
        path.display()
    )
}
