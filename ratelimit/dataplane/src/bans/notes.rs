//! What is kept of bans besides their records: names of rules on requests, and reasons. They are in a map of their own,
//! which takes memory only for those that there are.

use std::sync::{Mutex, PoisonError};

use aya::maps::{HashMap, Map, MapData};
use ratelimit_common::bans::{BanRecord, TEXT_BYTES};

use super::maker::{BanReason, MOST_NAME, beginning};
use crate::{Error, kernel::Wire};

/// What is kept of a ban besides its record.
pub(super) struct BanNote {
    pub name: String,
    pub reason: Option<BanReason>,
}

impl BanNote {
    /// That of the ban with this state. Whoever makes a ban may die before its text is kept, while that of an earlier
    /// one is there.
    fn from_bytes(bytes: &[u8; TEXT_BYTES], state: u64) -> Option<Self> {
        let (its_state, rest) = bytes.split_first_chunk()?;
        let (name, reason) = rest.split_at_checked(MOST_NAME)?;
        let text = |bytes: &[u8]| {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        let is_its = u64::from_ne_bytes(*its_state) == state;
        is_its.then(|| Self { name: text(name), reason: text(reason).parse().ok() })
    }
}

fn to_bytes(state: u64, name: &str, reason: Option<&BanReason>) -> [u8; TEXT_BYTES] {
    let mut bytes = [0; TEXT_BYTES];
    let reason = reason.map_or("", BanReason::as_str);
    let parts =
        [(0, &state.to_ne_bytes()[..]), (8, beginning(name).as_bytes()), (8 + MOST_NAME, reason.as_bytes())];
    for (start, part) in parts {
        if let Some(room) = bytes.get_mut(start..start + part.len()) {
            room.copy_from_slice(part);
        }
    }
    bytes
}

/// Those of all bans, by their slots.
#[derive(Debug)]
pub(super) struct BanNotes(Mutex<Kept>);

type Kept = HashMap<MapData, u32, Wire<[u8; TEXT_BYTES]>>;

impl BanNotes {
    pub(super) fn new(map: MapData) -> Result<Self, Error> {
        Ok(Self(Mutex::new(Map::HashMap(map).try_into()?)))
    }

    /// The text of the ban in a slot; one of an earlier ban there is none.
    pub(super) fn get(&self, slot: usize, record: &BanRecord) -> Option<BanNote> {
        let bytes = self.with(|kept| kept.get(&u32::try_from(slot).ok()?, 0).ok())?.0;
        BanNote::from_bytes(&bytes, record.state)
    }

    /// Keeps the text of the ban in a slot.
    pub(super) fn set(
        &self,
        slot: usize,
        state: u64,
        name: &str,
        reason: Option<&BanReason>,
    ) -> Result<(), Error> {
        let bytes = to_bytes(state, name, reason);
        let slot = u32::try_from(slot).map_err(|_| Error::Object("a slot of the table of bans"))?;
        Ok(self.with(|kept| kept.insert(slot, Wire(bytes), 0))?)
    }

    fn with<T>(&self, what: impl FnOnce(&mut Kept) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_length_are_kept_and_those_of_earlier_bans_are_not_shown() {
        let (name, reason) = ("é".repeat(200), "a".repeat(64));
        for (name, reason) in [("", None), ("d.client", None), (&name[..], Some(&reason[..]))] {
            let reason: Option<BanReason> = reason.map(|reason| reason.parse().unwrap());
            let bytes = to_bytes(7, name, reason.as_ref());
            let note = BanNote::from_bytes(&bytes, 7).unwrap();
            assert_eq!((&note.name[..], note.reason), (beginning(name), reason));
            assert!(BanNote::from_bytes(&bytes, 8).is_none());
        }
    }
}
