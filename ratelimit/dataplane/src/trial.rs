//! Rules on trial: the map that says until when, which the XDP program looks at by itself.

use aya::maps::{Array, Map, MapData};
use ratelimit_common::time::Nanos;

use super::{Error, ProgramGeneration, check, clock, notes::read_state, pins::Pins};
use crate::policy::InstanceName;

/// What is said of a trial that has failed, so that nobody is surprised by saving a file.
pub const TRIED_AGAIN: &str = "`ratelimit reload`, or saving the file, begins another trial of the same length: confirm that one \
                               with `ratelimit confirm`";

/// What is said while everything passes, wherever somebody might think that something is dropped.
#[must_use]
pub fn everything_passes() -> String {
    format!("everything passes: nobody has confirmed the rules in time; {TRIED_AGAIN}")
}

/// How a trial stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialState {
    /// The rules are not on trial, or have been confirmed.
    None,
    /// For so long still.
    Left(Nanos),
    /// Nobody has confirmed the rules in time: everything passes.
    Failed,
}

/// Which trial rules are to be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedTrial {
    /// One of this length, which begins when they are in force.
    Begins(Nanos),
    /// The one that those before them are on. If it has been confirmed meanwhile, it stays so.
    GoesOn,
}

impl WantedTrial {
    /// When one that begins now ends.
    fn end_from_now(length: Nanos) -> Result<Nanos, Error> {
        Ok(Nanos(clock::monotonic()?.0.saturating_add(length.0)))
    }
}

/// Writes down when the trial of rules that are about to be in force ends, and returns when the one before would have;
/// `None` if that stays.
pub(super) fn begin(
    generation: &mut ProgramGeneration,
    wanted: Option<WantedTrial>,
) -> Result<Option<TrialEnd>, Error> {
    let end = match wanted {
        Some(WantedTrial::GoesOn) => return Ok(None),
        Some(WantedTrial::Begins(length)) => TrialEnd(WantedTrial::end_from_now(length)?.0),
        None => TrialEnd::NONE,
    };
    end.put(generation).map(Some)
}

/// Lets a trial that begins do so now, unless somebody has confirmed the rules already: to attach them has taken time.
pub(super) fn begin_again(
    generation: &mut ProgramGeneration,
    wanted: Option<WantedTrial>,
) -> Result<(), Error> {
    let Some(WantedTrial::Begins(length)) = wanted else { return Ok(()) };
    let mut map: Array<&mut MapData, u64> = generation.map_mut("TRIAL")?.try_into()?;
    if map.get(&0, 0)? != 0 {
        map.set(0, WantedTrial::end_from_now(length)?.0, 0)?;
    }
    Ok(())
}

/// When a trial ends, as the map has it: on CLOCK_MONOTONIC, 0 if it does not.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrialEnd(u64);

impl TrialEnd {
    const NONE: Self = Self(0);

    /// Puts it into the map, and returns the one that was there.
    pub(super) fn put(self, generation: &mut ProgramGeneration) -> Result<Self, Error> {
        let mut map: Array<&mut MapData, u64> = generation.map_mut("TRIAL")?.try_into()?;
        let before = map.get(&0, 0)?;
        map.set(0, self.0, 0)?;
        Ok(Self(before))
    }
}

fn open(pins: &Pins) -> Result<Array<MapData, u64>, Error> {
    Ok(Map::Array(pins.map("TRIAL")?).try_into()?)
}

/// How the trial of what is in force stands.
pub(super) fn trial(pins: &Pins, is_on_trial: bool) -> Result<TrialState, Error> {
    let end = if is_on_trial { open(pins)?.get(&0, 0)? } else { 0 };
    let now = clock::monotonic()?;
    Ok(match end {
        0 => TrialState::None,
        end if end > now.0 => TrialState::Left(Nanos(end - now.0)),
        _ => TrialState::Failed,
    })
}

/// Whether rules, lists and bans drop anything: not after a trial that has failed.
///
/// # Errors
/// The instance is not attached, or its pins can't be used.
pub fn is_in_force(instance: &InstanceName) -> Result<bool, Error> {
    drops(&Pins::new(instance)?)
}

pub(super) fn drops(pins: &Pins) -> Result<bool, Error> {
    let in_force = read_state(pins)?.and_then(|state| state.in_force);
    Ok(trial(pins, in_force.is_some_and(|policy| policy.is_on_trial))? != TrialState::Failed)
}

/// Says that the rules on trial are good: they stay. Needs no daemon. Returns how the trial stood.
///
/// # Errors
/// The instance is not attached, or its pins can't be used.
pub fn confirm(instance: &InstanceName) -> Result<TrialState, Error> {
    check("confirm rules")?;
    let pins = Pins::new(instance)?;
    let state = read_state(&pins)?;
    let in_force = state.and_then(|state| state.in_force);
    let in_force = in_force.ok_or_else(|| Error::NotAttached { instance: instance.to_string() })?;
    let found = trial(&pins, in_force.is_on_trial)?;
    if matches!(found, TrialState::Left(_)) {
        open(&pins)?.set(0, 0, 0)?;
    }
    Ok(found)
}
