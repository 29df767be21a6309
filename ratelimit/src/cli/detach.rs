//! `ratelimit detach`: takes an instance off all interfaces, whether a daemon serves it or not.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use serde_json::json;

use super::{
    InstanceArgs, answer_with,
    failure::CommandFailure,
    output::{Output, complain},
};
use crate::{
    control::{self, ControlError, PATIENCE},
    dataplane::{self, DaemonAddress, Error},
    policy::InstanceName,
};

/// Takes an instance off all interfaces, so that nothing is limited or banned any more, and forgets its buckets,
/// counters and bans. Its daemon, if there is one, stops.
#[derive(Debug, Args)]
pub struct Detach {
    #[command(flatten)]
    pub instance: InstanceArgs,
}

/// How long a daemon may be between having its instance and having its socket, or the other way round.
const BETWEEN: Duration = Duration::from_secs(1);

impl Detach {
    /// Detaches.
    ///
    /// # Errors
    /// The instance is not attached, or can't be detached.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let instance = &self.instance.instance;
        let stuck = self.detach(instance)?;
        if let Some(process) = stuck {
            complain(&format_args!(
                "ratelimit: its daemon, process {process}, did not answer and is still there, without limits: end it with \
                 `kill -9 {process}`"
            ));
        }
        let text = format!("detached instance `{instance}`\n");
        answer_with(output, &text, &json!({"detached": instance.as_str(), "stuck_process": stuck}))
    }

    /// Returns the daemon's process if that did not do its part.
    fn detach(&self, instance: &InstanceName) -> Result<Option<u32>, CommandFailure> {
        // If the notes can't be read, detaching says why.
        let noted = dataplane::daemon(instance).ok().and_then(|(noted, _)| noted);
        let process = noted.as_ref().map(|daemon| daemon.process);
        let path = self.path(instance, noted);
        let deadline = Instant::now() + BETWEEN;
        let mut has_asked = false;
        loop {
            match dataplane::detach(instance) {
                Err(Error::Running { .. }) => {}
                Err(Error::NotAttached { .. }) if has_asked => return Ok(None),
                Err(error) => return stop_without_network(path, instance, error),
                Ok(()) => {
                    let _ = path.map(|path| control::remove_left_over(&path, None));
                    return Ok(None);
                }
            }
            let path = path.as_ref().map_err(CommandFailure::failed)?;
            match control::ask(path, instance, "detach", &json!({}), PATIENCE) {
                Ok(_) => return Ok(None),
                Err(ControlError::Stuck(_)) => return detach_by_force(instance, path, process),
                Err(error) if is_passing(&error) && Instant::now() < deadline => {
                    has_asked |= matches!(error, ControlError::Broken(_));
                    thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(CommandFailure::failed(explain(&error, process))),
            }
        }
    }

    /// Where the daemon is asked.
    fn path(&self, instance: &InstanceName, noted: Option<DaemonAddress>) -> Result<PathBuf, ControlError> {
        let known = self.instance.control.clone().or(noted.map(|daemon| daemon.control));
        known.map_or_else(|| control::default_path(instance), Ok)
    }
}

/// Stops a daemon that limits requests alone, for which no rights are needed; if there is none, nothing can be
/// detached.
fn stop_without_network(
    path: Result<PathBuf, ControlError>,
    instance: &InstanceName,
    reason: Error,
) -> Result<Option<u32>, CommandFailure> {
    match path.map(|path| control::ask(&path, instance, "detach", &json!({}), PATIENCE)) {
        Ok(Ok(_)) => Ok(None),
        Ok(Err(error @ ControlError::Stuck(_))) => Err(CommandFailure::failed(error)),
        _ => Err(CommandFailure::failed(reason)),
    }
}

fn detach_by_force(
    instance: &InstanceName,
    path: &Path,
    process: Option<u32>,
) -> Result<Option<u32>, CommandFailure> {
    dataplane::detach_by_force(instance).map_err(CommandFailure::failed)?;
    control::remove_left_over(path, process);
    Ok(process)
}

/// Whether it may be that the daemon has just begun, or just ended.
const fn is_passing(error: &ControlError) -> bool {
    matches!(error, ControlError::Nobody { .. } | ControlError::Broken(_))
}

fn explain(error: &ControlError, process: Option<u32>) -> String {
    match (error, process) {
        (ControlError::Nobody { .. }, Some(process)) => {
            format!("{error}, or end the daemon with `kill {process}`, which detaches too")
        }
        _ => error.to_string(),
    }
}
