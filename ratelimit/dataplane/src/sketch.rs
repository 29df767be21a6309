//! The heaviest sources as the XDP program's samples tell, read from the pinned map by mmap: it needs no daemon.

use std::{
    os::fd::{AsFd as _, AsRawFd as _},
    sync::atomic::{AtomicU64, Ordering},
};

use aya::maps::{Map, MapData};
use memmap2::{MmapOptions, MmapRaw};
use ratelimit_common::{
    sketch::{ALL_SETS, SketchSet, SketchSlot, WAYS, WINDOW},
    time::Nanos,
};

use super::{Error, check, clock, generation::sketch_sets, pins::Pins};
use crate::policy::InstanceName;

/// The mapped sketch.
#[derive(Debug)]
pub struct Sketch {
    memory: MmapRaw,
    sets: usize,
    /// The kernel's number of the map, which no other gets.
    map: u32,
}

/// One set of sources that a processor has seen.
#[derive(Clone, Copy, Debug)]
pub struct SeenSet {
    /// Its place among those of its processor: the same for the same sources on all of them. The last one has the sums.
    pub place: u32,
    /// Whether these are packets that were dropped.
    pub dropped: bool,
    /// The slots; those of another window are empty.
    pub slots: [SketchSlot; WAYS],
}

impl Sketch {
    /// Opens that of an instance.
    ///
    /// # Errors
    /// It is not attached, or its pins can't be used.
    pub fn open(instance: &InstanceName) -> Result<Self, Error> {
        check("look at sources in the kernel")?;
        Self::map(&Map::Array(pinned(instance)?))
    }

    /// Whether the instance still has this one: one that is taken off and started again has another.
    ///
    /// # Errors
    /// It is not attached, or its pins can't be used.
    pub fn is_current(&self, instance: &InstanceName) -> Result<bool, Error> {
        Ok(pinned(instance)?.info()?.id() == self.map)
    }

    /// Maps a sketch that this version of the program writes.
    pub(super) fn map(map: &Map) -> Result<Self, Error> {
        let Map::Array(data) = map else { return Err(Error::Object("an array of sources")) };
        let sets = sketch_sets()? as usize;
        let memory =
            MmapOptions::new().len(sets * size_of::<SketchSet>()).map_raw(data.fd().as_fd().as_raw_fd());
        let memory = memory.map_err(|source| Error::System { what: "mapping the sources", source })?;
        Ok(Self { memory, sets, map: data.info()?.id() })
    }

    /// What was seen in the window with this number: all of it if the window has ended and the next one has not.
    #[must_use]
    pub fn window(&self, number: u64) -> Vec<SeenSet> {
        (0..self.sets as u32).filter_map(|index| self.set(index, number)).collect()
    }

    /// `None` if nothing in it is of that window.
    fn set(&self, index: u32, window: u64) -> Option<SeenSet> {
        let slots: [SketchSlot; WAYS] = std::array::from_fn(|way| {
            let slot = self.slot(index as usize * WAYS + way);
            if slot.stamp >> 2 == window { slot } else { SketchSlot::default() }
        });
        let is_seen = slots.iter().any(|slot| slot.packets != 0);
        let dropped = index / ALL_SETS % 2 == 1;
        is_seen.then_some(SeenSet { place: index % ALL_SETS, dropped, slots })
    }

    fn slot(&self, index: usize) -> SketchSlot {
        const WORDS: usize = size_of::<SketchSlot>() / 8;
        // SAFETY: the mapping has this many aligned words, lives as long as `self`, and the program writes whole words.
        let words: &[AtomicU64] =
            unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.sets * WAYS * WORDS) };
        let word = |at: usize| words.get(index * WORDS + at).map_or(0, |word| word.load(Ordering::Relaxed));
        SketchSlot {
            stamp: word(0),
            source: [word(1), word(2)],
            packets: word(3),
            bytes: word(4),
            missed: word(5),
            variance: word(6),
            variance_bytes: word(7),
        }
    }
}

fn pinned(instance: &InstanceName) -> Result<MapData, Error> {
    let pins = Pins::new(instance)?;
    let path = pins.maps().join("SKETCH");
    if !std::fs::exists(&path).map_err(|error| Error::file(&path, error))? {
        return Err(Error::NotAttached { instance: instance.to_string() });
    }
    pins.map("SKETCH")
}

/// The window that is being filled, and how long it will be.
///
/// # Errors
/// The clock can't be read.
pub fn current_window() -> Result<(u64, Nanos), Error> {
    let now = clock::monotonic()?.0;
    Ok((now / WINDOW, Nanos(WINDOW - now % WINDOW)))
}
