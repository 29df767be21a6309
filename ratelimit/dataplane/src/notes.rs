//! Reading and writing the daemon's notes, in a map beside the others.

use std::{fs, os::fd::AsFd as _, thread, time::Duration};

use aya::maps::{Array, MapData};
use ratelimit_common::{table::SLOTS, wire::META_BYTES};

use super::{
    Error,
    generation::{self, ProgramGeneration},
    kernel::Wire,
    pins::Pins,
    raw,
    state::InstanceState,
};

/// What an earlier daemon left, if it is whole and fits.
pub(super) fn kept_state(pins: &Pins, sets: u32) -> Result<Option<InstanceState>, Error> {
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
    generation::check_pinned(pins, sets)?;
    Ok(Some(state))
}

/// How often notes that make no sense are read again.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// The notes, if any were written.
pub(super) fn read_state(pins: &Pins) -> Result<Option<InstanceState>, Error> {
    let path = pins.maps().join("META");
    if !fs::exists(&path).map_err(|error| Error::file(&path, error))? {
        return Ok(None);
    }
    let broken =
        |what: String| Error::Pinned { path: path.clone(), what, instance: pins.instance().to_string() };
    let map = pins.map("META")?;
    // Not on the stack, of which threads have little.
    let mut bytes = vec![0; META_BYTES];
    let mut tries = 0;
    loop {
        raw::read_first(map.fd().as_fd(), &mut bytes)
            .map_err(|source| Error::System { what: "reading the daemon's notes", source })?;
        match InstanceState::from_bytes(&bytes) {
            // A daemon may be writing them.
            Err(_) if tries < TRIES => {
                tries += 1;
                thread::sleep(PAUSE);
            }
            read => return read.map_err(|error| broken(format!("unreadable notes: {error}"))),
        }
    }
}

pub(super) fn write_state(generation: &mut ProgramGeneration, state: &InstanceState) -> Result<(), Error> {
    let mut meta: Array<&mut MapData, Wire<[u8; META_BYTES]>> = generation.map_mut("META")?.try_into()?;
    Ok(meta.set(0, state.to_bytes()?, 0)?)
}

/// Adds to the error that a daemon serves the instance which process that is, if the notes say.
pub(super) fn with_process(pins: &Pins, error: Error) -> Error {
    let Error::Running { instance, .. } = error else { return error };
    let daemon = read_state(pins).ok().flatten().and_then(|state| state.daemon);
    Error::Running { instance, process: daemon.map(|daemon| daemon.process) }
}
