//! What is carried over from the maps of another version, whose layout is not this one's: the bans, and whether all
//! rules only observe. Buckets and counters start anew.

use std::{
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use aya::maps::MapInfo;
use ratelimit_common::{bans::BanSchedule, table::Secret, time::Nanos};
use serde::Deserialize;
use tracing::{info, warn};

use super::{
    Bans, Error, NewBan,
    generation::check_map,
    pins::{Pins, io_error, map_at},
    raw,
    state::{InstanceState, text_of},
};

/// What other versions have left.
pub(super) struct Earlier(Vec<(PathBuf, Option<Notes>)>);

/// What is needed here of another version's notes.
#[derive(Deserialize)]
struct Notes {
    made_at: u64,
    random: [u64; 4],
    #[serde(default)]
    observes: bool,
}

impl Earlier {
    /// As a rule there is nothing. What can't be read is said, and left behind.
    ///
    /// # Errors
    /// The instance's directory can't be read.
    pub(super) fn find(pins: &Pins) -> Result<Self, Error> {
        let read = |path: PathBuf| {
            let notes = Notes::read(&path).inspect_err(|why| left_behind(&path, why)).ok();
            (path, notes)
        };
        Ok(Self(pins.other_layouts()?.into_iter().map(read).collect()))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all rules only observe, because somebody wanted so for a while.
    pub(super) fn observes(&self) -> bool {
        self.0.iter().filter_map(|(_, notes)| notes.as_ref()).any(|notes| notes.observes)
    }

    /// Makes the bans in force again in the maps of this version, with what they have left; what is there and longer
    /// stays.
    ///
    /// # Errors
    /// This version's maps can't be used.
    pub(super) fn carry_bans(&mut self, pins: &Pins, state: &InstanceState) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        let to = Bans::map(pins.clone(), &pins.maps(), state.secret(), state.made_at())?;
        for (path, notes) in &mut self.0 {
            let Some(found) = notes else { continue };
            match found.bans(pins, path).and_then(|from| carry(&from, &to)) {
                Ok(0) => {}
                Ok(bans) => info!(from = %path.display(), bans, "carried over"),
                Err(why) => {
                    left_behind(path, &why);
                    // Nor the next time.
                    *notes = None;
                }
            }
        }
        Ok(())
    }
}

fn left_behind(path: &Path, why: &str) {
    let from = path.display();
    warn!(%from, why, "bans of another version can't be carried over: make those again that are still needed");
}

/// Returns how many were not there yet. One that can't be made does not keep the others from it.
fn carry(from: &Bans, to: &Bans) -> Result<usize, String> {
    let known = to.list().map_err(|error| error.to_string())?;
    let bans = from.list().map_err(|error| error.to_string())?;
    let (mut carried, mut lost) = (0, None);
    for ban in bans {
        let (prefix, terms) = (ban.prefix, BanSchedule::constant(ban.left));
        match to.ban(prefix, &NewBan { terms, maker: ban.maker, reason: ban.reason, replaces: false }) {
            Ok(_) => {
                let is_known = known.binary_search_by_key(&prefix, |known| known.prefix).is_ok();
                carried += usize::from(!is_known);
            }
            Err(error) => lost = Some(format!("{prefix}: {error}")),
        }
    }
    lost.map_or(Ok(carried), Err)
}

impl Notes {
    fn read(directory: &Path) -> Result<Self, String> {
        /// More than the notes of any version.
        const MOST_BYTES: u32 = 16 << 20;
        let size = MapInfo::from_pin(directory.join("META"))
            .map_err(|error| of_meta(&io_error(&error)))?
            .value_size();
        if size > MOST_BYTES {
            return Err(of_meta(&format_args!("{size} bytes")));
        }
        let map = map_at(directory, "META").map_err(|error| error.to_string())?;
        let mut bytes = vec![0; size as usize];
        raw::read_first(map.fd().as_fd(), &mut bytes).map_err(|error| of_meta(&error))?;
        serde_json::from_slice(text_of(&bytes)).map_err(|error| of_meta(&error))
    }

    /// If they are kept as this version keeps them.
    fn bans(&self, pins: &Pins, directory: &Path) -> Result<Bans, String> {
        for name in ["BANS", "BAN_PREFIXES", "BAN_LENGTHS"] {
            check_map(pins, directory, name, 0).map_err(|error| match error {
                Error::Pinned { what, .. } => format!("{name}: {what}"),
                error => error.to_string(),
            })?;
        }
        let bans = Bans::map(pins.clone(), directory, Secret::new(self.random), Nanos(self.made_at));
        bans.map_err(|error| error.to_string())
    }
}

fn of_meta(why: &dyn std::fmt::Display) -> String {
    format!("META: {why}")
}
