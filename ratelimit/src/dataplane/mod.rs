//! The kernel side: loads the XDP program, attaches it, keeps its maps, reads its counters. The only module that knows aya.
//!
//! Everything that must outlive the daemon is pinned: a daemon that dies leaves the limits in force, and the next one
//! adopts buckets, counters and links.

mod attach;
mod buckets;
mod clock;
mod counters;
mod error;
mod kernel;
mod log;
mod netlink;
mod object;
mod pins;
mod state;
mod status;
mod system;

use std::path::Path;

use aya::maps::{Array, MapData};
use ratelimit_common::{
    table::SLOTS,
    time::{Nanos, Now},
    wire::META_BYTES,
};

pub(crate) use self::error::in_one_line;
pub use self::{
    attach::Attachment,
    counters::Count,
    error::Error,
    log::Log,
    netlink::Mode,
    object::{Generation, Judged},
    state::{InForce, RuleInForce},
    status::{ReasonStatus, RuleStatus, Status, TableStatus, status},
    system::check,
};
use self::{attach::Target, buckets::Buckets, kernel::Wire, pins::Lock, pins::Pins, state::State};
use crate::{
    compile::{Compiled, compile},
    policy::{InstanceName, Network, OnExit},
};

/// A running data plane; dropping it leaves it attached.
#[derive(Debug)]
pub struct Dataplane {
    pins: Pins,
    _lock: Lock,
    generation: Generation,
    attachments: Vec<Attachment>,
    adopted: bool,
}

impl Dataplane {
    /// Loads the rules of `network` and attaches them, adopting what an earlier daemon of the instance left.
    ///
    /// # Errors
    /// Something is missing, or refused. What was in force before is in force still; what was made here is removed.
    pub fn start(instance: &InstanceName, network: &Network, config: &Path) -> Result<Self, Error> {
        check()?;
        let pins = Pins::new(instance)?;
        let targets = attach::targets(&pins, &network.interfaces)?;
        let was_there = pins.exist();
        let lock = pins.lock()?;
        let started = start(&pins, &targets, network, config);
        if started.is_err() && !was_there {
            pins.remove_all()?;
        }
        let (generation, attachments, adopted) = started?;
        Ok(Self { pins, _lock: lock, generation, attachments, adopted })
    }

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

    /// Takes the program off all interfaces and removes all that was pinned.
    ///
    /// # Errors
    /// A pin can't be removed.
    pub fn detach(self) -> Result<(), Error> {
        self.pins.remove_all()
    }

    /// What the program logs; `None` if it does not.
    pub fn log(&mut self) -> Option<Log> {
        self.generation.log()
    }
}

/// Takes an instance without a daemon off all interfaces and removes all that was pinned.
///
/// # Errors
/// There is no such instance, or a daemon serves it.
pub fn detach(instance: &InstanceName) -> Result<(), Error> {
    check()?;
    let pins = Pins::new(instance)?;
    if !pins.exist() {
        return Err(Error::NotAttached { instance: instance.to_string() });
    }
    let _lock = pins.lock()?;
    pins.remove_all()
}

type Started = (Generation, Vec<Attachment>, bool);

fn start(pins: &Pins, targets: &[Target], network: &Network, config: &Path) -> Result<Started, Error> {
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
    // Before the switch, so that a crash in between leaves no number with two owners.
    write_state(&mut generation, &state)?;
    let attachments = attach::attach(generation.program()?, pins, targets)?;
    buckets.clamp(&compiled.rules, since(&compiled)?);
    state.retire(&assignment.numbers);
    state.in_force = Some(in_force(network, config, &assignment.numbers)?);
    write_state(&mut generation, &state)?;
    Ok((generation, attachments, adopted))
}

/// What an earlier daemon left, if it is whole and fits.
fn kept_state(pins: &Pins, sets: u32) -> Result<Option<State>, Error> {
    let Some(state) = read_state(pins)? else {
        // Nothing, or what a daemon that died while it began had pinned.
        pins.remove_maps()?;
        return Ok(None);
    };
    if state.sets != sets {
        let size = |sets: u32| sets * SLOTS as u32;
        return Err(Error::Pinned {
            path: pins.maps(),
            what: format!(
                "the table has {} buckets, but `table_size` asks for {}",
                size(state.sets),
                size(sets)
            ),
            instance: pins.instance().to_string(),
        });
    }
    object::check_pinned(pins, sets)?;
    Ok(Some(state))
}

fn read_state(pins: &Pins) -> Result<Option<State>, Error> {
    let path = pins.maps().join("META");
    if !path.exists() {
        return Ok(None);
    }
    let broken =
        |what: String| Error::Pinned { path: path.clone(), what, instance: pins.instance().to_string() };
    let map = aya::maps::Map::Array(MapData::from_pin(&path)?);
    let meta: Array<MapData, Wire<[u8; META_BYTES]>> = map.try_into()?;
    State::from_bytes(&meta.get(&0, 0)?.0).map_err(|error| broken(format!("unreadable notes: {error}")))
}

fn write_state(generation: &mut Generation, state: &State) -> Result<(), Error> {
    let mut meta: Array<&mut MapData, Wire<[u8; META_BYTES]>> = generation.map_mut("META")?.try_into()?;
    Ok(meta.set(0, Wire(*state.to_bytes()?), 0)?)
}

fn since(compiled: &Compiled) -> Result<Now, Error> {
    Ok(Now(Nanos(clock::monotonic()?.0.saturating_sub(compiled.globals.epoch))))
}

fn in_force(network: &Network, config: &Path, numbers: &[u32]) -> Result<InForce, Error> {
    Ok(InForce {
        config: std::path::absolute(config).unwrap_or_else(|_| config.to_owned()),
        since: clock::unix()?.0 / Nanos::SECOND.0,
        keeps_on_exit: network.on_exit == OnExit::Keep,
        allow: network.allow.len(),
        rules: network
            .rules
            .iter()
            .zip(numbers)
            .map(|(rule, &number)| state::describe(rule, number))
            .collect(),
    })
}
