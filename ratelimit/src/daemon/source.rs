//! Where the daemon's policy comes from: a file, and what the command line says instead.

use std::path::{Path, PathBuf};

use crate::{
    config::{self, Checked, ConfigErrors, LastLists},
    policy::{AttachMode, Interface, InterfaceName, Interfaces, Policy, SetError},
};

/// A file that can be read again.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    /// The configuration file.
    pub config: PathBuf,
    /// Attach here, instead of where the file says.
    pub interfaces: Vec<InterfaceName>,
}

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// The command line.
    #[error("--interface: {0}")]
    Interfaces(#[from] SetError),
    /// There is nowhere to attach.
    #[error(
        "{}: no interface to attach to: name one with `--interface`, or under `network.interfaces`",
        .0.display()
    )]
    NoInterface(PathBuf),
}

impl ConfigSource {
    /// Reads the policy.
    ///
    /// # Errors
    /// The file is wrong, or does not say all that is needed.
    pub fn read(&self) -> Result<Checked, SourceError> {
        self.read_after(&LastLists::default())
    }

    fn read_after(&self, last: &LastLists) -> Result<Checked, SourceError> {
        let mut checked = config::check_again(&self.config, last)?;
        self.replace_interfaces(&mut checked.policy)?;
        match &checked.policy.network {
            Some(network) if network.interfaces.is_empty() => {
                Err(SourceError::NoInterface(self.config.clone()))
            }
            _ => Ok(checked),
        }
    }

    /// Reads it once more. Files of prefixes that have become empty keep what they had last.
    ///
    /// # Errors
    /// Why it can't be had again.
    pub fn read_again(&self, last: &LastLists) -> Result<Checked, String> {
        if self.is_stream() {
            return Err("the configuration came through a stream, which can't be read again".to_owned());
        }
        self.read_after(last).map_err(|error| error.to_string())
    }

    fn replace_interfaces(&self, policy: &mut Policy) -> Result<(), SetError> {
        let Some(network) = policy.network.as_mut().filter(|_| !self.interfaces.is_empty()) else {
            return Ok(());
        };
        let mode = |name: &InterfaceName| {
            let known = network.interfaces.iter().find(|known| known.name == *name);
            known.map_or(AttachMode::default(), |known| known.mode)
        };
        let wanted = self.interfaces.iter().map(|name| Interface { mode: mode(name), name: name.clone() });
        let wanted = Interfaces::new(wanted.collect())?;
        let left_out = network.interfaces.iter().filter(|known| !self.interfaces.contains(&known.name));
        network.left_out = Interfaces::new(left_out.cloned().collect())?;
        network.interfaces = wanted;
        Ok(())
    }

    /// Whether it can be read only once.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        let is_named = ["-", "/dev/stdin"].iter().any(|name| self.config == Path::new(name));
        is_named || self.config.starts_with("/dev/fd") || self.config.starts_with("/proc")
    }
}
