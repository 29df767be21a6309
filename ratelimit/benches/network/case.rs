//! One thing to measure: traffic, a filter, and what came of each flood.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::{
    figure::Figure,
    filter::{self, Filter, Installed, Limit},
    generator::{Generator, Sizes},
    lab::{Cores, Receiver},
};

/// What is sent, and what is to become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Small packets over their limits.
    Dropped,
    /// Small packets that pass.
    Passing,
    /// Packets of a mix of sizes that pass.
    Mix,
}

/// What arguments are compared with.
pub fn name(filter: Filter, traffic: Traffic, sources: u16) -> String {
    let traffic = match traffic {
        Traffic::Dropped => "dropped",
        Traffic::Passing => "passing",
        Traffic::Mix => "mix",
    };
    format!("{traffic}, {}, {sources} sources", filter.name())
}

/// Something to measure.
pub struct Case {
    pub filter: Filter,
    pub traffic: Traffic,
    pub sources: u16,
    receiver: Receiver,
    generator: Generator,
    /// Nanoseconds of the receiver's processor time a packet.
    nanos: Vec<f64>,
    /// How often the receiver waited for packets, for each of them.
    waits: Vec<f64>,
    installed: Installed,
}

/// What the receiver has done so far.
struct Counted {
    received: u64,
    passed: u64,
    worked: Duration,
    waits: u64,
}

/// More than any filter needs.
const MOST_FLOODS: u32 = 50;

/// Who waits more often than once for so many packets is faster than the sender. Each wait takes processor time, a few
/// microseconds as a rule, so the figure is more than the filter takes.
const PACKETS_A_WAIT: f64 = 500.0;

impl Case {
    pub fn new(number: usize, filter: Filter, traffic: Traffic, sources: u16, cores: Cores) -> Result<Self> {
        let receiver = Receiver::new(number, cores.receiver)?;
        let sizes = if traffic == Traffic::Mix { Sizes::Mix } else { Sizes::Small };
        let generator = Generator::new(receiver.near, sources, sizes).context("loading the generator")?;
        // What observes passes what is over the limit, which is dearer than what is not.
        let is_over = traffic == Traffic::Dropped || filter == Filter::Observing;
        let limit = if is_over { Limit::Low } else { Limit::High };
        let installed = receiver.enter(|| {
            filter::end_further_on()?;
            filter.install(receiver.name(), limit)
        });
        let installed = installed.with_context(|| format!("installing: {}", filter.name()))?;
        let (nanos, waits) = (Vec::new(), Vec::new());
        let mut case = Self { filter, traffic, sources, receiver, generator, nanos, waits, installed };
        case.bring_all_sources()?;
        Ok(case)
    }

    /// Every source gets its bucket, and all but one packet of each are over the limit from here on. The receiver loses
    /// many, the more so the slower it is, so it takes several floods.
    fn bring_all_sources(&mut self) -> Result<()> {
        for _ in 0..MOST_FLOODS {
            let before = self.counted()?;
            self.generator.flood().context("sending")?;
            let after = self.counted()?;
            let received = after.received - before.received;
            let is_done = match self.traffic {
                Traffic::Dropped => (after.passed - before.passed) * 500 < received,
                _ => after.received > 4 * u64::from(self.sources),
            };
            if is_done {
                break;
            }
        }
        Ok(())
    }

    pub fn measure(&mut self) -> Result<()> {
        self.installed.check()?;
        let before = self.counted()?;
        self.generator.flood().context("sending")?;
        let after = self.counted()?;
        let received = (after.received - before.received) as f64;
        let passed = (after.passed - before.passed) as f64 / received;
        let does_what_it_should =
            if self.traffic == Traffic::Dropped { passed < 0.01 } else { passed > 0.999 };
        ensure!(
            does_what_it_should,
            "{}, {} sources: {:.2} % of the packets passed",
            self.filter.name(),
            self.sources,
            passed * 100.0
        );
        self.nanos.push((after.worked - before.worked).as_secs_f64() * 1e9 / received);
        self.waits.push((after.waits - before.waits) as f64 / received);
        Ok(())
    }

    fn counted(&self) -> Result<Counted> {
        Ok(Counted {
            received: self.receiver.received()?,
            passed: self.receiver.enter(filter::passed)?,
            worked: self.receiver.worked()?,
            waits: self.receiver.waits()?,
        })
    }

    /// Nanoseconds a packet.
    pub fn nanos(&self) -> Figure {
        Figure::tenth(&self.nanos)
    }

    /// Whether it had to wait for packets, so takes less than it seems.
    pub fn has_waited(&self) -> bool {
        Figure::tenth(&self.waits).value > 1.0 / PACKETS_A_WAIT
    }
}
