//! The kernel side: loads the XDP program, attaches it, keeps its maps, reads its counters. The only crate that knows
//! aya.
//!
//! Everything that must outlive the daemon is pinned: a daemon that dies leaves the limits in force, and the next one
//! adopts buckets, counters and links.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod attach;
mod bans;
mod bpffs;
mod buckets;
mod carry;
mod clock;
pub mod compile;
mod counters;
mod coverage;
mod denied;
mod error;
mod events;
mod features;
mod generation;
mod instance;
mod kernel;
mod kind;
mod list_sizes;
mod lists;
mod log;
mod lookup;
mod netlink;
mod notes;
mod offloads;
mod pins;
mod raw;
mod sets;
mod sketch;
mod source_lists;
mod stack;
mod start;
mod state;
mod status;
mod system;
mod traces;
mod trial;
mod windows;

pub use self::{
    attach::Attachment,
    bans::{BanError, BanInForce, BanReason, BanReasonError, BanStatus, Banned, Bans, Maker, NewBan, around},
    clock::WallClock,
    counters::PacketCount,
    coverage::check_interface,
    denied::DeniedCount,
    error::{ADVICE, Error},
    events::{EventReader, interface_name, unix_offset},
    features::{Feature, check_kernel, refuse_without},
    generation::{ProgramGeneration, TestRun},
    instance::OBJECT,
    list_sizes::{ListSize, sizes as list_sizes},
    log::ProgramLog,
    lookup::BucketStatus,
    netlink::AttachedMode,
    offloads::{Requirements, warnings},
    sketch::{SeenSet, Sketch, current_window},
    source_lists::{SourceList, SourceLists},
    start::{Changes, Claim, Dataplane, Wanted, config_path},
    state::{DaemonAddress, LoadedPolicy, RuleInForce},
    status::{EventStatus, InstanceStatus, ReasonStatus, RuleStatus, TableStatus, TrialStatus, status},
    trial::{TRIED_AGAIN, TrialState, WantedTrial, confirm, everything_passes, is_in_force},
};
pub use self::{
    clock::monotonic,
    error::in_one_line,
    traces::{PacketPaths, Traces},
};
use self::{notes::read_state, pins::Pins, system::check};
use ratelimit_limiter::text;
use ratelimit_policy as policy;

use crate::policy::InstanceName;

/// Takes an instance without a daemon off all interfaces and removes all that was pinned.
///
/// # Errors
/// There is no such instance, or a daemon serves it.
pub fn detach(instance: &InstanceName) -> Result<(), Error> {
    let pins = pins_to_detach(instance)?;
    let _lock = pins.lock().map_err(|error| notes::with_process(&pins, error))?;
    pins.remove_all()
}

/// The same for an instance whose daemon does not answer; it goes on without limits in the kernel if it ever wakes up.
///
/// # Errors
/// There is no such instance.
pub fn detach_by_force(instance: &InstanceName) -> Result<(), Error> {
    pins_to_detach(instance)?.remove_all()
}

fn pins_to_detach(instance: &InstanceName) -> Result<Pins, Error> {
    check("take limits off")?;
    let pins = Pins::new(instance)?;
    if pins.exist()? { Ok(pins) } else { Err(Error::NotAttached { instance: instance.to_string() }) }
}

/// The names of the instances that are attached, or about to be.
///
/// # Errors
/// This user may not look.
pub fn instances() -> std::io::Result<Vec<String>> {
    Pins::instances()
}

/// The daemon that serves an instance, as far as its notes tell, and whether it still does.
///
/// # Errors
/// The pins can't be read.
pub fn daemon(instance: &InstanceName) -> Result<(Option<DaemonAddress>, bool), Error> {
    let pins = Pins::new(instance)?;
    Ok((read_state(&pins)?.and_then(|state| state.daemon), pins.is_locked()?))
}
