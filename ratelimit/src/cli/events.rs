//! `ratelimit events`: packets that are dropped, while they are.

use std::{
    fmt::Display,
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use clap::Args;
use serde::Deserialize;

use super::{
    InstanceArgs,
    client::{NO_PERMISSION, no_place},
    failure::CommandFailure,
    output::{self, Output, complain},
};
use crate::{
    control,
    dataplane::{self, ADVICE, Error},
    events::Description,
    policy::{InstanceName, RuleName},
    text::Shown,
};

/// Shows packets that are dropped, or that an observing rule would drop, one on each line, until it is interrupted: at
/// most 100 a second for each processor, and a sample if there are more. They come through the daemon.
#[derive(Debug, Args)]
pub struct Events {
    #[command(flatten)]
    pub instance: InstanceArgs,
    /// Stop after N packets.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Only packets that this rule denied first.
    #[arg(long, value_name = "NAME")]
    rule: Option<RuleName>,
}

/// What the daemon sends.
#[derive(Deserialize)]
#[serde(untagged)]
enum EventLine {
    Event(Box<Description>),
    /// This client was too slow for so many.
    Missed {
        missed: u64,
    },
}

/// Why nothing more is shown.
enum End {
    Enough,
    Unwritable(io::Error),
}

impl Events {
    /// Shows them.
    ///
    /// # Errors
    /// There is no daemon to ask, or no such rule.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let instance = &self.instance.instance;
        if let Some(rule) = &self.rule {
            check_rule(instance, rule)?;
        }
        let path = self.path(instance)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(CommandFailure::failed)?;
        runtime.block_on(async {
            tokio::select! {
                done = self.show(&path, instance, output) => done,
                _ = tokio::signal::ctrl_c() => Ok(()),
            }
        })
    }

    async fn show(&self, path: &Path, instance: &InstanceName, output: Output) -> Result<(), CommandFailure> {
        let mut left = self.count;
        let ended = control::listen(path, instance, |line| self.show_line(line, output, &mut left)).await;
        match ended.map_err(CommandFailure::failed)? {
            Some(End::Enough) => Ok(()),
            Some(End::Unwritable(error)) => {
                Err(CommandFailure::failed(format_args!("writing an event: {error}")))
            }
            None => Err(CommandFailure::failed("the daemon has ended")),
        }
    }

    fn show_line(&self, line: &[u8], output: Output, left: &mut Option<u64>) -> ControlFlow<End> {
        let written = match serde_json::from_slice(line) {
            Ok(EventLine::Event(event)) if self.is_wanted(&event) => {
                *left = left.map(|left| left - 1);
                match output {
                    Output::Text => write(&Shown(&event)),
                    Output::Json => write(&Shown(String::from_utf8_lossy(line))),
                }
            }
            Ok(EventLine::Missed { missed }) => {
                complain(&format_args!("ratelimit: too slow for {missed} events, which are not shown"));
                Ok(true)
            }
            // Another rule's; or a newer daemon's, of a kind that is not known here.
            Ok(EventLine::Event(_)) | Err(_) => Ok(true),
        };
        match written {
            Err(error) => ControlFlow::Break(End::Unwritable(error)),
            Ok(true) if *left != Some(0) => ControlFlow::Continue(()),
            Ok(_) => ControlFlow::Break(End::Enough),
        }
    }

    fn is_wanted(&self, event: &Description) -> bool {
        self.rule.as_ref().is_none_or(|rule| event.rule.as_deref() == Some(rule.as_str()))
    }

    /// Where the daemon is asked.
    fn path(&self, instance: &InstanceName) -> Result<PathBuf, CommandFailure> {
        if let Some(path) = &self.instance.control {
            return Ok(path.clone());
        }
        let noted = dataplane::daemon(instance).map_err(|error| match error {
            Error::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                CommandFailure::failed(NO_PERMISSION)
            }
            error => CommandFailure::failed(error),
        })?;
        match noted {
            (Some(daemon), true) => Ok(daemon.control),
            (_, true) => control::default_path(instance).map_err(|error| no_place(&error)),
            // Its daemon, if there is one, has no packets to tell of.
            (_, false) if dataplane::instances().is_ok_and(|all| !all.contains(&instance.to_string())) => {
                Err(CommandFailure::failed(Error::NotAttached { instance: instance.to_string() }))
            }
            (_, false) => Err(CommandFailure::failed(format_args!(
                "no daemon serves instance `{instance}`, and events come through it: {ADVICE}"
            ))),
        }
    }
}

fn write(line: &dyn Display) -> io::Result<bool> {
    output::write_on(&format_args!("{line}\n"))
}

/// Whether there is such a rule: one would wait long for events of another.
fn check_rule(instance: &InstanceName, rule: &RuleName) -> Result<(), CommandFailure> {
    let status = dataplane::status(instance).map_err(CommandFailure::failed)?;
    let names: Vec<&str> = status.rules.iter().map(|rule| rule.rule.name.as_str()).collect();
    if names.contains(&rule.as_str()) {
        return Ok(());
    }
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(CommandFailure::failed(format_args!("no rule `{rule}` is in force; there are: {known}")))
}
