//! Random numbers that are the same each time: `RATELIMIT_SEED=N` makes others.

/// Xorshift, of which any seed will do.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A row of its own for each test.
    pub fn new(test: u64) -> Self {
        let seed = std::env::var("RATELIMIT_SEED").ok().and_then(|seed| seed.parse().ok());
        let mut random = Self(seed.unwrap_or(1_u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ test | 1);
        for _ in 0..10 {
            random.next();
        }
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Less than this.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
