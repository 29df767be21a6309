//! The word that says how large a table is: linear hashing (Litwin 1980), where sets are split one after the other, in
//! order, and those that are not split yet hold the keys of two.
//!
//! The low half is the number of sets, the high half a mask for as many bits as set numbers have, and the highest bit
//! says that the next set is being split off.

/// What the control word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control(pub u64);

impl Control {
    /// Set numbers have 31 bits.
    pub const MOST_SETS: u64 = 1 << 31;

    /// The next set is being split off.
    const SPLITTING: u64 = 1 << 63;

    /// There are `sets`, at most [`Self::MOST_SETS`].
    pub const fn of(sets: u64) -> Self {
        Self(sets | ((sets.next_power_of_two() - 1) << 32))
    }

    /// The same, while the next set is being split off.
    pub const fn splitting(self) -> Self {
        Self(self.0 | Self::SPLITTING)
    }

    /// Whether the next set is being split off.
    pub const fn is_splitting(self) -> bool {
        self.0 & Self::SPLITTING != 0
    }

    /// How many sets there are.
    #[inline]
    pub const fn sets(self) -> u64 {
        self.0 & 0xffff_ffff
    }

    /// The number of a set: the low bits of `hash`, of which the sets that are not split yet use one less.
    #[inline]
    pub const fn number(self, hash: u64) -> u64 {
        let mask = (self.0 & !Self::SPLITTING) >> 32;
        let number = hash & mask;
        if number < self.sets() { number } else { number & (mask >> 1) }
    }

    /// Which set is split next, and how much higher its other half will lie.
    pub const fn splits_next(self) -> (u64, u64) {
        let half = 1 << self.sets().ilog2();
        (self.sets() - half, half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_is_split_leaves_its_keys_in_two() {
        for sets in [4096, 4097, 5000, 8191, 8192, 12_345, 1 << 20] {
            let (before, after) = (Control::of(sets), Control::of(sets + 1));
            let (from, higher) = before.splits_next();
            assert_eq!(from + higher, sets);
            for hash in (0..100_000).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                let (old, new) = (before.number(hash), after.number(hash));
                assert!(old < sets && (new == old || (old == from && new == sets && hash & higher != 0)));
                assert_eq!(before.splitting().number(hash), old);
            }
        }
    }

    #[test]
    fn the_word_tells_all() {
        for sets in [4096, 4097, Control::MOST_SETS] {
            let control = Control::of(sets);
            assert_eq!((control.sets(), control.is_splitting()), (sets, false));
            assert_eq!((control.splitting().sets(), control.splitting().is_splitting()), (sets, true));
        }
    }
}
