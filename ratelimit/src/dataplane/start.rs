//! Putting a network policy in force, and taking it out again: the daemon's way through its instance's pins.

use std::path::Path;

use ratelimit_common::{
    table::SLOTS,
    time::{Nanos, Now},
};

use super::{
    Attachment, Daemon, Error, Generation, InForce, Log,
    attach::{self, Target},
    buckets::Buckets,
    check, clock, counters,
    notes::{kept_state, with_process, write_state},
    pins::{Lock, Pins},
    state::{self, State},
};
use crate::{
    compile::{Compiled, compile},
    policy::{InstanceName, Network, OnExit},
};

/// The right to serve an instance, which nobody else has meanwhile. If it comes to nothing, nothing is left of it.
#[derive(Debug)]
pub struct Claim {
    pins: Pins,
    lock: Lock,
}

impl Claim {
    /// Takes it.
    ///
    /// # Errors
    /// [`Error::Running`] if another daemon has it; something is missing that each daemon needs.
    pub fn take(instance: &InstanceName) -> Result<Self, Error> {
        check("load BPF programs")?;
        let pins = Pins::new(instance)?;
        let lock = pins.lock().map_err(|error| with_process(&pins, error))?;
        Ok(Self { pins, lock })
    }

    /// Loads the rules of `network` and attaches them, adopting what an earlier daemon of the instance left. `control` is
    /// where this one can be reached.
    ///
    /// # Errors
    /// Something is missing, or refused. What was in force before is in force still; what was made here is removed.
    pub fn start(mut self, network: &Network, config: &Path, control: &Path) -> Result<Dataplane, Error> {
        let targets = attach::targets(&self.pins, &network.interfaces)?;
        let daemon = Daemon { process: std::process::id(), control: absolute(control) };
        let (generation, attachments, adopted) = start(&self.pins, &targets, network, config, daemon)?;
        if !self.lock.is_current(&self.pins) {
            return Err(Error::TakenOff { instance: self.pins.instance().to_string() });
        }
        // From here on it is there to stay.
        self.lock.is_first = false;
        Ok(Dataplane { claim: self, generation, attachments, adopted })
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
    generation: Generation,
    attachments: Vec<Attachment>,
    adopted: bool,
}

impl Dataplane {
    /// Where it is attached.
    #[must_use]
    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    /// Whether it goes on with an earlier daemon's buckets and counters.
    #[must_use]
    pub const fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// Takes the program off all interfaces and removes all that was pinned, unless somebody else has done so.
    ///
    /// # Errors
    /// A pin can't be removed.
    pub fn detach(self) -> Result<(), Error> {
        let Claim { pins, lock } = &self.claim;
        if lock.is_current(pins) { pins.remove_all() } else { Ok(()) }
    }

    /// What the program logs; `None` if it does not.
    pub fn log(&mut self) -> Option<Log> {
        self.generation.log()
    }
}

type Started = (Generation, Vec<Attachment>, bool);

fn start(
    pins: &Pins,
    targets: &[Target],
    network: &Network,
    config: &Path,
    daemon: Daemon,
) -> Result<Started, Error> {
    let sets = network.table.slots() / SLOTS as u32;
    let kept = kept_state(pins, sets)?;
    let adopted = kept.is_some();
    let mut state = kept.map_or_else(|| State::new(sets), Ok)?;
    let assignment = state.assign(network)?;
    let compiled = compile(network, &state.facts()?, &assignment.numbers);
    pins.create()?;
    let mut generation = Generation::load(&compiled, sets, Some(&pins.maps()))?;
    let buckets = Buckets::map(generation.map("BUCKETS")?, sets)?;
    buckets.forget(&assignment.new);
    for &number in &assignment.new {
        counters::clear_rule(generation.map_mut("RULE_COUNTERS")?, number)?;
    }
    let attachments = attach_noted(&mut generation, &mut state, daemon, pins, targets)?;
    buckets.clamp(&compiled.limits, since(&compiled)?);
    state.retire(&assignment.numbers);
    state.in_force = Some(in_force(network, config, &assignment.numbers)?);
    state.is_starting = false;
    write_state(&mut generation, &state)?;
    Ok((generation, attachments, adopted))
}

/// Attaches, after the notes say that this daemon does so: a crash in between leaves no number with two owners, and nobody
/// takes what was in force before for what is.
fn attach_noted(
    generation: &mut Generation,
    state: &mut State,
    daemon: Daemon,
    pins: &Pins,
    targets: &[Target],
) -> Result<Vec<Attachment>, Error> {
    let before = (state.is_starting, state.daemon.take());
    (state.is_starting, state.daemon) = (true, Some(daemon));
    write_state(generation, state)?;
    attach::attach(generation.program()?, pins, targets).or_else(|error| {
        (state.is_starting, state.daemon) = before;
        write_state(generation, state).and(Err(error))
    })
}

fn since(compiled: &Compiled) -> Result<Now, Error> {
    Ok(Now(Nanos(clock::monotonic()?.0.saturating_sub(compiled.globals.epoch))))
}

fn in_force(network: &Network, config: &Path, numbers: &[u32]) -> Result<InForce, Error> {
    let first = |index| network.rules.parts().iter().position(|part| part.rule == index);
    let number = |index| first(index).and_then(|place| numbers.get(place)).copied().unwrap_or_default();
    Ok(InForce {
        // For those who look at it from elsewhere.
        config: if config == Path::new("-") { "/dev/stdin".into() } else { absolute(config) },
        since: clock::unix()?.0 / Nanos::SECOND.0,
        keeps_on_exit: network.on_exit == OnExit::Keep,
        allow: network.allow.len(),
        rules: network
            .rules
            .iter()
            .enumerate()
            .map(|(index, rule)| state::describe(rule, number(index)))
            .collect(),
    })
}

fn absolute(path: &Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
