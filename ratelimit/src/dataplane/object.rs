//! The XDP program's object, and loading a generation of it.

use std::path::Path;

use aya::{
    Ebpf, EbpfLoader, VerifierLogLevel,
    maps::{Array, LpmTrie, MapData, MapInfo, MapType, lpm_trie::Key},
    programs::{TestRun as _, TestRunOptions, Xdp},
};
use ratelimit_common::{
    time::Nanos,
    wire::{
        Counter, Globals, META_BYTES, MOST_RULES, RULE_NUMBERS, Reason, Rule, RuleCounters, SetWords,
        TableCounters,
    },
};

use super::{Count, Error, Log, counters, kernel::Wire, pins::Pins};
use crate::compile::Compiled;

/// Embedded, so that the binary needs no other file.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit-xdp"));

const PROGRAM: &str = "ratelimit";

/// The maps that outlive a generation, and the sizes of their values.
const SHARED_MAPS: [(&str, usize); 5] = [
    ("BUCKETS", size_of::<SetWords>()),
    ("REASONS", size_of::<Counter>()),
    ("RULE_COUNTERS", size_of::<RuleCounters>()),
    ("TABLE_COUNTERS", size_of::<TableCounters>()),
    ("META", META_BYTES),
];

/// How many values a shared map has.
fn entries(name: &str, sets: u32) -> u32 {
    match name {
        "BUCKETS" => sets,
        "REASONS" => Reason::ALL.len() as u32,
        "RULE_COUNTERS" => RULE_NUMBERS as u32,
        _ => 1,
    }
}

/// Whether what is pinned is what this version would pin: the loader takes whatever is there.
pub(super) fn check_pinned(pins: &Pins, sets: u32) -> Result<(), Error> {
    for (name, value_size) in SHARED_MAPS {
        let path = pins.maps().join(name);
        let info = MapInfo::from_pin(&path)?;
        let kind = if matches!(name, "BUCKETS" | "META") { MapType::Array } else { MapType::PerCpuArray };
        let flags = if name == "BUCKETS" { BPF_F_MMAPABLE } else { 0 };
        let found =
            (info.map_type()?, info.key_size(), info.value_size(), info.max_entries(), info.map_flags());
        let wanted = (kind, 4, value_size as u32, entries(name, sets), flags);
        if found != wanted {
            let what = format!("the map is {found:?} where this version needs {wanted:?}");
            return Err(Error::Pinned { path, what, instance: pins.instance().to_string() });
        }
    }
    Ok(())
}

/// From the kernel's interface: user space may map the array's memory.
const BPF_F_MMAPABLE: u32 = 1 << 10;

/// A generation in the kernel, not yet attached to anything.
#[derive(Debug)]
pub struct Generation {
    ebpf: Ebpf,
}

/// What a packet got in [`Generation::judge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Whether the last packet passed.
    pub passed: bool,
    /// The average time of one run.
    pub time: Nanos,
}

impl Generation {
    /// Loads the program. `shared` is the directory of pinned maps to use; without one it gets maps of its own.
    pub(super) fn load(compiled: &Compiled, sets: u32, shared: Option<&Path>) -> Result<Self, Error> {
        let globals = Wire(compiled.globals);
        let rules = padded(&compiled.rules);
        let log_level = Log::level();
        let mut loader = EbpfLoader::new();
        loader
            .override_global("AYA_LOG_LEVEL", &log_level, true)
            .verifier_log_level(VerifierLogLevel::STATS)
            .override_global("GLOBALS", &globals, true)
            .override_global("RULES", &rules, true)
            .override_global("RULE_INDEX", &compiled.index, true)
            .map_max_entries("BUCKETS", sets)
            .map_max_entries("ALLOW_V4", compiled.allow_v4.len().max(1) as u32)
            .map_max_entries("ALLOW_V6", compiled.allow_v6.len().max(1) as u32);
        for (name, _) in SHARED_MAPS {
            if let Some(directory) = shared {
                loader.map_pin_path(name, directory.join(name));
            }
        }
        let mut ebpf = loader.load(OBJECT).map_err(|error| Error::load(&error))?;
        fill(&mut ebpf, "ALLOW_V4", &compiled.allow_v4)?;
        fill(&mut ebpf, "ALLOW_V6", &compiled.allow_v6)?;
        let mut generation = Self { ebpf };
        generation.program()?.load().map_err(|error| Error::load(&error))?;
        Ok(generation)
    }

    /// A generation with maps of its own, attached to nothing: for dry runs, tests and benchmarks. With `test_clock`, its
    /// time comes from [`Self::set_clock`].
    ///
    /// # Errors
    /// The kernel refuses the program, or there is no permission to load one.
    pub fn load_alone(compiled: &Compiled, test_clock: bool) -> Result<Self, Error> {
        let globals = Globals { test_clock: test_clock.into(), ..compiled.globals };
        let sets = globals.set_mask as u32 + 1;
        Self::load(&Compiled { globals, ..compiled.clone() }, sets, None)
    }

    pub(super) fn program(&mut self) -> Result<&mut Xdp, Error> {
        let program = self.ebpf.program_mut(PROGRAM).ok_or(Error::Object("the program"))?;
        program.try_into().map_err(|_| Error::Object("an XDP program"))
    }

    pub(super) fn log(&mut self) -> Option<Log> {
        Log::of(&mut self.ebpf)
    }

    pub(super) fn map(&self, name: &'static str) -> Result<&aya::maps::Map, Error> {
        self.ebpf.map(name).ok_or(Error::Object(name))
    }

    pub(super) fn map_mut(&mut self, name: &'static str) -> Result<&mut aya::maps::Map, Error> {
        self.ebpf.map_mut(name).ok_or(Error::Object(name))
    }

    /// Sets the clock of a generation that was loaded with one: a time on CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// The map can't be written.
    pub fn set_clock(&mut self, time: Nanos) -> Result<(), Error> {
        let mut clock: Array<&mut MapData, u64> = self.map_mut("TEST_CLOCK")?.try_into()?;
        Ok(clock.set(0, time.0, 0)?)
    }

    /// Runs the program on a frame, `repeat` times.
    ///
    /// # Errors
    /// The kernel refuses the frame: it is shorter than an Ethernet header or larger than a page.
    pub fn judge(&self, frame: &[u8], repeat: u32) -> Result<Judged, Error> {
        let options = TestRunOptions { data_in: Some(frame), repeat, ..TestRunOptions::new() };
        let program = self.ebpf.program(PROGRAM).ok_or(Error::Object("the program"))?;
        let program: &Xdp = program.try_into().map_err(|_| Error::Object("an XDP program"))?;
        let result = program.test_run(options).map_err(|error| Error::load(&error))?;
        Ok(Judged { passed: result.return_value == 2, time: Nanos(result.duration.as_nanos() as u64) })
    }

    /// Packets that the rule of this number passed and dropped.
    ///
    /// # Errors
    /// The map can't be read.
    pub fn rule_counts(&self, number: u32) -> Result<(Count, Count), Error> {
        counters::rule(self.map("RULE_COUNTERS")?, number)
    }
}

fn padded(rules: &[Rule]) -> Wire<[u8; MOST_RULES * size_of::<Rule>()]> {
    let mut bytes = [0; MOST_RULES * size_of::<Rule>()];
    for (place, rule) in bytes.chunks_exact_mut(size_of::<Rule>()).zip(rules) {
        place.copy_from_slice(Wire(*rule).as_bytes());
    }
    Wire(bytes)
}

fn fill<K: aya::Pod>(ebpf: &mut Ebpf, name: &'static str, prefixes: &[(K, u8)]) -> Result<(), Error> {
    let mut list: LpmTrie<_, K, u8> = ebpf.map_mut(name).ok_or(Error::Object(name))?.try_into()?;
    for (address, length) in prefixes {
        list.insert(&Key::new(u32::from(*length), *address), 1, 0)?;
    }
    Ok(())
}
