//! Packets a second and core that a limiter judges, and what it costs those that pass: `cargo xtask bench network`, as root.
//!
//! One core sends over a veth pair as fast as it can, another takes in what it has time for; the limiter is on the
//! receiver's end. Each case has a wire and a network namespace of its own. All cases take turns, several times, and the
//! median of each is shown.

mod assembly;
#[path = "../support/bpf.rs"]
mod bpf;
mod filter;
mod generator;
mod lab;
mod report;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use filter::{Filter, Installed, Limit};
use generator::{Generator, PACKETS};
use lab::{Cores, Receiver};
use nix::unistd::Pid;

const ROUNDS: usize = 7;

/// From how many sources the packets come.
const SOURCES: [u16; 3] = [1, 1_000, 50_000];

const OVER_THE_LIMIT: [Filter; 7] = [
    Filter::DropOnly,
    Filter::ClockOnly,
    Filter::Ratelimit,
    Filter::RatelimitGeneric,
    Filter::NftIngress,
    Filter::NftPrerouting,
    Filter::Hashlimit,
];

/// One source would be over the highest limit that all of them have.
const PASSING_SOURCES: [u16; 2] = [1_000, 50_000];

const PASSING: [Filter; 7] = [
    Filter::Nothing,
    Filter::ClockOnly,
    Filter::Ratelimit,
    Filter::RatelimitGeneric,
    Filter::NftIngress,
    Filter::NftPrerouting,
    Filter::Hashlimit,
];

/// Something to measure.
pub struct Case {
    filter: Filter,
    limit: Limit,
    sources: u16,
    receiver: Receiver,
    generator: Generator,
    samples: Vec<Sample>,
    _installed: Installed,
}

/// What came of one flood.
#[derive(Clone, Copy)]
pub struct Sample {
    /// Millions of packets that the receiver took in, for each second that its thread worked.
    millions: f64,
    /// The share of what was sent that it took in.
    taken_in: f64,
    /// The share of what it took in that passed.
    passed: f64,
}

/// What the receiver has done so far.
struct Counted {
    received: u64,
    passed: u64,
    worked: Duration,
}

fn main() -> Result<()> {
    lab::enter()?;
    let cores = Cores::choose()?;
    lab::pin(Pid::from_raw(0), cores.generator)?;
    let mut cases = cases(cores)?;
    println!("{}", report::method(cores)?);
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        for case in &mut cases {
            case.measure().with_context(|| format!("{}, {} sources", case.filter.name(), case.sources))?;
        }
    }
    print!("{}", report::figures(&cases));
    Ok(())
}

fn cases(cores: Cores) -> Result<Vec<Case>> {
    let over = OVER_THE_LIMIT.iter().flat_map(|&filter| SOURCES.map(|sources| (filter, Limit::Low, sources)));
    let passing =
        PASSING.iter().flat_map(|&filter| PASSING_SOURCES.map(|sources| (filter, Limit::High, sources)));
    let numbered = over.chain(passing).enumerate();
    numbered.map(|(number, what)| Case::new(number, what, cores)).collect()
}

impl Case {
    fn new(number: usize, (filter, limit, sources): (Filter, Limit, u16), cores: Cores) -> Result<Self> {
        let receiver = Receiver::new(number, cores.receiver)?;
        let generator = Generator::new(receiver.near, sources).context("loading the generator")?;
        let installed = receiver.enter(|| filter.install(&receiver, limit));
        let installed = installed.with_context(|| format!("installing: {}", filter.name()))?;
        // Not measured: every source gets its bucket, and all but one packet of each are over the limit from here on.
        generator.flood().context("sending")?;
        Ok(Self { filter, limit, sources, receiver, generator, samples: Vec::new(), _installed: installed })
    }

    fn measure(&mut self) -> Result<()> {
        let before = self.counted()?;
        self.generator.flood().context("sending")?;
        let after = self.counted()?;
        let received = (after.received - before.received) as f64;
        let sample = Sample {
            millions: received / (after.worked - before.worked).as_secs_f64() / 1e6,
            taken_in: received / f64::from(PACKETS),
            passed: (after.passed - before.passed) as f64 / received,
        };
        let does_what_it_should = match self.limit {
            Limit::Low => sample.passed < 0.01,
            Limit::High => sample.passed > 0.999,
        };
        ensure!(does_what_it_should, "{:.2} % of the packets passed", sample.passed * 100.0);
        self.samples.push(sample);
        Ok(())
    }

    fn counted(&self) -> Result<Counted> {
        Ok(Counted {
            received: self.receiver.received()?,
            passed: self.receiver.enter(filter::passed)?,
            worked: self.receiver.worked()?,
        })
    }

    /// The sample in the middle.
    fn median(&self) -> Sample {
        let mut samples = self.samples.clone();
        samples.sort_unstable_by(|one, other| one.millions.total_cmp(&other.millions));
        samples[samples.len() / 2]
    }
}
