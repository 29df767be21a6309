//! `ratelimit run`: the daemon, in the foreground.

use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use crate::{
    config, daemon,
    dataplane::in_one_line,
    policy::{Interface, InterfaceName, Interfaces, Mode, Policy},
    text::Shown,
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
}

impl Run {
    /// Runs until it is stopped.
    ///
    /// # Errors
    /// The configuration is wrong, or can't be put in force.
    pub fn run(self) -> Result<(), Failure> {
        let checked = config::check(&self.config)?;
        for warning in &checked.warnings {
            tracing::warn!("{}", Shown(warning));
        }
        let mut policy = checked.policy;
        replace_interfaces(&mut policy, self.interface).map_err(Failure::wrong_usage)?;
        let Some(network) = policy.network.clone().filter(|network| !network.interfaces.is_empty()) else {
            let hint =
                "no interface to attach to: name one with `--interface`, or under `network.interfaces`";
            return Err(Failure::wrong_usage(format_args!("{}: {hint}", self.config.display())));
        };
        daemon::run(&policy, &network, &self.config)
            .map_err(|error| Failure::failed(in_one_line(error.as_ref())))
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
