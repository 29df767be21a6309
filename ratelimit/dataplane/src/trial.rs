//! Rules on trial: the map that says until when, which the XDP program looks at by itself.

use aya::maps::{Array, Map, MapData};
use ratelimit_common::time::Nanos;

use super::{Error, ProgramGeneration, check, clock, notes::read_state, pins::Pins};
use crate::policy::InstanceName;

/// What is said of a trial that has failed, so that nobody is surprised by saving a file.
pub const TRIED_AGAIN: &str = "a reload, or saving the file, puts the rules on trial again for the same time";

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

/// Sets when the trial ends, and returns when it would have. If it is one that goes on, and has been confirmed
/// meanwhile, it stays so.
pub(super) fn replace_end(
    generation: &mut ProgramGeneration,
    end: Option<Nanos>,
    goes_on: bool,
) -> Result<Option<Nanos>, Error> {
    let mut map: Array<&mut MapData, u64> = generation.map_mut("TRIAL")?.try_into()?;
    let before = map.get(&0, 0)?;
    if before != 0 || !goes_on {
        map.set(0, end.map_or(0, |end| end.0), 0)?;
    }
    Ok((before != 0).then_some(Nanos(before)))
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
