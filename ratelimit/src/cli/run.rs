//! `ratelimit run`: the daemon, in the foreground.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;

use super::{FAILED, WRONG_USAGE, fail};
use crate::{
    config, daemon,
    dataplane::in_one_line,
    policy::{Interface, InterfaceName, Interfaces, Mode, Policy},
};

/// Puts a configuration in force and keeps it there until SIGTERM, SIGINT or `ratelimit detach`.
#[derive(Debug, Args)]
pub struct Run {
    /// The configuration file.
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// Attach here, instead of where the file says; may be repeated.
    #[arg(long, short, value_name = "NAME")]
    interface: Vec<InterfaceName>,
}

impl Run {
    /// Runs until it is stopped.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let checked = match config::check(&self.config) {
            Ok(checked) => checked,
            Err(errors) => return fail(WRONG_USAGE, &errors),
        };
        for warning in &checked.warnings {
            tracing::warn!("{warning}");
        }
        let mut policy = checked.policy;
        if let Err(error) = replace_interfaces(&mut policy, self.interface) {
            return fail(WRONG_USAGE, &error);
        }
        let Some(network) = policy.network.clone().filter(|network| !network.interfaces.is_empty()) else {
            let hint =
                "no interface to attach to: name one with `--interface`, or under `network.interfaces`";
            return fail(WRONG_USAGE, &format_args!("{}: {hint}", self.config.display()));
        };
        match daemon::run(&policy, &network, &self.config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(FAILED, &in_one_line(error.as_ref())),
        }
    }
}

fn replace_interfaces(policy: &mut Policy, names: Vec<InterfaceName>) -> Result<(), String> {
    let Some(network) = policy.network.as_mut().filter(|_| !names.is_empty()) else { return Ok(()) };
    let mode = |name: &InterfaceName| {
        network
            .interfaces
            .iter()
            .find(|known| known.name == *name)
            .map_or(Mode::default(), |known| known.mode)
    };
    let wanted = names.into_iter().map(|name| Interface { mode: mode(&name), name }).collect();
    network.interfaces = Interfaces::new(wanted).map_err(|error| format!("--interface: {error}"))?;
    Ok(())
}
