//! Which instance a command is about: one that is named, or that is found at a control socket; and which there are, for
//! who has named none of them.

use std::{collections::BTreeSet, fs, io, path::PathBuf};

use clap::Args;

use super::failure::CommandFailure;
use crate::{
    control::{self, ControlError},
    dataplane,
    policy::InstanceName,
};

/// Which instance.
#[derive(Clone, Debug, Args)]
pub struct InstanceArgs {
    /// The name of the instance [default: default]
    #[arg(long = "instance", value_name = "NAME")]
    named: Option<InstanceName>,
    /// The daemon's control socket, if it has been moved since the start; without --instance it also says which
    /// instance is meant.
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// What both come to, once it is found.
    #[arg(skip)]
    pub instance: InstanceName,
}

/// What a command does with the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It tells of it, also that its daemon does not answer.
    Show,
    /// It takes it off, for which a socket alone is not enough: that of another instance is named by mistake too
    /// easily.
    Remove,
    /// It does something else.
    Other,
}

impl InstanceArgs {
    /// Finds the instance that is meant.
    ///
    /// # Errors
    /// Nobody answers at the socket that is named, or another instance than the one that is named.
    pub fn find(&mut self, what: Use) -> Result<(), CommandFailure> {
        self.instance = self.named.clone().unwrap_or_default();
        let Some(path) = &self.control else { return Ok(()) };
        let is_enough = what != Use::Remove;
        match control::served(path) {
            Ok(served) if served == self.instance => Ok(()),
            Ok(served) if is_enough && self.named.is_none() => {
                self.instance = served;
                Ok(())
            }
            // Whoever is to be taken off is looked for first.
            Ok(_) if !is_enough && self.named.is_some() => Ok(()),
            Ok(served) => Err(CommandFailure::failed(control::of_another(path, &served))),
            Err(error @ (ControlError::Refused(_) | ControlError::Broken(_))) => {
                Err(CommandFailure::failed(error))
            }
            // The command goes on without, or says so itself.
            Err(_) if self.named.is_some() || what == Use::Remove => Ok(()),
            Err(_) if what == Use::Show && is_there(&self.instance) => Ok(()),
            Err(error) => Err(CommandFailure::failed(error)),
        }
    }

    /// Adds to why a command has failed which instances there are, if this is none of them; or says what its daemon
    /// lacks.
    pub fn advise(&self, failure: CommandFailure) -> CommandFailure {
        let Ok(known) = known() else { return failure };
        if known.contains(self.instance.as_str()) {
            let is_attached =
                dataplane::instances().is_ok_and(|all| all.contains(&self.instance.to_string()));
            return if is_attached { failure } else { self.advise_about_daemon(failure) };
        }
        if known.is_empty() {
            return failure;
        }
        let names: Vec<String> = known.iter().take(MOST_NAMES).map(|name| format!("`{name}`")).collect();
        failure.and(&format!("; there are: {}", names.join(", ")))
    }

    /// Says why nothing is seen of the daemon that there is.
    fn advise_about_daemon(&self, failure: CommandFailure) -> CommandFailure {
        let path = self.control.clone().or_else(|| control::default_path(&self.instance).ok());
        let process = path
            .filter(|path| control::limits_packets(path, &self.instance))
            .and_then(|path| control::daemon(&path).ok().flatten());
        let advice =
            process.map_or_else(|| WITHOUT_PACKETS.to_owned(), |process| out_of_sight("its", process));
        failure.with_advice(dataplane::ADVICE, &advice)
    }
}

/// What to do where the pins of a daemon that limits packets can't be seen.
pub fn out_of_sight(whose: &str, process: i32) -> String {
    format!(
        "{whose} daemon limits packets, which can't be looked at from here: run this as root in its namespaces, with \
         `nsenter --target {process} --mount --net`"
    )
}

/// What to do about a daemon that has nothing in the kernel, instead of starting one.
const WITHOUT_PACKETS: &str = "its daemon is running, but limits no packets: give its configuration `network` (`ratelimit \
                               status` names the file), and start it anew (`systemctl restart ratelimit`)";

/// More are not listed.
const MOST_NAMES: usize = 20;

fn is_there(instance: &InstanceName) -> bool {
    known().is_ok_and(|known| known.contains(instance.as_str()))
}

/// The instances that are attached, and those whose daemons answer where daemons do unless their configurations say
/// otherwise.
fn known() -> io::Result<BTreeSet<String>> {
    let mut known: BTreeSet<String> = dataplane::instances()?.into_iter().collect();
    let sockets = control::default_path(&InstanceName::default()).ok();
    let files = sockets.as_deref().and_then(std::path::Path::parent).map(fs::read_dir);
    let files = files.into_iter().flatten().flatten().filter_map(|file| Some(file.ok()?.path()));
    // One that is too busy to answer is there, too.
    let answering = files.filter(|path| !matches!(control::daemon(path), Ok(None)));
    known.extend(answering.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".sock")?;
        name.parse::<InstanceName>().ok().map(|name| name.to_string())
    }));
    Ok(known)
}
