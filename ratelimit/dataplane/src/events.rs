//! Events of single packets, as the XDP program hands them over: only one process may read them, the daemon.

use std::os::fd::{AsRawFd, RawFd};

use aya::maps::{Map, MapData, RingBuf};
use nix::net::if_::if_indextoname;
use ratelimit_common::wire;

use super::{Error, clock, kernel, notes::read_state, pins::Pins};
use crate::policy::InstanceName;

/// The buffer of an instance.
pub struct EventReader {
    ring: RingBuf<MapData>,
    pins: Pins,
}

impl EventReader {
    /// Opens it. What is in it is old: it is thrown away.
    ///
    /// # Errors
    /// The instance is not attached, or its pins can't be used.
    pub fn open(instance: &InstanceName) -> Result<Self, Error> {
        let pins = Pins::new(instance)?;
        let ring = RingBuf::try_from(Map::RingBuf(pins.map("EVENTS")?))?;
        let mut events = Self { ring, pins };
        while events.next().is_some() {}
        Ok(events)
    }

    /// The next one that is there.
    #[expect(clippy::should_implement_trait, reason = "there may be more later")]
    pub fn next(&mut self) -> Option<wire::DropEvent> {
        loop {
            // It has another length only if another version's program wrote it.
            if let Some(event) = kernel::event(&self.ring.next()?) {
                return Some(event);
            }
        }
    }

    /// The numbers and names of the rules in force.
    #[must_use]
    pub fn rules(&self) -> Vec<(u32, String)> {
        let in_force = read_state(&self.pins).ok().flatten().and_then(|state| state.in_force);
        let rules = in_force.map(|in_force| in_force.rules).unwrap_or_default();
        rules.into_iter().map(|rule| (rule.number, rule.name)).collect()
    }
}

impl AsRawFd for EventReader {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

/// How many nanoseconds the Unix clock is ahead of the one that events are timed by, now.
///
/// # Errors
/// A clock can't be read.
pub fn unix_offset() -> Result<u64, Error> {
    Ok(clock::unix()?.0.saturating_sub(clock::monotonic()?.0))
}

/// The name of the interface with this index.
#[must_use]
pub fn interface_name(index: u32) -> Option<String> {
    if_indextoname(index).ok()?.into_string().ok().filter(|name| !name.is_empty())
}
