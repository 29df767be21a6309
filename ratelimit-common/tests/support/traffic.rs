//! Arrivals of one source, the same for the same seed: a Poisson process, or one that is on and off in turns.

use ratelimit_common::time::Nanos;

/// Numbers that look random (SplitMix64: Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Above 0 and at most 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }
}

/// How the requests of a source follow each other.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Independently of each other.
    Poisson,
    /// As Poisson, but only while the source is on. Both times are exponential, with these means.
    Bursts { on: Nanos, off: Nanos },
}

/// The times of a source's requests, from 0 to an end, in order.
#[derive(Clone, Debug)]
pub struct Arrivals {
    random: Random,
    /// Mean times in nanoseconds: between two requests while the source is on, on, off.
    gap: f64,
    on: f64,
    off: f64,
    now: f64,
    burst_ends: f64,
    end: f64,
}

impl Arrivals {
    /// With a mean time of `gap` nanoseconds between requests, over all.
    pub fn new(shape: Shape, gap: f64, end: Nanos, mut random: Random) -> Self {
        let (on, off) = match shape {
            Shape::Poisson => (f64::INFINITY, 0.0),
            Shape::Bursts { on, off } => (on.0 as f64, off.0 as f64),
        };
        let share_on = if on.is_finite() { on / (on + off) } else { 1.0 };
        // As if it had been going on for ever: how long it was on or off before does not matter.
        let now = if random.unit() <= share_on { 0.0 } else { random.exponential(off) };
        let burst_ends = now + random.exponential(on);
        Self { random, gap: gap * share_on, on, off, now, burst_ends, end: end.0 as f64 }
    }
}

impl Iterator for Arrivals {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        while self.now < self.end {
            self.now += self.random.exponential(self.gap);
            if self.now < self.burst_ends {
                return (self.now < self.end).then_some(Nanos(self.now as u64));
            }
            self.now = self.burst_ends + self.random.exponential(self.off);
            self.burst_ends = self.now + self.random.exponential(self.on);
        }
        None
    }
}
