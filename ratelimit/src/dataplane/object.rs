//! The XDP program's object, and loading a generation of it.

use std::{
    os::fd::{AsFd as _, AsRawFd as _},
    path::Path,
};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, LpmTrie, Map, MapData, MapInfo, MapType, lpm_trie::Key},
    programs::{TestRun as _, TestRunOptions, Xdp},
};
use memmap2::MmapOptions;
use ratelimit_common::{
    bans,
    classify::Dimension,
    packet::{Address, Packet},
    sketch,
    table::SLOTS,
    time::Nanos,
    wire::{
        DryRun, EVENT_BYTES, EventCounters, Globals, META_BYTES, MOST_LIMITS, RULE_NUMBERS, Reason, Rule,
        RuleCounters, Sampled, SetWords, TableCounters,
    },
};

use super::{
    Count, Error, EventStatus, Log, Sketch, check_kernel, counters, error::verifier_log_level, kernel::Wire,
    pins::Pins, raw, system::check,
};
use crate::compile::Compiled;

/// Embedded, so that the binary needs no other file.
pub(super) static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit-xdp"));

const PROGRAM: &str = "ratelimit";

/// The maps that outlive a generation, and the sizes of their values.
const SHARED_MAPS: [(&str, usize); 13] = [
    ("BUCKETS", size_of::<SetWords>()),
    ("BANS", size_of::<SetWords>()),
    ("BAN_PREFIXES", size_of::<[u64; SLOTS]>()),
    ("BAN_LENGTHS", size_of::<bans::Lengths>()),
    ("TRIAL", size_of::<u64>()),
    ("REASONS", size_of::<Sampled>()),
    ("RULE_COUNTERS", size_of::<RuleCounters>()),
    ("TABLE_COUNTERS", size_of::<TableCounters>()),
    ("META", META_BYTES),
    ("EVENTS", 0),
    ("EVENT_COUNTERS", size_of::<EventCounters>()),
    ("OBSERVED", size_of::<Sampled>()),
    ("SKETCH", size_of::<sketch::Set>()),
];

/// How many values a shared map has.
fn entries(name: &str, sets: u32) -> Result<u32, Error> {
    Ok(match name {
        "BUCKETS" => sets,
        "BANS" | "BAN_PREFIXES" => bans::SETS,
        "EVENTS" => EVENT_BYTES,
        "SKETCH" => sketch_sets()?,
        "REASONS" => Reason::ALL.len() as u32,
        "RULE_COUNTERS" => RULE_NUMBERS as u32,
        _ => 1,
    })
}

/// Sets of the sketch, for all processors that there may be.
pub(super) fn sketch_sets() -> Result<u32, Error> {
    let processors = aya::util::nr_cpus()
        .map_err(|(_, source)| Error::System { what: "the number of processors", source })?;
    Ok(sketch::all_sets(processors as u32))
}

/// Whether what is pinned is what this version would pin: the loader takes whatever is there.
pub(super) fn check_pinned(pins: &Pins, sets: u32) -> Result<(), Error> {
    SHARED_MAPS.iter().try_for_each(|(name, _)| check_map(pins, &pins.maps(), name, sets))
}

/// Whether one of the maps, which is pinned in this directory, is what this version would pin.
pub(super) fn check_map(pins: &Pins, directory: &Path, name: &str, sets: u32) -> Result<(), Error> {
    let value_size = SHARED_MAPS.iter().find(|(shared, _)| *shared == name).map_or(0, |(_, size)| *size);
    let path = directory.join(name);
    let info = MapInfo::from_pin(&path)?;
    let (kind, flags) = match name {
        "BUCKETS" | "BANS" | "BAN_PREFIXES" | "BAN_LENGTHS" | "SKETCH" => (MapType::Array, raw::MMAPABLE),
        "META" | "TRIAL" => (MapType::Array, 0),
        "EVENTS" => (MapType::RingBuf, 0),
        _ => (MapType::PerCpuArray, 0),
    };
    let key_size = if kind == MapType::RingBuf { 0 } else { 4 };
    let found = (info.map_type()?, info.key_size(), info.value_size(), info.max_entries(), info.map_flags());
    let wanted = (kind, key_size, value_size as u32, entries(name, sets)?, flags);
    if found == wanted {
        return Ok(());
    }
    let what = format!("the map is {found:?} where this version needs {wanted:?}");
    Err(Error::Pinned { path, what, instance: pins.instance().to_string() })
}

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
        Self::load_from(OBJECT, compiled, sets, shared)
    }

    fn load_from(
        object: &[u8],
        compiled: &Compiled,
        sets: u32,
        shared: Option<&Path>,
    ) -> Result<Self, Error> {
        let globals = Wire(compiled.globals);
        let rules = padded(&compiled.limits);
        let log_level = Log::level();
        let mut loader = EbpfLoader::new();
        loader
            .override_global("AYA_LOG_LEVEL", &log_level, true)
            .verifier_log_level(verifier_log_level())
            .override_global("GLOBALS", &globals, true)
            .override_global("RULES", &rules, true)
            .override_global("RULE_INDEX", &compiled.index, true)
            .map_max_entries("BUCKETS", sets)
            .map_max_entries("SKETCH", sketch_sets()?)
            .map_max_entries("LISTS", room(&compiled.lists.words));
        for table in &compiled.tables {
            loader.map_max_entries(map_of(table.dimension), table.rows.len() as u32);
        }
        for ([v4, v6], prefixes) in PREFIX_MAPS.iter().zip(&compiled.prefixes) {
            loader.map_max_entries(v4, room(&prefixes.v4)).map_max_entries(v6, room(&prefixes.v6));
        }
        for (name, _) in SHARED_MAPS {
            if let Some(directory) = shared {
                loader.map_pin_path(name, directory.join(name));
            }
        }
        let mut ebpf = loader.load(object).map_err(|error| Error::load(&error))?;
        for ([v4, v6], prefixes) in PREFIX_MAPS.into_iter().zip(&compiled.prefixes) {
            fill(&mut ebpf, v4, prefixes.v4.iter().copied())?;
            fill(&mut ebpf, v6, prefixes.v6.iter().copied())?;
        }
        fill_words(&ebpf, "LISTS", &compiled.lists.words)?;
        for table in &compiled.tables {
            fill_words(&ebpf, map_of(table.dimension), &table.rows)?;
        }
        let mut generation = Self { ebpf };
        generation.program()?.load().map_err(|error| Error::load(&error))?;
        Ok(generation)
    }

    /// A generation with maps of its own, attached to nothing: for benchmarks, or for dry runs, see [`Self::dry_run`].
    ///
    /// # Errors
    /// The kernel refuses the program, or there is no permission to load one.
    pub fn load_alone(compiled: &Compiled, is_dry_run: bool) -> Result<Self, Error> {
        Self::load_object(OBJECT, compiled, is_dry_run)
    }

    /// The same from another object than the embedded one: for tests of what a kernel refuses.
    ///
    /// # Errors
    /// See [`Self::load_alone`].
    pub fn load_object(object: &[u8], compiled: &Compiled, is_dry_run: bool) -> Result<Self, Error> {
        check("load BPF programs")?;
        check_kernel()?;
        let globals = Globals { dry_run: is_dry_run.into(), ..compiled.globals };
        let sets = globals.set_mask as u32 + 1;
        Self::load_from(object, &Compiled { globals, ..compiled.clone() }, sets, None)
    }

    pub(super) fn program(&mut self) -> Result<&mut Xdp, Error> {
        let program = self.ebpf.program_mut(PROGRAM).ok_or(Error::Object("the program"))?;
        program.try_into().map_err(|_| Error::Object("an XDP program"))
    }

    pub(super) fn log(&mut self) -> Option<Log> {
        Log::of(&mut self.ebpf)
    }

    pub(super) fn map(&self, name: &'static str) -> Result<&Map, Error> {
        self.ebpf.map(name).ok_or(Error::Object(name))
    }

    pub(super) fn map_mut(&mut self, name: &'static str) -> Result<&mut Map, Error> {
        self.ebpf.map_mut(name).ok_or(Error::Object(name))
    }

    /// What a generation that was loaded for dry runs makes of a frame that comes at `clock` (on CLOCK_MONOTONIC).
    /// `wire_length` is what counts as its length, if not all of it is there.
    ///
    /// # Errors
    /// The kernel refuses the frame: see [`Self::judge`].
    pub fn dry_run(&mut self, frame: &[u8], wire_length: u64, clock: Nanos) -> Result<DryRun, Error> {
        let asked = DryRun { clock: clock.0, wire_length, ..NOTHING };
        self.dry_runs()?.set(0, Wire(asked), 0)?;
        self.judge(frame, 1)?;
        Ok(self.dry_runs()?.get(&0, 0)?.0)
    }

    fn dry_runs(&mut self) -> Result<Array<&mut MapData, Wire<DryRun>>, Error> {
        Ok(self.map_mut("DRY_RUN")?.try_into()?)
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

    /// How many instructions the verifier has followed; `None` if the kernel does not say, as before Linux 5.16.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn verified_instructions(&self) -> Result<Option<u32>, Error> {
        let program = self.ebpf.program(PROGRAM).ok_or(Error::Object("the program"))?;
        let info = program.info().map_err(|error| Error::load(&error))?;
        Ok(info.verified_instruction_count())
    }

    /// Events that it has handed over, and that were lost.
    ///
    /// # Errors
    /// The map can't be read.
    pub fn event_counts(&self) -> Result<EventStatus, Error> {
        counters::events(self.map("EVENT_COUNTERS")?)
    }

    /// The sources that it has seen most of.
    ///
    /// # Errors
    /// The map can't be read.
    pub fn sketch(&self) -> Result<Sketch, Error> {
        Sketch::map(self.map("SKETCH")?)
    }

    /// Packets that the rule of this number passed and dropped.
    ///
    /// # Errors
    /// The map can't be read.
    pub fn rule_counts(&self, number: u32) -> Result<(Count, Count), Error> {
        counters::rule(self.map("RULE_COUNTERS")?, number)
    }
}

fn padded(rules: &[Rule]) -> Wire<[u8; MOST_LIMITS * size_of::<Rule>()]> {
    let mut bytes = [0; MOST_LIMITS * size_of::<Rule>()];
    for (place, rule) in bytes.chunks_exact_mut(size_of::<Rule>()).zip(rules) {
        place.copy_from_slice(Wire(*rule).as_bytes());
    }
    Wire(bytes)
}

/// The table's map.
const fn map_of(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Protocol => "PROTOCOL",
        Dimension::SourcePort => "SOURCE_PORT",
        Dimension::DestinationPort => "DEST_PORT",
        Dimension::TcpFlags => "TCP_FLAGS",
        Dimension::IcmpType => "ICMP_TYPE",
        Dimension::Vlan => "VLAN",
        Dimension::Kind => "KIND",
        Dimension::Length => "LENGTH",
    }
}

/// The maps of the prefixes of sources and of destinations, for IPv4 and IPv6.
const PREFIX_MAPS: [[&str; 2]; 2] = [["SOURCE_V4", "SOURCE_V6"], ["DEST_V4", "DEST_V6"]];

/// A map can't be empty.
fn room<T>(entries: &[T]) -> u32 {
    entries.len().max(1) as u32
}

fn fill<K: aya::Pod, V: aya::Pod>(
    ebpf: &mut Ebpf,
    name: &'static str,
    prefixes: impl Iterator<Item = (K, u8, V)>,
) -> Result<(), Error> {
    let mut list: LpmTrie<_, K, V> = ebpf.map_mut(name).ok_or(Error::Object(name))?.try_into()?;
    for (address, length, value) in prefixes {
        list.insert(&Key::new(u32::from(length), address), value, 0)?;
    }
    Ok(())
}

/// By mmap: a system call for each of a hundred thousand words would take longer than all the rest.
fn fill_words(ebpf: &Ebpf, name: &'static str, words: &[u64]) -> Result<(), Error> {
    let Some(Map::Array(data)) = ebpf.map(name) else { return Err(Error::Object(name)) };
    if words.is_empty() {
        return Ok(());
    }
    let mapped = MmapOptions::new().len(size_of_val(words)).map_raw(data.fd().as_fd().as_raw_fd());
    let mapped = mapped.map_err(|source| Error::System { what: "mapping a table of rules", source })?;
    // SAFETY: the mapping has this many aligned words, and nobody else uses it yet.
    unsafe { mapped.as_mut_ptr().cast::<u64>().copy_from_nonoverlapping(words.as_ptr(), words.len()) };
    Ok(())
}

/// What a dry run starts from.
const NOTHING: DryRun = DryRun {
    clock: 0,
    wire_length: 0,
    matching: 0,
    denied: 0,
    reason: 0,
    packet: Packet {
        source: Address { bits: [0; 2], family: 0 },
        destination: Address { bits: [0; 2], family: 0 },
        vlans: [0; 2],
        protocol: 0,
        source_port: 0,
        destination_port: 0,
        tcp_flags: 0,
        icmp_type: 0,
        fragment: 0,
        malformed: 0,
        is_neighbour_discovery: 0,
    },
};
