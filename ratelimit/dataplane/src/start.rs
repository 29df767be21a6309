//! Putting a network policy in force, replacing it by another, and taking it out again: the daemon's way through its
//! instance's pins.

mod transaction;

use std::path::Path;

use ratelimit_common::time::{Nanos, Now};

use self::transaction::{LoadedGeneration, put_in_force, since};
use super::{
    Attachment, DaemonAddress, Error, ProgramLog, RuleInForce, TrialState, WantedTrial,
    buckets::BucketTable,
    check, check_kernel,
    clock::{self, WallClock},
    coverage::Coverage,
    notes::{read_state, with_process},
    pins::{Lock, Pins},
    trial,
};
use crate::{
    compile::Compiled,
    policy::{InstanceName, Network},
};

/// The right to serve an instance, which nobody else has meanwhile. If it comes to nothing, nothing is left of it.
#[derive(Debug)]
pub struct Claim {
    pins: Pins,
    lock: Lock,
    wall: WallClock,
}

/// What is to be in force.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// The policy.
    pub network: &'w Network,
    /// The file that it is from.
    pub config: &'w Path,
    /// Whether it is the policy that is in force, which then is in force since it was put there.
    pub is_same: bool,
    /// Whether its rules only observe; as it was before if not given.
    pub observes: Option<bool>,
    /// The trial that it is to be on, if any.
    pub trial: Option<WantedTrial>,
}

impl Claim {
    /// Takes it.
    ///
    /// # Errors
    /// [`Error::Running`] if another daemon has it; something is missing that each daemon needs.
    pub fn take(instance: &InstanceName) -> Result<Self, Error> {
        check("load BPF programs")?;
        check_kernel()?;
        let pins = Pins::with_bpffs(instance)?;
        let lock = pins.lock().map_err(|error| with_process(&pins, error))?;
        Ok(Self { pins, lock, wall: clock::unix })
    }

    /// The trial that the rules are on which an earlier daemon has put in force, and how long it lasts in all; `None`
    /// if there are none, or they have been confirmed.
    ///
    /// # Errors
    /// Pins can't be read.
    pub fn earlier_trial(&self) -> Result<Option<(TrialState, Nanos)>, Error> {
        let Some(earlier) = read_state(&self.pins)?.and_then(|state| state.in_force) else { return Ok(None) };
        let state = trial::trial(&self.pins, earlier.is_on_trial)?;
        let length = earlier.trial_length.filter(|_| state != TrialState::None);
        Ok(length.map(|length| (state, Nanos(length))))
    }

    /// With another wall clock than the system's, for tests that set it.
    #[must_use]
    pub const fn with_wall_clock(mut self, wall: WallClock) -> Self {
        self.wall = wall;
        self
    }

    /// Loads the rules and attaches them, adopting what an earlier daemon of the instance left. `control` is where this
    /// one can be reached.
    ///
    /// # Errors
    /// Something is missing, or refused. What was in force before is in force still; what was made here is removed.
    pub fn start(mut self, wanted: &Wanted<'_>, control: &Path) -> Result<Dataplane, Error> {
        let daemon = DaemonAddress { process: std::process::id(), control: absolute(control) };
        let mut coverage = Coverage::default();
        let started = put_in_force(&self, &mut coverage, wanted, &daemon, None)?;
        if !self.lock.is_current(&self.pins) {
            return Err(Error::TakenOff { instance: self.pins.instance().to_string() });
        }
        // From here on it is there to stay.
        self.lock.is_first = false;
        Ok(Dataplane { claim: self, daemon, coverage, in_force: started })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.lock.is_first && self.lock.is_current(&self.pins) {
            // What could not be removed, the next daemon adopts.
            let _ = self.pins.remove_all();
        }
    }
}

/// A running data plane; dropping it leaves it attached.
#[derive(Debug)]
pub struct Dataplane {
    claim: Claim,
    daemon: DaemonAddress,
    coverage: Coverage,
    in_force: LoadedGeneration,
}

/// Interfaces that got the program, and that had it and are gone.
#[derive(Debug)]
pub struct Changes {
    /// Those that have it now.
    pub came: Vec<Attachment>,
    /// Those that are gone.
    pub went: Vec<Attachment>,
}

impl Dataplane {
    /// Where it is attached.
    #[must_use]
    pub fn attachments(&self) -> &[Attachment] {
        &self.in_force.attachments
    }

    /// Whether it goes on with earlier buckets and counters.
    #[must_use]
    pub const fn is_adopted(&self) -> bool {
        self.in_force.is_adopted
    }

    /// Whether all rules only observe.
    #[must_use]
    pub const fn observes(&self) -> bool {
        self.in_force.observes
    }

    /// Its instance.
    #[must_use]
    pub const fn instance(&self) -> &InstanceName {
        self.claim.pins.instance()
    }

    /// Replaces what is in force, in one step for each interface: a packet meets the old rules or the new ones.
    ///
    /// # Errors
    /// Something is missing, or refused. What was in force before is in force still.
    pub fn replace(&mut self, wanted: &Wanted<'_>) -> Result<(), Error> {
        self.still_mine()?;
        let old = &mut self.in_force;
        self.in_force = put_in_force(&self.claim, &mut self.coverage, wanted, &self.daemon, Some(old))?;
        Ok(())
    }

    /// Whether windows lie elsewhere by the wall clock now, because it was set: [`Self::replace`] moves them.
    ///
    /// # Errors
    /// A clock can't be read.
    pub fn has_moved_windows(&self) -> Result<bool, Error> {
        let LoadedGeneration { state, compiled, .. } = &self.in_force;
        let has_windows = compiled.limits.iter().any(|rule| rule.limit.has_windows());
        Ok(has_windows && state.clone().align(self.claim.wall)?.is_some())
    }

    /// Attaches to interfaces that have come back, and forgets those that are gone.
    ///
    /// # Errors
    /// The kernel does not say which interfaces there are, or a pin can't be removed.
    pub fn reconcile(&mut self) -> Result<Changes, Error> {
        self.still_mine()?;
        let LoadedGeneration { generation, attachments, .. } = &mut self.in_force;
        let now = self.coverage.reconcile(generation, &self.claim.pins)?;
        let before = std::mem::replace(attachments, now);
        let without = |all: &[Attachment], others: &[Attachment]| {
            let is_other = |one: &&Attachment| others.iter().all(|other| other.index != one.index);
            all.iter().filter(is_other).cloned().collect()
        };
        Ok(Changes { came: without(attachments, &before), went: without(&before, attachments) })
    }

    /// How many interfaces lack the program, because they are gone or refuse it.
    #[must_use]
    pub fn lacking(&self) -> usize {
        self.coverage.lacking(&self.in_force.attachments)
    }

    /// How the trial of its rules stands.
    ///
    /// # Errors
    /// The map can't be read.
    pub fn trial(&self) -> Result<TrialState, Error> {
        trial::trial(&self.claim.pins, self.in_force.compiled.globals.is_on_trial != 0)
    }

    fn still_mine(&self) -> Result<(), Error> {
        if self.claim.lock.is_current(&self.claim.pins) {
            return Ok(());
        }
        Err(Error::TakenOff { instance: self.instance().to_string() })
    }

    /// Takes the program off all interfaces and removes all that was pinned, unless somebody else has done so.
    ///
    /// # Errors
    /// A pin can't be removed.
    pub fn detach(self) -> Result<(), Error> {
        let Claim { pins, lock, .. } = &self.claim;
        if lock.is_current(pins) { pins.remove_all() } else { Ok(()) }
    }

    /// What the program logs; `None` if it does not.
    pub fn log(&mut self) -> Option<ProgramLog> {
        self.in_force.generation.log()
    }

    pub(super) const fn buckets(&self) -> &BucketTable {
        &self.in_force.buckets
    }

    pub(super) const fn compiled(&self) -> &Compiled {
        &self.in_force.compiled
    }

    pub(super) fn rules(&self) -> &[RuleInForce] {
        self.in_force.state.in_force.as_ref().map_or(&[], |noted| &noted.rules)
    }

    pub(super) fn now(&self) -> Result<Now, Error> {
        since(&self.in_force.compiled)
    }
}

/// A configuration file's path for those who look at what is in force from elsewhere.
#[must_use]
pub fn config_path(config: &Path) -> std::path::PathBuf {
    if config == Path::new("-") { "/dev/stdin".into() } else { absolute(config) }
}

pub(super) fn absolute(path: &Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
