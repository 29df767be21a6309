//! The heaviest sources: from what each processor has sampled to estimates, with how far off they may be.
//!
//! Two things make an estimate uncertain. Only some packets are samples: that gives a normal error whose variance the
//! program adds up. And a source may have had no slot for a while: how much that was at most is known. The bounds that
//! are shown have both: the truth is above the lower one and below the upper one in 97.5 % of all cases each.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
};

use ratelimit_common::{
    packet::Address,
    sketch::{Group, PACKET, SETS, SketchSlot, WINDOW},
};
use serde::Serialize;

use crate::{
    dataplane::{SeenSet, SourceList, SourceLists},
    policy::Prefix,
};

/// How IPv6 sources are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ipv6By {
    /// By their address.
    #[default]
    Address,
    /// By their network, the first 64 bits.
    Network,
}

/// What to sort sources by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// Packets, dropped ones included.
    #[default]
    Packets,
    /// Their bytes.
    Bytes,
    /// Packets that were dropped.
    Drops,
}

/// About how many in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// In all likelihood at least so many.
    pub low: f64,
    /// About so many.
    pub about: f64,
    /// In all likelihood at most so many.
    pub high: f64,
}

/// One source, in a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopSource {
    /// Its address, or its network with the length.
    pub source: String,
    /// Packets.
    pub packets: Estimate,
    /// Their bytes.
    pub bytes: Estimate,
    /// Those that were dropped.
    pub drops: Estimate,
    /// Its share of what it is sorted by, from 0 to 1.
    pub share: f64,
    /// Whether it is on a list or banned, so that no rule judges it.
    pub list: Option<SourceList>,
}

/// All sources, in a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopSources {
    /// Over so many seconds.
    pub seconds: u64,
    /// Packets of all sources.
    pub packets: f64,
    /// Their bytes.
    pub bytes: f64,
    /// Those that were dropped.
    pub drops: f64,
    /// The heaviest, heaviest first.
    pub sources: Vec<TopSource>,
}

/// A source: its group, and its address.
type Who = (u64, [u64; 2]);

/// Sums over processors and windows.
#[derive(Debug, Default)]
pub struct Sums {
    windows: u64,
    all: [Sum; 2],
    sources: HashMap<Who, [Sum; 2]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    packets: u64,
    bytes: u64,
    missed: u64,
    variance: u64,
    variance_bytes: u64,
}

impl Sum {
    fn add(&mut self, slot: &SketchSlot) {
        self.packets = self.packets.saturating_add(slot.packets);
        self.bytes = self.bytes.saturating_add(slot.bytes);
        self.missed = self.missed.saturating_add(slot.missed);
        self.variance = self.variance.saturating_add(slot.variance);
        self.variance_bytes = self.variance_bytes.saturating_add(slot.variance_bytes);
    }

    fn and(mut self, other: Self) -> Self {
        self.add(&SketchSlot {
            packets: other.packets,
            bytes: other.bytes,
            missed: other.missed,
            variance: other.variance,
            variance_bytes: other.variance_bytes,
            ..SketchSlot::default()
        });
        self
    }

    fn packets(&self, seconds: f64) -> Estimate {
        estimate(self.packets, self.missed / PACKET, self.variance as f64, seconds)
    }

    fn bytes(&self, seconds: f64) -> Estimate {
        estimate(self.bytes, self.missed, self.variance_bytes as f64 * 64.0, seconds)
    }
}

fn estimate(count: u64, missed: u64, variance: f64, seconds: f64) -> Estimate {
    /// In a normal distribution, 2.5 % lie further above the mean than so many standard deviations.
    const DEVIATIONS: f64 = 1.96;
    let (count, missed, error) = (count as f64, missed as f64, DEVIATIONS * variance.sqrt());
    Estimate {
        low: (count - error).max(0.0) / seconds,
        about: count / seconds,
        high: (count + missed + error) / seconds,
    }
}

impl Sums {
    /// Adds a window.
    pub fn add(&mut self, seen: &[SeenSet]) {
        self.windows += 1;
        for set in seen.iter().filter(|set| set.place == SETS) {
            set.slots.iter().for_each(|slot| self.all[usize::from(set.dropped)].add(slot));
        }
        for place in 0..SETS {
            let sets: Vec<&SeenSet> = seen.iter().filter(|set| set.place == place).collect();
            self.add_place(&sets);
        }
    }

    /// Adds the sets that the same sources fall into. A source that has no slot in one of them may have had at most as
    /// much there as the lightest that has one.
    fn add_place(&mut self, sets: &[&SeenSet]) {
        // What each has, and how much the lightest has where it has a slot itself.
        let mut found: HashMap<Who, [(Sum, u64); 2]> = HashMap::new();
        let mut without = [0_u64; 2];
        for set in sets {
            let kind = usize::from(set.dropped);
            let lightest = lightest(set);
            without[kind] = without[kind].saturating_add(lightest);
            for slot in set.slots.iter().filter(|slot| slot.packets != 0) {
                let (sum, with) = &mut found.entry((slot.stamp & 3, slot.source)).or_default()[kind];
                sum.add(slot);
                *with = with.saturating_add(lightest);
            }
        }
        for (who, sums) in found {
            let all = self.sources.entry(who).or_default();
            for kind in 0..2 {
                let (sum, with) = sums[kind];
                let missed = sum.missed.saturating_add(without[kind].saturating_sub(with));
                all[kind] = all[kind].and(Sum { missed, ..sum });
            }
        }
    }

    /// The heaviest `most` sources.
    #[must_use]
    pub fn top(&self, by: By, ipv6: Ipv6By, most: usize) -> TopSources {
        let seconds = (self.windows.max(1) * (WINDOW / 1_000_000_000)) as f64;
        let total = self.all[0].and(self.all[1]);
        let whole = match by {
            By::Packets => total.packets,
            By::Bytes => total.bytes,
            By::Drops => self.all[1].packets,
        } as f64
            / seconds;
        let unwanted = match ipv6 {
            Ipv6By::Address => Group::V6Network,
            Ipv6By::Network => Group::V6,
        } as u64;
        let wanted = self.sources.iter().filter(|((group, _), _)| *group != unwanted);
        let mut sources: Vec<TopSource> =
            wanted.map(|(who, sums)| source(*who, sums, by, seconds, whole)).collect();
        sources.retain(|source| of(source, by).about > 0.0);
        sources.sort_by(|a, b| {
            of(b, by).about.total_cmp(&of(a, by).about).then_with(|| a.source.cmp(&b.source))
        });
        sources.truncate(most);
        TopSources {
            seconds: self.windows,
            packets: total.packets as f64 / seconds,
            bytes: total.bytes as f64 / seconds,
            drops: self.all[1].packets as f64 / seconds,
            sources,
        }
    }
}

impl TopSources {
    /// Notes which of them are on lists or banned.
    pub fn mark(&mut self, lists: &SourceLists) {
        for source in &mut self.sources {
            source.list = source.source.parse::<Prefix>().ok().and_then(|prefix| lists.of(&prefix));
        }
    }
}

/// The weight of the lightest slot; nothing if there is a free one.
fn lightest(set: &SeenSet) -> u64 {
    set.slots.iter().map(|slot| if slot.packets == 0 { 0 } else { slot.weight() }).min().unwrap_or(0)
}

/// What a source is sorted by.
#[must_use]
pub fn of(source: &TopSource, by: By) -> Estimate {
    match by {
        By::Packets => source.packets,
        By::Bytes => source.bytes,
        By::Drops => source.drops,
    }
}

fn source(who: Who, sums: &[Sum; 2], by: By, seconds: f64, whole: f64) -> TopSource {
    let both = sums[0].and(sums[1]);
    let mut source = TopSource {
        source: name(who),
        packets: both.packets(seconds),
        bytes: both.bytes(seconds),
        drops: sums[1].packets(seconds),
        share: 0.0,
        list: None,
    };
    // What all have is an estimate, too.
    source.share = if whole > 0.0 { (of(&source, by).about / whole).min(1.0) } else { 0.0 };
    source
}

/// As a configuration or `ratelimit ban` would have it.
fn name((group, bits): Who) -> String {
    if group == Group::V6Network as u64 {
        return format!("{}/64", Ipv6Addr::from_bits(u128::from(bits[0]) << 64));
    }
    let address: IpAddr = Address { bits, family: u64::from(group != Group::V4 as u64) }.to_ip();
    address.to_string()
}

#[cfg(test)]
mod tests;
