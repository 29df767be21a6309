//! How a row is measured. Product, floor and references take turns in short bursts of BPF_PROG_TEST_RUN, of which the
//! thread's processor time counts; the tenth percentile is what a burst takes that nothing disturbs. Where code and
//! maps lie moves results by some nanoseconds, so all of it is done for several loads, and their mean counts.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use anyhow::{Context as _, Result, ensure};
use nix::time::{ClockId, clock_gettime};
use ratelimit::dataplane::ProgramGeneration;

use crate::{
    bpf::{self, END, Instruction, XDP_PASS},
    configure::{self, Lists},
    machine::{self, Executed},
    program::{OPEN_PROGRAM, open, run},
    rows::Row,
    source::{Compiled, floor},
};

/// The rungs of a row's ladder, by their numbers in floor.c. Rows with many sources have only those from the table on.
const RUNGS: [(&str, u32); 8] = [
    ("parse", 1),
    ("reason", 2),
    ("key", 3),
    ("search", 4),
    ("charge", 5),
    ("rule", 6),
    ("lists", 7),
    ("all", 8),
];
const RUNGS_OF_MANY: [(&str, u32); 3] = [("search", 4), ("charge", 5), ("all", 8)];
const TOP: [(&str, u32); 1] = [("all", 8)];

/// So many sources no cache holds: then bursts are longer.
const MANY: u32 = 10_000;

/// So many packets begin a burst and are not measured: the caches are others', and after a pause more packets are
/// samples.
const UNMEASURED: u32 = 50_000;

/// One program in a row.
pub struct Case {
    name: &'static str,
    sources: u32,
    program: Loaded,
    times: Vec<f64>,
}

enum Loaded {
    Reference(OwnedFd),
    Floor(Compiled),
    Product { program: OwnedFd, _generation: ProgramGeneration },
}

/// What came of a program.
#[derive(Clone)]
pub struct Figure {
    pub name: &'static str,
    /// Nanoseconds above a program that reads the clock, without the draws of random sources.
    pub above: f64,
    /// Half of what loads differ by.
    pub spread: f64,
    /// `None` if it can't be emulated; then the last field says why.
    pub executed: Option<Executed>,
    pub why_not: String,
}

/// What came of a row.
pub struct Figures {
    pub row: &'static Row,
    pub product: Figure,
    pub beside: Option<Figure>,
    /// From the lowest to the whole floor.
    pub rungs: Vec<Figure>,
}

impl Figures {
    /// The whole floor.
    pub fn floor(&self) -> Option<&Figure> {
        self.rungs.last()
    }
}

/// How thoroughly.
#[derive(Clone, Copy)]
pub struct Effort {
    pub loads: usize,
    pub rounds: usize,
    pub processor: usize,
}

impl Loaded {
    fn program(&self) -> Result<BorrowedFd<'_>> {
        match self {
            Self::Reference(program) | Self::Product { program, .. } => Ok(program.as_fd()),
            Self::Floor(floor) => floor.program(),
        }
    }
}

const REFERENCES: usize = 3;

pub fn measure(row: &'static Row, effort: Effort, lists: &Lists) -> Result<Figures> {
    let mut loads = Vec::new();
    for load in 0..effort.loads {
        loads.push(measure_load(row, effort, lists, load == 0).with_context(|| row.name.to_owned())?);
    }
    let count = loads[0].len();
    let mut figures = (0..count).map(|place| {
        let figures: Vec<&Figure> = loads.iter().map(|load| &load[place]).collect();
        mean(&figures)
    });
    let product = figures.next().context("the product's figure")?;
    let beside = row.beside.as_ref().and_then(|_| figures.next());
    Ok(Figures { row, product, beside, rungs: figures.collect() })
}

fn mean(figures: &[&Figure]) -> Figure {
    let all = || figures.iter().map(|figure| figure.above);
    let above = all().sum::<f64>() / figures.len() as f64;
    let spread = (all().fold(f64::MIN, f64::max) - all().fold(f64::MAX, f64::min)) / 2.0;
    Figure { above, spread, ..figures[0].clone() }
}

/// Product, what it is compared with, rungs.
fn measure_load(row: &'static Row, effort: Effort, lists: &Lists, is_first: bool) -> Result<Vec<Figure>> {
    let mut cases = references()?;
    cases.extend(load_all(row, lists)?);
    let frame = (row.frame)();
    for case in &cases {
        run(case.program.program()?, &frame, case.packets_before_all())?;
    }
    let executed: Vec<_> = cases.iter().map(|case| execute(case, &frame, effort)).collect();
    for round in 0..effort.rounds {
        let backwards = round % 2 == 1;
        for place in 0..cases.len() {
            let place = if backwards { cases.len() - 1 - place } else { place };
            cases[place].measure(&frame, row.sources > MANY)?;
        }
    }
    let tenths: Vec<f64> = cases.iter_mut().map(Case::tenth).collect();
    let [empty, clock, draw] = [tenths[0], tenths[1] - tenths[0], tenths[2] - tenths[1]];
    let figures = cases.iter().zip(tenths).zip(executed).skip(REFERENCES).map(|((case, tenth), executed)| {
        let (clocks, draws) = match &executed {
            Ok(executed) => (executed.clocks.min(1), executed.draws),
            Err(_) => (1, u32::from(case.sources > 1)),
        };
        let above = tenth - empty - f64::from(clocks) * clock - f64::from(draws) * draw;
        let why_not = executed.as_ref().err().filter(|_| is_first).map_or(String::new(), ToString::to_string);
        Figure { name: case.name, above, spread: 0.0, executed: executed.ok(), why_not }
    });
    Ok(figures.collect())
}

/// What a packet executes. An emulator that comes to another verdict than the kernel has not done what it should count.
fn execute(case: &Case, frame: &[u8], effort: Effort) -> Result<Executed> {
    let program = case.program.program()?;
    let executed = machine::execute(program, frame, effort.processor)?;
    let verdict = run(program, frame, 1)?;
    ensure!(
        executed.verdict == verdict,
        "its verdict is {} where the kernel's is {verdict}",
        executed.verdict
    );
    Ok(executed)
}

/// The numbers of helpers.
const CLOCK: i32 = 5;
const RANDOM: i32 = 7;

/// Calls a helper.
const fn call(helper: i32) -> Instruction {
    Instruction::new(0x85, [0, 0], 0, helper)
}

/// What reads nothing, the clock, and the clock and a random number.
fn references() -> Result<Vec<Case>> {
    let programs: [(&str, &[i32]); REFERENCES] =
        [("empty", &[]), ("clock", &[CLOCK]), ("draw", &[CLOCK, RANDOM])];
    let cases = programs.into_iter().map(|(name, helpers)| {
        let calls = helpers.iter().map(|&helper| call(helper));
        let program: Vec<_> = calls.chain([bpf::set(0, XDP_PASS), END]).collect();
        let program = bpf::load(&program, 0).context("loading needs root")?;
        Ok(Case { name, sources: 1, program: Loaded::Reference(program), times: Vec::new() })
    });
    cases.collect()
}

fn load_all(row: &'static Row, lists: &Lists) -> Result<Vec<Case>> {
    let mut cases = vec![product("product", row.network, row.sources, row.has_ban, lists)?];
    if let Some(beside) = &row.beside {
        cases.push(product(beside.name, beside.network, beside.sources, false, lists)?);
    }
    let Some(definitions) = row.floor else { return Ok(cases) };
    if let Some(beside) = row.beside.as_ref()
        && let Some(definitions) = beside.floor
    {
        cases.push(rung("floor beside", TOP[0].1, definitions, beside.sources)?);
    }
    for &(name, number) in rungs(row) {
        cases.push(rung(name, number, definitions, row.sources)?);
    }
    Ok(cases)
}

/// A row with several rules has no lower rung than all of them, and one without rules has none.
fn rungs(row: &Row) -> &'static [(&'static str, u32)] {
    let definitions = row.floor.unwrap_or_default();
    let is_whole = |definition: &&str| definition.starts_with("RULES=") || *definition == "NO_RULES";
    if definitions.iter().any(is_whole) {
        &TOP
    } else if row.sources > MANY {
        &RUNGS_OF_MANY
    } else {
        &RUNGS
    }
}

fn product(name: &'static str, network: &str, sources: u32, has_ban: bool, lists: &Lists) -> Result<Case> {
    let mut compiled = configure::compiled(network, lists)?;
    compiled.globals.random_sources = if sources == 1 { 0 } else { sources };
    let generation = ProgramGeneration::load_alone(&compiled, false).context("loading needs root")?;
    let program = open(OPEN_PROGRAM, generation.program_id()?).context("the product's program")?;
    if has_ban {
        configure::say_there_is_a_ban(program.as_fd())?;
    }
    Ok(Case {
        name,
        sources,
        program: Loaded::Product { program, _generation: generation },
        times: Vec::new(),
    })
}

fn rung(name: &'static str, rung: u32, definitions: &[&str], sources: u32) -> Result<Case> {
    let mut definitions: Vec<String> =
        definitions.iter().map(|definition| (*definition).to_owned()).collect();
    definitions.push(format!("RUNG={rung}"));
    if sources > 1 {
        definitions.push(format!("SOURCES={sources}u"));
    }
    Ok(Case { name, sources, program: Loaded::Floor(floor(&definitions)?), times: Vec::new() })
}

impl Case {
    /// Until nearly every source has its bucket.
    fn packets_before_all(&self) -> u32 {
        if self.sources > MANY { self.sources.saturating_mul(4).min(12_000_000) } else { 20_000 }
    }

    fn measure(&mut self, frame: &[u8], is_of_many: bool) -> Result<()> {
        let program = self.program.program()?;
        let repeat = if is_of_many { 50_000 } else { 10_000 };
        run(program, frame, UNMEASURED)?;
        let before = processor_time()?;
        run(program, frame, repeat)?;
        self.times.push((processor_time()? - before) / f64::from(repeat));
        Ok(())
    }

    fn tenth(&mut self) -> f64 {
        self.times.sort_unstable_by(f64::total_cmp);
        self.times[self.times.len() / 10]
    }
}

/// This thread's processor time, in nanoseconds.
fn processor_time() -> Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("the thread's clock")?;
    Ok(time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}
