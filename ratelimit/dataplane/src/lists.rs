//! The lists of the generation in force, left for those who want to know what is allowed: they need no daemon.

use std::{fs, sync::atomic::Ordering};

use aya::maps::Map;
use ratelimit_common::lists::Listed;

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

/// The lists in force, and the kernel's number of their map, which those of another generation have not.
pub(super) struct ListWords {
    pub map: u32,
    words: Vec<u64>,
}

impl ListWords {
    /// What is on one of them.
    pub(super) fn listed(&self, list: Listed) -> PrefixList {
        compile::listed(&self.words, list)
    }
}

/// The lists in force, unless they are those of a map that is known already; `None` also if nobody has left them.
pub(super) fn read_unless(known: Option<u32>, pins: &Pins) -> Result<Option<ListWords>, Error> {
    let path = pins.maps().join(LISTS);
    if !fs::exists(&path).map_err(|error| Error::file(&path, error))? {
        return Ok(None);
    }
    let map = pins.map(LISTS)?;
    let info = map.info()?;
    if known == Some(info.id()) {
        return Ok(None);
    }
    let words = Words::map(&Map::Array(map), info.max_entries() as usize)?;
    let words = words.all().iter().map(|word| word.load(Ordering::Relaxed)).collect();
    Ok(Some(ListWords { map: info.id(), words }))
}

/// The allow list in force; empty if nobody has left it.
pub(super) fn allow_list(pins: &Pins) -> Result<PrefixList, Error> {
    Ok(read_unless(None, pins)?.map_or_else(PrefixList::default, |words| words.listed(Listed::Allowed)))
}
