//! One thing to measure: traffic, a filter, and what came of each flood.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::{
    figure::Figure,
    filter::{self, Filter, Installed, Limit},
    generator::{Generator, PACKETS, Sizes},
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

/// Something to measure.
pub struct Case {
    pub filter: Filter,
    pub traffic: Traffic,
    pub sources: u16,
    receiver: Receiver,
    generator: Generator,
    /// Nanoseconds of the receiver's processor time a packet.
    nanos: Vec<f64>,
    /// The shares of what was sent that the receiver took in.
    taken_in: Vec<f64>,
    _installed: Installed,
}

/// What the receiver has done so far.
struct Counted {
    received: u64,
    passed: u64,
    worked: Duration,
}

/// Who takes in more than this share of the packets had to wait for some.
const IDLE: f64 = 0.98;

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
        // Not measured: every source gets its bucket, and all but one packet of each are over the limit from here on.
        // The receiver loses many, so it takes several floods to bring them all.
        for _ in 0..=sources / 5_000 {
            generator.flood().context("sending")?;
        }
        let (nanos, taken_in) = (Vec::new(), Vec::new());
        Ok(Self { filter, traffic, sources, receiver, generator, nanos, taken_in, _installed: installed })
    }

    pub fn measure(&mut self) -> Result<()> {
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
        self.taken_in.push(received / f64::from(PACKETS));
        Ok(())
    }

    fn counted(&self) -> Result<Counted> {
        Ok(Counted {
            received: self.receiver.received()?,
            passed: self.receiver.enter(filter::passed)?,
            worked: self.receiver.worked()?,
        })
    }

    /// Nanoseconds a packet.
    pub fn nanos(&self) -> Figure {
        Figure::of(&self.nanos)
    }

    /// Whether it had to wait for packets, so could do more.
    pub fn was_idle(&self) -> bool {
        Figure::of(&self.taken_in).middle > IDLE
    }
}
