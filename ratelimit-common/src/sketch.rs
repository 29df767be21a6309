//! The heaviest sources, in little memory: for each window of a second and each processor, sets of eight slots that a
//! source shares with those whose address falls into the same set.
//!
//! Space-Saving (Metwally, Agrawal, El Abbadi 2005), set by set: a source that has no slot takes that of the lightest
//! in its set and inherits that one's weight as what may have been missed of it. So what a slot has is at most what
//! came, and with what was missed at least that; and whoever sends more than an eighth of its set's traffic has a slot.
//! Packets and bytes both have weight, so that whoever sends many packets keeps a slot, and whoever sends many bytes.

use crate::verifier::opaque;

/// Slots of a set.
pub const WAYS: usize = 8;

/// Sets of sources, of one kind in one window on one processor; a power of two.
pub const SETS: u32 = 64;

/// With the set behind them, of which the first slot has the sums over all sources.
pub const ALL_SETS: u32 = SETS + 1;

/// Nanoseconds of a window. The one that is complete is read while the next is filled.
pub const WINDOW: u64 = 1_000_000_000;

/// What was sampled of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SketchSlot {
    /// Its window and [`Group`]; see [`stamp`].
    pub stamp: u64,
    /// The address, as in [`crate::packet::Address`].
    pub source: [u64; 2],
    /// Packets, as many as its samples stand for.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The weight that may have been missed, at most; see [`PACKET`].
    pub missed: u64,
    /// The variance of `packets`.
    pub variance: u64,
    /// The variance of `bytes`, in units of 64 bytes squared, so that it fits.
    pub variance_bytes: u64,
}

/// A set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SketchSet(pub [SketchSlot; WAYS]);

/// What a slot is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Group {
    /// An IPv4 address.
    V4 = 0,
    /// An IPv6 address.
    V6 = 1,
    /// The first 64 bits of IPv6 addresses.
    V6Network = 2,
    /// All sources.
    All = 3,
}

/// What tells the slots of a window and a group from others. `now` is in nanoseconds, of the clock that both sides
/// read.
#[must_use]
#[inline(always)]
pub const fn stamp(now: u64, group: Group) -> u64 {
    (now / WINDOW) << 2 | group as u64
}

/// The index of the first set of a processor, for packets that passed (`kind` 0) or were dropped (1). Two windows take
/// turns.
#[must_use]
#[inline(always)]
pub const fn first_set(processor: u32, stamp: u64, kind: u32) -> u32 {
    ((processor * 2 + (stamp >> 2 & 1) as u32) * 2 + kind) * ALL_SETS
}

/// How many sets there are for so many processors.
#[must_use]
pub const fn all_sets(processors: u32) -> u32 {
    processors * 4 * ALL_SETS
}

/// One sample.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Sample {
    /// Window and group.
    pub stamp: u64,
    /// The source.
    pub source: [u64; 2],
    /// How many packets it stands for: see [`crate::sample`].
    pub weight: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// The weight of a packet, beside that of its bytes, each of which weighs 1. So of a weight that was missed at most a
/// 256th was packets.
pub const PACKET: u64 = 256;

impl SketchSet {
    /// Counts a sample.
    #[inline(always)]
    pub fn count(&mut self, sample: &Sample) {
        // The sums over all sources have one slot.
        let index = if sample.stamp & 3 == Group::All as u64 { 0 } else { self.place(sample) };
        // SAFETY: the index is inside.
        let slot = unsafe { self.0.get_unchecked_mut(index) };
        if !slot.is_of(sample) {
            slot.begin(sample);
        }
        let deviation = sample.weight * (sample.weight - 1);
        let units = sample.bytes >> 3;
        slot.packets += sample.weight;
        slot.bytes += sample.weight * sample.bytes;
        slot.variance += deviation;
        slot.variance_bytes += deviation * (units * units);
    }

    /// The slot of the sample's source, else one of an earlier window, else the lightest. Without branches on the data:
    /// the verifier would follow each.
    #[inline(always)]
    fn place(&self, sample: &Sample) -> usize {
        let mut best = u64::MAX >> 1;
        let mut index = 0;
        while index < WAYS {
            let slot = &self.0[index];
            let other = is_set((slot.stamp ^ sample.stamp) | slot.difference(sample));
            let current = 1 ^ is_set((slot.stamp ^ sample.stamp) >> 2);
            let rank = other * (1 + current * (1 + slot.weight()));
            let candidate = opaque(rank << 3 | index as u64);
            let if_smaller = opaque((candidate.wrapping_sub(best) as i64 >> 63) as u64);
            best ^= (best ^ candidate) & if_smaller;
            index += 1;
        }
        opaque(best) as usize % WAYS
    }
}

impl SketchSlot {
    #[inline(always)]
    const fn difference(&self, sample: &Sample) -> u64 {
        (self.source[0] ^ sample.source[0]) | (self.source[1] ^ sample.source[1])
    }

    #[inline(always)]
    const fn is_of(&self, sample: &Sample) -> bool {
        self.stamp == sample.stamp && self.difference(sample) == 0
    }

    /// What it has and what may have been missed. Below 2^58 in any window: a second's bytes are fewer.
    #[must_use]
    #[inline(always)]
    pub const fn weight(&self) -> u64 {
        (self.missed + self.bytes + self.packets * PACKET) & ((1 << 58) - 1)
    }

    /// Becomes the source's. What the one before had in the same window may have been missed of this one.
    #[inline(always)]
    fn begin(&mut self, sample: &Sample) {
        let is_current = self.stamp >> 2 == sample.stamp >> 2;
        let missed = if is_current { self.weight() } else { 0 };
        *self = Self {
            stamp: sample.stamp,
            source: sample.source,
            packets: 0,
            bytes: 0,
            missed,
            variance: 0,
            variance_bytes: 0,
        };
    }
}

/// 1 if any bit is set.
#[inline(always)]
fn is_set(bits: u64) -> u64 {
    opaque((bits | bits.wrapping_neg()) >> 63)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn sample(source: u64, weight: u64, bytes: u64) -> Sample {
        Sample { stamp: stamp(5 * WINDOW, Group::V4), source: [source, 0], weight, bytes }
    }

    #[test]
    fn what_a_slot_has_and_what_was_missed_bound_what_came() {
        let (mut set, mut came, mut random) = (SketchSet::default(), HashMap::<u64, [u64; 2]>::new(), 1_u64);
        for _ in 0..100_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let source = if random >> 62 == 0 { 7 } else { random >> 44 };
            let (weight, bytes) = (1 + (random >> 20 & 7), 60 + (random >> 30 & 1023));
            set.count(&sample(source, weight, bytes));
            let sums = came.entry(source).or_default();
            (sums[0], sums[1]) = (sums[0] + weight, sums[1] + weight * bytes);
        }
        assert!(set.0.iter().any(|slot| slot.source[0] == 7 && slot.missed / PACKET < slot.packets / 100));
        for slot in &set.0 {
            let [packets, bytes] = came[&slot.source[0]];
            assert!((slot.packets..=slot.packets + slot.missed / PACKET).contains(&packets), "{slot:?}");
            assert!((slot.bytes..=slot.bytes + slot.missed).contains(&bytes), "{slot:?}");
        }
    }

    #[test]
    fn few_sources_are_counted_exactly_and_a_new_window_begins_at_nothing() {
        let mut set = SketchSet::default();
        for _ in 0..10 {
            (0..8).for_each(|source| set.count(&sample(source, 1, 100 + source)));
        }
        let mut slots: Vec<SketchSlot> = set.0.to_vec();
        slots.sort_by_key(|slot| slot.source);
        for (source, slot) in (0..).zip(&slots) {
            let found = (slot.source[0], slot.packets, slot.bytes, slot.missed, slot.variance);
            assert_eq!(found, (source, 10, 10 * (100 + source), 0, 0));
        }
        let next = Sample { stamp: stamp(6 * WINDOW, Group::V4), ..sample(3, 2, 60) };
        set.count(&next);
        let slot = set.0.iter().find(|slot| slot.stamp == next.stamp).unwrap();
        assert_eq!((slot.packets, slot.missed, slot.variance, slot.variance_bytes), (2, 0, 2, 98));
    }

    #[test]
    fn who_sends_many_bytes_in_few_packets_keeps_a_slot() {
        let mut set = SketchSet::default();
        for turn in 0..20_000_u64 {
            set.count(&sample(1_000 + turn, 1, 60));
            if turn % 100 == 0 {
                set.count(&sample(1, 1, 9_000));
            }
        }
        let slot = set.0.iter().find(|slot| slot.source[0] == 1).expect("a slot");
        assert!(slot.bytes > 1_500_000, "{slot:?}");
    }
}
