//! Test runs of a generation with a clock from outside, and all that they leave behind: for tests that compare
//! generations.

use std::sync::atomic::Ordering;

use ratelimit_common::{
    time::Nanos,
    wire::{DryRun, Globals, RULE_NUMBERS, Reason, TEST_CLOCK},
};

use super::{
    Error, PacketCount, ProgramGeneration, check_kernel, counters, generation::NOTHING, instance::OBJECT,
    kernel::Wire, kind::InterfaceKind, sets::Sets,
};
use crate::compile::Compiled;

/// The paths that the packets of a generation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketPaths {
    /// The fast one, and the slow one if something about them is unusual.
    All,
    /// The slow one.
    Slow,
}

/// All that packets leave behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// Key and state of each slot.
    pub buckets: Vec<[u64; 2]>,
    /// The packets of each reason.
    pub reasons: Vec<PacketCount>,
    /// The packets that each rule has passed, that it has dropped, and that it has only observed.
    pub rules: Vec<[PacketCount; 3]>,
}

impl ProgramGeneration {
    /// A generation with maps of its own, attached to nothing, whose time is set by [`Self::set_clock`].
    ///
    /// # Errors
    /// The kernel refuses the program, or there is no permission to load one.
    pub fn load_with_clock(compiled: &Compiled, ways: PacketPaths) -> Result<Self, Error> {
        check_kernel()?;
        // Rules on trial always take the slow path, and this trial does not end.
        let is_on_trial = u32::from(ways == PacketPaths::Slow);
        let globals = Globals { dry_run: TEST_CLOCK, is_on_trial, ..compiled.globals };
        let sets = globals.set_mask as u32 + 1;
        Self::load_from(
            OBJECT,
            &Compiled { globals, ..compiled.clone() },
            sets,
            None,
            InterfaceKind::Ethernet,
        )
    }

    /// What the time is on CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// The map can't be written.
    pub fn set_clock(&mut self, clock: Nanos) -> Result<(), Error> {
        let asked = DryRun { clock: clock.0, ..NOTHING };
        Ok(self.dry_runs()?.set(0, Wire(asked), 0)?)
    }

    /// What the packets so far have left behind.
    ///
    /// # Errors
    /// A map can't be read.
    pub fn traces(&self, sets: u32) -> Result<Traces, Error> {
        let table = Sets::map(self.map("BUCKETS")?, sets)?;
        let word = |[key, state]: &[_; 2]| [load(key), load(state)];
        let reasons = self.map("REASONS")?;
        Ok(Traces {
            buckets: table.slots().iter().map(word).collect(),
            reasons: Reason::ALL
                .into_iter()
                .map(|reason| counters::reason(reasons, reason))
                .collect::<Result<_, _>>()?,
            rules: (0..RULE_NUMBERS as u32)
                .map(|number| self.rule_counts(number))
                .collect::<Result<_, _>>()?,
        })
    }
}

fn load(word: &std::sync::atomic::AtomicU64) -> u64 {
    word.load(Ordering::Acquire)
}
