//! Giving up the rights that the daemon does not need once it has begun.

use std::collections::HashSet;

use caps::{CapSet, Capability};
use tracing::warn;

/// What reloading and attaching again need.
const KEPT: [Capability; 3] = [Capability::CAP_BPF, Capability::CAP_NET_ADMIN, Capability::CAP_PERFMON];

/// Keeps these and gives up all others, in this thread and those that it starts. What can't be given up is said: the
/// limits matter more.
pub fn keep_few() {
    if let Err(error) = try_keep_few() {
        warn!(%error, "rights that are not needed can't be given up");
    }
}

fn try_keep_few() -> Result<(), caps::errors::CapsError> {
    let has = caps::read(None, CapSet::Permitted)?;
    let kept: HashSet<Capability> = KEPT.into_iter().filter(|wanted| has.contains(wanted)).collect();
    if has == kept {
        return Ok(());
    }
    // So that no program that is started from here could get them back.
    if has.contains(&Capability::CAP_SETPCAP) {
        for capability in caps::all().difference(&kept) {
            // One that this kernel does not know is not there.
            let _ = caps::drop(None, CapSet::Bounding, *capability);
        }
    }
    caps::set(None, CapSet::Inheritable, &HashSet::new())?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)
}
