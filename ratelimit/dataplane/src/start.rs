//! Putting a network policy in force, replacing it by another, and taking it out again: the daemon's way through its
//! instance's pins.

use std::path::Path;

use ratelimit_common::{
    table::SLOTS,
    time::{Nanos, Now},
    wire,
};
use tracing::warn;

use super::{
    Asks, Attachment, Daemon, Error, Generation, InForce, Log, RuleInForce,
    attach::{self, Outcome, Target},
    buckets::Buckets,
    carry::Earlier,
    check, check_kernel,
    clock::{self, WallClock},
    counters, denied,
    kind::Kind,
    list_sizes, lists,
    notes::{kept_state, with_process, write_state},
    pins::{Lock, Pins},
    places::{Missing, Places},
    raw,
    state::{self, State},
    trial,
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
    wall: WallClock,
}

/// What is to be in force.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// The policy.
    pub network: &'w Network,
    /// The file that it is from.
    pub config: &'w Path,
    /// Whether its rules only observe; as it was before if not given.
    pub observes: Option<bool>,
    /// If it is on trial, until when, on CLOCK_MONOTONIC.
    pub trial_end: Option<Nanos>,
    /// Whether that trial begins now, and is not over if an earlier one has been confirmed.
    pub is_new_trial: bool,
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

    /// With another wall clock than the system's, for tests that set it.
    #[must_use]
    pub const fn with_wall_clock(mut self, wall: WallClock) -> Self {
        self.wall = wall;
        self
    }

    /// Loads the rules and attaches them, adopting what an earlier daemon of the instance left. `control` is where this one
    /// can be reached.
    ///
    /// # Errors
    /// Something is missing, or refused. What was in force before is in force still; what was made here is removed.
    pub fn start(mut self, wanted: &Wanted<'_>, control: &Path) -> Result<Dataplane, Error> {
        let daemon = Daemon { process: std::process::id(), control: absolute(control) };
        let mut places = Places::default();
        let started = put_in_force(&self, &mut places, wanted, &daemon, None)?;
        if !self.lock.is_current(&self.pins) {
            return Err(Error::TakenOff { instance: self.pins.instance().to_string() });
        }
        // From here on it is there to stay.
        self.lock.is_first = false;
        Ok(Dataplane { claim: self, daemon, places, in_force: started })
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
    daemon: Daemon,
    places: Places,
    in_force: Started,
}

/// Interfaces that got the program, and that had it and are gone.
#[derive(Debug)]
pub struct Changes {
    /// Those that have it now.
    pub came: Vec<Attachment>,
    /// Those that are gone.
    pub went: Vec<Attachment>,
}

/// A generation in force.
#[derive(Debug)]
struct Started {
    generation: Generation,
    compiled: Compiled,
    state: State,
    buckets: Buckets,
    attachments: Vec<Attachment>,
    is_adopted: bool,
    observes: bool,
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
        self.in_force = put_in_force(&self.claim, &mut self.places, wanted, &self.daemon, Some(old))?;
        Ok(())
    }

    /// Whether windows lie elsewhere by the wall clock now, because it was set: [`Self::replace`] moves them.
    ///
    /// # Errors
    /// A clock can't be read.
    pub fn has_moved_windows(&self) -> Result<bool, Error> {
        let Started { state, compiled, .. } = &self.in_force;
        let has_windows = compiled.limits.iter().any(|rule| rule.limit.has_windows());
        Ok(has_windows && state.clone().align(self.claim.wall)?.is_some())
    }

    /// Attaches to interfaces that have come back, and forgets those that are gone.
    ///
    /// # Errors
    /// The kernel does not say which interfaces there are, or a pin can't be removed.
    pub fn reconcile(&mut self) -> Result<Changes, Error> {
        self.still_mine()?;
        let Started { generation, attachments, .. } = &mut self.in_force;
        let now = self.places.reconcile(generation, &self.claim.pins)?;
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
        self.places.lacking(&self.in_force.attachments)
    }

    /// How the trial of its rules stands.
    ///
    /// # Errors
    /// The map can't be read.
    pub fn trial(&self) -> Result<trial::Trial, Error> {
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
    pub fn log(&mut self) -> Option<Log> {
        self.in_force.generation.log()
    }

    pub(super) const fn buckets(&self) -> &Buckets {
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

fn put_in_force(
    claim: &Claim,
    places: &mut Places,
    wanted: &Wanted<'_>,
    daemon: &Daemon,
    old: Option<&mut Started>,
) -> Result<Started, Error> {
    let Claim { pins, wall, .. } = claim;
    let sets = wanted.network.table.slots() / SLOTS as u32;
    let kept = kept_state(pins, sets)?;
    let mut earlier = Earlier::find(pins)?;
    // What is in force already goes on where it can.
    let missing = match &old {
        Some(_) => Missing::Known,
        None => match &kept {
            Some(kept) => Missing::Some(kept.wanted()),
            None if !earlier.is_empty() => Missing::Some(&[]),
            None => Missing::None,
        },
    };
    let targets = places.targets(pins, &wanted.network.interfaces, missing)?;
    let is_adopted = kept.is_some();
    let before = kept.clone();
    let mut state = kept.map_or_else(|| State::new(sets, earlier.observes()), Ok)?;
    let observes = wanted.observes.unwrap_or(state.observes);
    let observing =
        observes.then(|| Network { rules: wanted.network.rules.observing(), ..wanted.network.clone() });
    let network = observing.as_ref().unwrap_or(wanted.network);
    let assignment = state.assign(network)?;
    let moved = state.align(*wall)?;
    let mut compiled = compile(network, &state.facts(), &assignment.numbers);
    compiled.globals.is_on_trial = wanted.trial_end.is_some().into();
    pins.create()?;
    let kind = targets.first().map_or(Ok(Kind::Ethernet), Target::kind)?;
    let mut generation = Generation::load(&compiled, sets, Some(&pins.maps()), kind)?;
    let buckets = Buckets::map(generation.map("BUCKETS")?, sets)?;
    buckets.forget(&assignment.new);
    for &number in &assignment.new {
        counters::clear_rule(generation.map_mut("RULE_COUNTERS")?, number)?;
    }
    // Before anything is attached, the notes say that this daemon does so: a crash in between leaves no number with two
    // owners, and nobody takes what was in force before for what is.
    (state.is_starting, state.daemon) = (true, Some(daemon.clone()));
    write_state(&mut generation, &state.before(moved))?;
    earlier.carry_bans(pins, &state)?;
    let goes_on =
        !wanted.is_new_trial && old.as_ref().is_some_and(|old| old.compiled.globals.is_on_trial != 0);
    let trial_before = trial::replace_end(&mut generation, wanted.trial_end, goes_on)?;
    let old = old.map(|old| &mut old.generation);
    let now = since(&compiled)?;
    moved.inspect(|moved| moved.before_switch(&buckets, &compiled.limits, now));
    let attached = attach::attach(&mut generation, pins, &targets, old);
    let Outcome { attachments, refused } = match attached {
        Ok(outcome) => outcome,
        Err(error) => {
            moved.inspect(|moved| moved.take_back(&buckets, &compiled.limits, now));
            trial::replace_end(&mut generation, trial_before, false)?;
            (state.is_starting, state.daemon) = (false, None);
            write_state(&mut generation, before.as_ref().unwrap_or(&state))?;
            return Err(error);
        }
    };
    let has_it = |place: &usize| refused.iter().all(|(refused, _)| refused != place);
    places.note(
        &network.interfaces,
        (0..).zip(&targets).filter(|(place, _)| has_it(place)).map(|(_, one)| one),
    );
    for (place, error) in &refused {
        targets.get(*place).into_iter().for_each(|target| places.note_refusal(target.name(), error));
    }
    // Numbers that are free from now on must not be in use by a processor that has not come to the end of its packet.
    raw::wait_for_running_programs();
    // Those that the earlier program has made meanwhile.
    earlier.carry_bans(pins, &state)?;
    let now = since(&compiled)?;
    moved.inspect(|moved| moved.after_switch(&buckets, &compiled.limits, now));
    let noted = in_force(network, wanted, &assignment.numbers)?;
    buckets.clamp(&changed(&compiled.limits, before.as_ref(), &noted), now);
    state.retire(&assignment.numbers);
    (state.observes, state.is_starting) = (observes, false);
    state.in_force = Some(noted);
    write_state(&mut generation, &state)?;
    if let Err(error) = lists::pin(&generation, pins) {
        warn!(%error, "bans will not say what the allow list lets pass");
    }
    if let Err(error) = pins.remove_other_layouts() {
        warn!(%error, "maps of another version are left");
    }
    Ok(Started { generation, compiled, state, buckets, attachments, is_adopted, observes })
}

/// The rules whose limits may be others than before. Those of the rest may be emptier than empty, after a wall clock that
/// was set back: a refill that came comes again.
fn changed(limits: &[wire::Rule], before: Option<&State>, noted: &InForce) -> Vec<wire::Rule> {
    let before = before.and_then(|state| state.in_force.as_ref()).map_or(&[][..], |before| &before.rules);
    let limits_as = |rule: &RuleInForce| {
        let same =
            |old: &RuleInForce| (old.number, &old.limit, &old.key) == (rule.number, &rule.limit, &rule.key);
        before.iter().any(same)
    };
    let stays = |limit: &&wire::Rule| {
        noted.rules.iter().any(|rule| u64::from(rule.number) == limit.counters && limits_as(rule))
    };
    limits.iter().filter(|limit| !stays(limit)).copied().collect()
}

fn since(compiled: &Compiled) -> Result<Now, Error> {
    Ok(Now(Nanos(clock::monotonic()?.0.saturating_sub(compiled.globals.epoch))))
}

fn in_force(network: &Network, wanted: &Wanted<'_>, numbers: &[u32]) -> Result<InForce, Error> {
    let first = |index| network.rules.parts().iter().position(|part| part.rule == index);
    let number = |index| first(index).and_then(|place| numbers.get(place)).copied().unwrap_or_default();
    let config = wanted.config;
    Ok(InForce {
        // For those who look at it from elsewhere.
        config: if config == Path::new("-") { "/dev/stdin".into() } else { absolute(config) },
        since: clock::unix()?.0 / Nanos::SECOND.0,
        keeps_on_exit: network.on_exit == OnExit::Keep,
        allow: network.allow.len(),
        deny: network.deny.len(),
        lists: list_sizes::sizes(&network.lists),
        is_on_trial: wanted.trial_end.is_some(),
        asks: Asks::of(&network.rules),
        interfaces: network.interfaces.iter().map(|interface| interface.name.to_string()).collect(),
        rules: network
            .rules
            .iter()
            .enumerate()
            .map(|(index, rule)| state::describe(rule, number(index)))
            .collect(),
        denied: denied::counts(&network.rules, numbers),
    })
}

pub(super) fn absolute(path: &Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
