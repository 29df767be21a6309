//! The lists of the generation in force, left for those who want to know what is allowed: they need no daemon.

use std::{fs, sync::atomic::Ordering};

use aya::maps::{Map, MapInfo};

use super::{
    Error,
    generation::ProgramGeneration,
    pins::{Pins, io_error},
    sets::Words,
};
use crate::{compile, policy::PrefixList};

const LISTS: &str = "LISTS";

/// The pin before it takes the place of the one of the generation before.
const NEXT: &str = "LISTS_NEXT";

/// Leaves the lists of a generation.
pub(super) fn pin(generation: &ProgramGeneration, pins: &Pins) -> Result<(), Error> {
    let next = pins.maps().join(NEXT);
    // From a daemon that died here; as a rule there is none.
    let _ = fs::remove_file(&next);
    let pinned = generation.map(LISTS)?.pin(&next);
    pinned.map_err(|error| Error::file(&next, io_error(&error)))?;
    fs::rename(&next, pins.maps().join(LISTS)).map_err(|error| Error::file(next, error))
}

/// The allow list in force; empty if nobody has left it.
pub(super) fn allow_list(pins: &Pins) -> Result<PrefixList, Error> {
    let path = pins.maps().join(LISTS);
    if !fs::exists(&path).map_err(|error| Error::file(&path, error))? {
        return Ok(PrefixList::default());
    }
    let map = pins.map(LISTS)?;
    let count = MapInfo::from_pin(&path)?.max_entries();
    let words = Words::map(&Map::Array(map), count as usize)?;
    let words: Vec<u64> = words.all().iter().map(|word| word.load(Ordering::Relaxed)).collect();
    Ok(compile::allowed(&words))
}
