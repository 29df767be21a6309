//! Generations of the XDP program: their maps, their instances for each kind of interfaces, and test runs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use aya::{
    Ebpf,
    maps::{Array, Map, MapData, MapInfo, MapType},
    programs::{TestRun as _, TestRunOptions, Xdp},
};
use ratelimit_common::{
    bans,
    packet::{Address, LinkLayer, Packet},
    sketch,
    table::SLOTS,
    time::Nanos,
    wire::{
        Counter, DryRun, EVENT_BYTES, EventCounters, Globals, META_BYTES, RULE_NUMBERS, Reason, RuleCounters,
        Sampled, SetWords, TableCounters,
    },
};

use super::{
    Error, EventStatus, PacketCount, ProgramLog, Sketch, check_kernel, counters,
    instance::{Constants, OBJECT, PROGRAM, fill, into_kernel, load, program_of, set_rooms},
    kernel::Wire,
    kind::InterfaceKind,
    pins::{Pins, io_error},
    raw,
    system::check,
};
use crate::compile::Compiled;

/// Where the maps of a generation are pinned while another instance of its program is loaded.
const OWN_MAPS: &str = "GENERATION";

/// The maps that outlive a generation, and the sizes of their values.
const SHARED_MAPS: [(&str, usize); 17] = [
    ("BUCKETS", size_of::<SetWords>()),
    ("BANS", size_of::<SetWords>()),
    ("BAN_PREFIXES", size_of::<[u64; SLOTS]>()),
    ("BAN_LENGTHS", size_of::<bans::Lengths>()),
    ("BAN_RECORDS", size_of::<[bans::BanRecord; SLOTS]>()),
    ("BAN_TEXTS", bans::TEXT_BYTES),
    ("TRIAL", size_of::<u64>()),
    ("REASONS", size_of::<Sampled>()),
    ("RULE_COUNTERS", size_of::<RuleCounters>()),
    (RULE_BANS, size_of::<u64>()),
    (RULE_OBSERVED, size_of::<Counter>()),
    ("TABLE_COUNTERS", size_of::<TableCounters>()),
    ("META", META_BYTES),
    ("EVENTS", 0),
    ("EVENT_COUNTERS", size_of::<EventCounters>()),
    ("OBSERVED", size_of::<Sampled>()),
    ("SKETCH", size_of::<sketch::SketchSet>()),
];

/// Those that earlier versions of the same layout had not: whoever goes on with their maps makes them.
const MADE_LATER: [&str; 4] = ["BAN_RECORDS", "BAN_TEXTS", RULE_BANS, RULE_OBSERVED];

/// Where bans are counted by the rules that have made them.
pub(super) const RULE_BANS: &str = "RULE_BANS";

/// Where packets are counted by the rules that would have dropped them, but only observed.
pub(super) const RULE_OBSERVED: &str = "RULE_OBSERVED";

/// How many values a shared map has.
fn entries(name: &str, sets: u32) -> Result<u32, Error> {
    Ok(match name {
        "BUCKETS" => sets,
        "BANS" | "BAN_PREFIXES" | "BAN_RECORDS" => bans::SETS,
        "BAN_TEXTS" => bans::SETS * SLOTS as u32,
        "EVENTS" => EVENT_BYTES,
        "SKETCH" => sketch_sets()?,
        "REASONS" => Reason::ALL.len() as u32,
        "RULE_COUNTERS" | RULE_BANS | RULE_OBSERVED => RULE_NUMBERS as u32,
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
    if MADE_LATER.contains(&name) && !fs::exists(&path).map_err(|error| Error::file(&path, error))? {
        return Ok(());
    }
    let info = MapInfo::from_pin(&path)?;
    let (kind, flags) = match name {
        "BUCKETS" | "BANS" | "BAN_PREFIXES" | "BAN_LENGTHS" | "BAN_RECORDS" | "SKETCH" => {
            (MapType::Array, raw::MMAPABLE)
        }
        "BAN_TEXTS" => (MapType::Hash, raw::NO_PREALLOC),
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

/// A generation in the kernel, not yet attached to anything: an instance of the program for each kind of interfaces,
/// over the same maps.
#[derive(Debug)]
pub struct ProgramGeneration {
    /// The first one, through which the maps are reached.
    kind: InterfaceKind,
    ebpf: Ebpf,
    /// Those for other kinds, made when there is such an interface.
    others: Vec<(InterfaceKind, Ebpf)>,
    constants: Box<Constants>,
    /// The directory of pinned maps.
    shared: Option<PathBuf>,
}

/// What a packet got in [`ProgramGeneration::judge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// Whether the last packet passed.
    pub passed: bool,
    /// The average time of one run.
    pub time: Nanos,
}

impl ProgramGeneration {
    /// Loads the instance of a kind. `shared` is the directory of pinned maps to use; without one it gets maps of its
    /// own.
    pub(super) fn load(
        compiled: &Compiled,
        sets: u32,
        shared: Option<&Path>,
        kind: InterfaceKind,
    ) -> Result<Self, Error> {
        Self::load_from(OBJECT, compiled, sets, shared, kind)
    }

    pub(super) fn load_from(
        object: &[u8],
        compiled: &Compiled,
        sets: u32,
        shared: Option<&Path>,
        kind: InterfaceKind,
    ) -> Result<Self, Error> {
        let constants = Box::new(Constants::of(compiled));
        let globals = Wire(kind.globals(compiled.globals));
        let mut loader = constants.loader(&globals);
        loader.map_max_entries("BUCKETS", sets).map_max_entries("SKETCH", sketch_sets()?);
        set_rooms(&mut loader, compiled);
        for (name, _) in SHARED_MAPS {
            if let Some(directory) = shared {
                loader.map_pin_path(name, directory.join(name));
            }
        }
        let mut ebpf = load(loader, object)?;
        fill(&mut ebpf, compiled)?;
        into_kernel(&mut ebpf)?;
        Ok(Self { kind, ebpf, others: Vec::new(), constants, shared: shared.map(Path::to_owned) })
    }

    /// The program for interfaces of a kind. The first time that there is one, it is loaded.
    pub(super) fn program(&mut self, kind: InterfaceKind) -> Result<&mut Xdp, Error> {
        if self.kind == kind {
            return program_of(&mut self.ebpf);
        }
        let known = self.others.iter().position(|(other, _)| *other == kind);
        let place = match known {
            Some(place) => place,
            None => {
                self.others.push((kind, self.load_another(kind)?));
                self.others.len() - 1
            }
        };
        let (_, ebpf) = self.others.get_mut(place).ok_or(Error::Object("the program"))?;
        program_of(ebpf)
    }

    /// Whether a program is the one for interfaces of a kind.
    pub(super) fn is_for(&self, program: u32, kind: InterfaceKind) -> bool {
        let first = (self.kind == kind).then_some(&self.ebpf);
        let other = || self.others.iter().find(|(other, _)| *other == kind).map(|(_, ebpf)| ebpf);
        let found = first.or_else(other).and_then(|ebpf| ebpf.program(PROGRAM)?.info().ok());
        found.is_some_and(|found| found.id() == program)
    }

    /// Loads the instance of another kind, over all maps of the first one. aya takes maps from pins alone, so for this
    /// moment those that belong to the generation are pinned, too.
    fn load_another(&self, kind: InterfaceKind) -> Result<Ebpf, Error> {
        let shared = self.shared.as_deref().ok_or(Error::Object("pinned maps"))?;
        let own = shared.join(OWN_MAPS);
        // From a daemon that died here; as a rule there is none.
        let _ = fs::remove_dir_all(&own);
        fs::create_dir(&own).map_err(|error| Error::file(&own, error))?;
        let loaded = self.load_over(kind, shared, &own);
        fs::remove_dir_all(&own).map_err(|error| Error::file(&own, error))?;
        loaded
    }

    fn load_over(&self, kind: InterfaceKind, shared: &Path, own: &Path) -> Result<Ebpf, Error> {
        let globals = Wire(kind.globals(self.constants.globals()));
        let mut loader = self.constants.loader(&globals);
        for (name, map) in self.ebpf.maps() {
            if SHARED_MAPS.iter().any(|(shared, _)| *shared == name) {
                loader.map_pin_path(name, shared.join(name));
            } else if !name.starts_with('.') {
                let path = own.join(name);
                map.pin(&path).map_err(|error| Error::file(&path, io_error(&error)))?;
                loader.map_pin_path(name, path);
            }
            // The others are the constants, which are what differs.
        }
        let mut ebpf = load(loader, OBJECT)?;
        into_kernel(&mut ebpf)?;
        Ok(ebpf)
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
        Self::load_alone_from(object, compiled, is_dry_run, InterfaceKind::Ethernet)
    }

    /// The same as [`Self::load_alone`], for packets that begin like this.
    ///
    /// # Errors
    /// See [`Self::load_alone`].
    pub fn load_alone_for(compiled: &Compiled, is_dry_run: bool, link: LinkLayer) -> Result<Self, Error> {
        let kind = match link {
            LinkLayer::Ethernet => InterfaceKind::Ethernet,
            LinkLayer::RawIp => InterfaceKind::RawIp,
            LinkLayer::OuterGre => InterfaceKind::OuterGre,
        };
        Self::load_alone_from(OBJECT, compiled, is_dry_run, kind)
    }

    fn load_alone_from(
        object: &[u8],
        compiled: &Compiled,
        is_dry_run: bool,
        kind: InterfaceKind,
    ) -> Result<Self, Error> {
        check("load BPF programs")?;
        check_kernel()?;
        let globals = Globals { dry_run: is_dry_run.into(), ..compiled.globals };
        let sets = globals.set_mask as u32 + 1;
        Self::load_from(object, &Compiled { globals, ..compiled.clone() }, sets, None, kind)
    }

    pub(super) fn log(&mut self) -> Option<ProgramLog> {
        ProgramLog::of(&mut self.ebpf)
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

    pub(super) fn dry_runs(&mut self) -> Result<Array<&mut MapData, Wire<DryRun>>, Error> {
        Ok(self.map_mut("DRY_RUN")?.try_into()?)
    }

    /// Runs the program on a frame, `repeat` times.
    ///
    /// # Errors
    /// The kernel refuses the frame: it is shorter than an Ethernet header or larger than a page.
    pub fn judge(&self, frame: &[u8], repeat: u32) -> Result<TestRun, Error> {
        let options = TestRunOptions { data_in: Some(frame), repeat, ..TestRunOptions::new() };
        let program = self.ebpf.program(PROGRAM).ok_or(Error::Object("the program"))?;
        let program: &Xdp = program.try_into().map_err(|_| Error::Object("an XDP program"))?;
        let result = program.test_run(options).map_err(|error| Error::load(&error))?;
        Ok(TestRun { passed: result.return_value == 2, time: Nanos(result.duration.as_nanos() as u64) })
    }

    /// The program's number in the kernel, for those who ask the kernel more about it.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn program_id(&self) -> Result<u32, Error> {
        let program = self.ebpf.program(PROGRAM).ok_or(Error::Object("the program"))?;
        Ok(program.info().map_err(|error| Error::load(&error))?.id())
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

    /// Packets that the rule of this number passed, that it dropped, and that it would have dropped but only observed.
    ///
    /// # Errors
    /// A map can't be read.
    pub fn rule_counts(&self, number: u32) -> Result<[PacketCount; 3], Error> {
        let (passed, dropped) = counters::rule(self.map("RULE_COUNTERS")?, number)?;
        Ok([passed, dropped, counters::rule_observed(self.map(RULE_OBSERVED)?, number)?])
    }
}

/// What a dry run starts from.
pub(super) const NOTHING: DryRun = DryRun {
    clock: 0,
    wire_length: 0,
    matching: 0,
    excepted: 0,
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
