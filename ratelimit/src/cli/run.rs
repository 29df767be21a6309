//! `ratelimit run`: the daemon, in the foreground.

use std::path::PathBuf;

use clap::Args;
use ratelimit_common::time::Nanos;

use super::failure::CommandFailure;
use crate::{
    config::parse_time,
    daemon::{self, ConfigSource, SourceError},
    dataplane::in_one_line,
    policy::InterfaceName,
};

/// Puts a configuration in force and keeps it there until SIGTERM, SIGINT or `ratelimit detach`.
#[derive(Debug, Args)]
pub struct Run {
    /// The configuration file; `-` is the standard input.
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// Attach here, instead of where the file says; may be repeated.
    #[arg(long, short, value_name = "NAME")]
    interface: Vec<InterfaceName>,
    /// Put the rules on trial: unless `ratelimit confirm` comes within this time (such as 60s), everything passes from
    /// then on, even if the daemon is dead.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    revert_after: Option<Nanos>,
}

impl Run {
    /// Runs until it is stopped.
    ///
    /// # Errors
    /// The configuration is wrong, or can't be put in force.
    pub fn run(self) -> Result<(), CommandFailure> {
        let source = ConfigSource { config: self.config, interfaces: self.interface };
        let checked = source.read()?;
        if checked.policy.network.is_none() && (self.revert_after.is_some() || !source.interfaces.is_empty())
        {
            let why = "`--interface` and `--revert-after` are about packets, but the file has no `network`";
            return Err(CommandFailure::wrong_usage(why));
        }
        daemon::run(source, checked, self.revert_after)
            .map_err(|error| CommandFailure::failed(in_one_line(error.as_ref())))
    }
}

impl From<SourceError> for CommandFailure {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Config(errors) => errors.into(),
            other => Self::wrong_usage(other),
        }
    }
}
