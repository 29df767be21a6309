//! Which packets are looked at more closely: about one in as many as the rate of packets allows, drawn at random, so
//! that no rhythm of traffic can hide from it.
//!
//! Few packets are all sampled; of many, one in a power of two, up to one in 1,024. What a sample stands for is known
//! when it is drawn, so sums of that estimate what came without bias.

/// One stream of packets that is sampled, on one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sampler {
    /// The packet's number in the stream that is sampled next.
    next: u64,
    /// Until when the samples so far have used up the time that samples are given.
    busy_until: u64,
    /// How many packets the next sample stands for; zero before the first, which stands for itself.
    weight: u64,
}

/// Nanoseconds for each sample: 7,629 a second.
const EACH: u32 = 17;

/// So many samples ahead of their time every packet is one.
const FREE: u64 = 256;

/// So many more, and half as many are taken.
const STEP: u32 = 3;

/// One in 2 to the power of this at least.
const MOST_HALVINGS: u64 = 10;

/// No further ahead than this: so the rest of a flood is over 46 ms after it.
const FURTHEST: u64 = (FREE + ((MOST_HALVINGS + 1) << STEP)) << EACH;

impl Sampler {
    /// Whether the packet with this number (the first has 1) is a sample.
    #[must_use]
    #[inline(always)]
    pub const fn is_due(&self, packet: u64) -> bool {
        packet >= self.next
    }

    /// Takes this packet and draws the next one. `now` is in nanoseconds, of any clock. Returns how many packets this
    /// one stands for. If `joined` packets came as one, of which this is the last, the first of them that is due is
    /// taken, and those behind it stand for themselves.
    #[must_use]
    #[inline(always)]
    pub fn take(&mut self, packet: u64, joined: u64, now: u64, random: u32) -> u64 {
        let behind = packet.saturating_sub(self.next).min(joined.saturating_sub(1));
        let weight = if self.weight == 0 { 1 } else { self.weight } + behind;
        // A clock that has stepped back looks like a long way ahead.
        let ahead = self.busy_until.saturating_sub(now).min(FURTHEST) + (1 << EACH);
        let halvings = ((ahead >> EACH).saturating_sub(FREE) >> STEP).min(MOST_HALVINGS);
        self.busy_until = now + ahead;
        self.weight = 1 << halvings;
        // 1 to 2 x weight - 1, each as likely.
        self.next = packet + 1 + ((random as u64 * (2 * self.weight - 1)) >> 32);
        weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets so far apart, for a second; returns how many samples were taken and for how many packets they stand.
    fn second(sampler: &mut Sampler, packets: u64, apart: u64, from: u64) -> (u64, u64) {
        let (mut samples, mut stands_for, mut random) = (0, 0, 0x9e37_79b9_u32);
        for packet in 1..=packets {
            if sampler.is_due(packet) {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                stands_for += sampler.take(packet, 1, from + packet * apart, random);
                samples += 1;
            }
        }
        (samples, stands_for)
    }

    #[test]
    fn few_packets_are_all_sampled() {
        for packets in [1, 100, 5_000] {
            let mut sampler = Sampler::default();
            let (samples, stands_for) = second(&mut sampler, packets, 1_000_000_000 / packets, 0);
            assert_eq!((samples, stands_for), (packets, packets));
        }
    }

    #[test]
    fn many_packets_give_a_bounded_number_of_samples_that_stand_for_all() {
        for packets in [20_000, 100_000, 1_000_000, 10_000_000] {
            let mut sampler = Sampler::default();
            let (samples, stands_for) = second(&mut sampler, packets, 1_000_000_000 / packets, 7);
            // So many a second, or one in 1,024, and before that those that may be ahead of their time; a thirtieth
            // more, since the gaps are random.
            let rate = 7_629.max(packets / 1_024);
            let most = rate + rate / 30 + FREE + (MOST_HALVINGS << STEP);
            assert!(samples <= most, "{samples} of {packets}, at most {most}");
            let error = stands_for.abs_diff(packets) as f64 / packets as f64;
            // Five times what the random gaps make of so many samples.
            assert!(error < 5.0 / (samples as f64).sqrt(), "{stands_for} of {packets}");
        }
    }

    #[test]
    fn after_a_flood_few_packets_are_all_sampled_again() {
        let mut sampler = Sampler::default();
        second(&mut sampler, 10_000_000, 100, 0);
        let last = sampler.next;
        assert!(last <= 10_000_000 + 2_047);
        let later = 1_000_000_000 + 100_000_000;
        let _ = sampler.take(last, 1, later, u32::MAX);
        assert_eq!((sampler.weight, sampler.next), (1, last + 1));
    }

    #[test]
    fn a_clock_that_steps_back_or_ends_stops_nothing() {
        let mut sampler = Sampler::default();
        let _ = sampler.take(1, 1, u64::MAX / 2, 0);
        let _ = sampler.take(2, 1, 0, u32::MAX);
        assert!(sampler.next <= 2 + 2_047);
        assert!(sampler.busy_until <= FURTHEST + (1 << EACH));
    }

    #[test]
    fn samples_of_packets_that_come_as_one_stand_for_all() {
        for (frames, joined, apart) in [(100, 44, 10_000_000), (100_000, 44, 10_000), (1_000_000, 3, 1_000)] {
            let (mut sampler, mut stands_for, mut random) = (Sampler::default(), 0, 0x9e37_79b9_u32);
            for frame in 1..=frames {
                let packet = frame * joined;
                if sampler.is_due(packet) {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    stands_for += sampler.take(packet, joined, frame * apart, random);
                }
            }
            let all = frames * joined;
            assert!(stands_for.abs_diff(all) <= all / 20, "{stands_for} of {all}");
        }
    }
}
