//! How long to wait before the next try: longer each time, and never as long as others wait.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

const FIRST: Duration = Duration::from_millis(25);
const LONGEST: Duration = Duration::from_secs(1);

/// Waits, each about twice as long as the one before.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Backoff {
    pub(super) fn new() -> Self {
        Self(FIRST)
    }

    /// The next one.
    pub(super) fn next(&mut self) -> Duration {
        let base = self.0;
        self.0 = (base * 2).min(LONGEST);
        jittered(base)
    }
}

/// Between half the time and all of it, so that daemons that failed together do not all try together.
pub(super) fn jittered(time: Duration) -> Duration {
    // Each state has keys of its own, drawn at random.
    let random = u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or(0);
    time / 2 + (time / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    //! How waits grow.

    use std::collections::HashSet;

    use super::*;

    #[test]
    fn waits_grow_to_a_second_and_differ() {
        let mut backoff = Backoff::new();
        let waits: Vec<Duration> = (0..50).map(|_| backoff.next()).collect();
        assert!(waits.iter().all(|wait| (FIRST / 2..=LONGEST).contains(wait)), "{waits:?}");
        assert!(waits[20..].iter().all(|wait| *wait >= LONGEST / 2), "{waits:?}");
        assert!(waits.iter().collect::<HashSet<_>>().len() > 40, "{waits:?}");
    }
}
