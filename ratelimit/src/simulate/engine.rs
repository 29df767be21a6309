//! What would become of frames: the rules' decisions without an interface.

mod bans;
mod host;
mod table;

use std::num::NonZeroU32;

use ratelimit_common::{
    packet::{NO_VLAN, NOT_IP, NotIp, Packet},
    table::{SLOTS, Secret},
    time::Nanos,
    wire::{DryRun, Reason},
};

pub use self::host::HostEngine;
use crate::{
    compile::{Compiled, TableFacts, compile, owners},
    dataplane::{self, ProgramGeneration},
    policy::Network,
};

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameVerdict {
    /// What the parser found.
    pub packet: Result<Packet, NotIp>,
    /// The bits of the rules that match and do not except it.
    pub matching: u64,
    /// The bits of those that would match if they did not except it.
    pub excepted: u64,
    /// The bits of those that denied it, as far as they were asked.
    pub denied: u64,
    /// Why it passed or was dropped.
    pub reason: Reason,
}

/// Something that judges frames.
pub trait FrameEngine {
    /// Judges a frame that comes at `time` after the first one.
    ///
    /// # Errors
    /// The kernel refuses to run its program on it.
    fn judge(
        &mut self,
        frame: &[u8],
        wire_length: u64,
        time: Nanos,
    ) -> Result<FrameVerdict, dataplane::Error>;
}

/// Compiles a network's rules for frames of which the first one comes at `start`, since the Unix epoch.
#[must_use]
pub fn compile_for(network: &Network, start: Nanos) -> Compiled {
    let facts = TableFacts {
        made_at: MADE_AT,
        made_at_unix: start,
        secret: Secret::new(SECRET),
        sets: network.table.slots() / SLOTS as u32,
    };
    let numbers: Vec<u32> = (NonZeroU32::MIN.get()..).take(owners(&network.rules).count()).collect();
    compile(network, &facts, &numbers)
}

/// CLOCK_MONOTONIC when the first frame comes.
const MADE_AT: Nanos = Nanos::SECOND;

/// The same each time, so that the same capture gives the same answers.
const SECRET: [u64; 4] =
    [0x6a09_e667_f3bc_c908, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

/// The loaded program.
#[derive(Debug)]
pub struct KernelEngine(ProgramGeneration);

impl KernelEngine {
    /// Loads the program; needs the rights to.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn load(compiled: &Compiled) -> Result<Self, dataplane::Error> {
        ProgramGeneration::load_alone(compiled, true).map(Self)
    }
}

/// A test run takes no less.
const LEAST_BYTES: usize = 14;

/// Nor much more than twice that; nothing behind it is ever read.
const MOST_BYTES: usize = 1 << 15;

impl FrameEngine for KernelEngine {
    fn judge(
        &mut self,
        frame: &[u8],
        wire_length: u64,
        time: Nanos,
    ) -> Result<FrameVerdict, dataplane::Error> {
        if frame.len() < LEAST_BYTES {
            let not_ip = NotIp { vlans: [NO_VLAN; 2], hides: 0 };
            return Ok(FrameVerdict {
                packet: Err(not_ip),
                matching: 0,
                excepted: 0,
                denied: 0,
                reason: Reason::NotIp,
            });
        }
        let frame = frame.get(..MOST_BYTES).unwrap_or(frame);
        let found = self.0.dry_run(frame, wire_length, Nanos(MADE_AT.0 + time.0))?;
        let reason = Reason::of(found.reason).ok_or(dataplane::Error::Object("a reason"))?;
        let not_ip = NotIp { vlans: found.packet.vlans, hides: (reason == Reason::MalformedDropped).into() };
        let packet = if found.packet.protocol == NOT_IP { Err(not_ip) } else { Ok(found.packet) };
        let DryRun { matching, excepted, denied, .. } = found;
        Ok(FrameVerdict { packet, matching, excepted, denied, reason })
    }
}
