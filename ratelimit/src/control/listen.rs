//! Listening to a daemon's events.

use std::{ops::ControlFlow, path::Path};

use http_body_util::BodyExt as _;
use hyper::Request;

use super::{ControlError, broken, send};
use crate::policy::InstanceName;

/// The longest line that is listened to.
const LONGEST_LINE: usize = 1 << 16;

/// Calls `each` with each event of the daemon at `path`, which serves `instance`, as a line of JSON, until that has
/// enough or the daemon ends.
///
/// # Errors
/// Nobody answers, or no events.
pub async fn listen<T>(
    path: &Path,
    instance: &InstanceName,
    mut each: impl FnMut(&[u8]) -> ControlFlow<T>,
) -> Result<Option<T>, ControlError> {
    let request = Request::get(format!("/v1/instances/{instance}/events"));
    let answer = send(path, request, String::new()).await?;
    let (mut body, mut rest) = (answer.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        // It breaks off when the daemon is killed.
        let Ok(frame) = frame else { break };
        rest.extend(frame.data_ref().into_iter().flatten());
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            if let ControlFlow::Break(enough) = each(&rest[..end]) {
                return Ok(Some(enough));
            }
            rest.drain(..=end);
        }
        if rest.len() > LONGEST_LINE {
            return Err(broken(&"an event is longer than any can be"));
        }
    }
    Ok(None)
}
