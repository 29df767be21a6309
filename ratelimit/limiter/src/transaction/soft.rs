//! Soft limits: when each key's use crossed its soft limit.
//!
//! A crossing is remembered until use has fallen below the soft limit again. So there is one only for keys above it,
//! and only rules with a soft limit look for one.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use foldhash::fast::FixedState;
use ratelimit_common::time::{Nanos, Now};

use crate::policy::SoftLimit;

const SHARDS: usize = 64;

/// Keys that are above their soft limits.
#[derive(Debug)]
pub(crate) struct Crossings {
    shards: Vec<Mutex<CrossingShard>>,
    most_in_shard: usize,
}

#[derive(Debug, Default)]
struct CrossingShard {
    crossings: HashMap<u64, Crossing, FixedState>,
    /// New ones since those that are over were removed.
    since_cleaning: usize,
}

#[derive(Clone, Copy, Debug)]
struct Crossing {
    at: Now,
    /// Use has fallen to nothing by then, if nothing comes.
    forgotten_at: Now,
}

/// Where a request stands between soft and hard limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SoftLimitState {
    /// Not above the soft limit.
    Below,
    /// Above, which is no longer than it may be.
    Above,
    /// Above for longer than it may be.
    TooLong,
}

impl Crossings {
    pub(crate) fn new(most: u64) -> Self {
        let most_in_shard = usize::try_from(most).unwrap_or(usize::MAX).div_ceil(SHARDS).max(1);
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), most_in_shard }
    }

    /// Since when a key has been above its soft limit.
    pub(super) fn since(&self, key: u64) -> Option<Now> {
        self.shard(key).crossings.get(&key).map(|crossing| crossing.at)
    }

    /// Use has fallen below the soft limit.
    pub(crate) fn forget(&self, key: u64) {
        self.shard(key).crossings.remove(&key);
    }

    /// Notes that a request passed above the soft limit. Where there is no room, it is not noted, and the key is at its
    /// first crossing again with the next one: the hard limit binds all the same.
    pub(super) fn note(&self, key: u64, now: Now, reset_after: Nanos) {
        let forgotten_at = Now(Nanos(now.0.0.saturating_add(reset_after.0)));
        let mut shard = self.shard(key);
        if let Some(crossing) = shard.crossings.get_mut(&key) {
            crossing.forgotten_at = forgotten_at;
            return;
        }
        if shard.crossings.len() >= self.most_in_shard
            && shard.since_cleaning >= self.most_in_shard.div_ceil(2)
        {
            shard.crossings.retain(|_, crossing| crossing.forgotten_at > now);
            shard.since_cleaning = 0;
        }
        // Those that find no room count too, so that what has passed is looked for again.
        shard.since_cleaning += 1;
        if shard.crossings.len() < self.most_in_shard {
            shard.crossings.insert(key, Crossing { at: now, forgotten_at });
        }
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, CrossingShard> {
        // The map uses other bits.
        let index = (key >> 40) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a request stands with which so much would be used.
pub(super) fn soft_state(above_since: Option<Now>, soft: SoftLimit, used: u64, now: Now) -> SoftLimitState {
    if used <= soft.limit.get() {
        return SoftLimitState::Below;
    }
    match above_since {
        Some(since) if now.0.0.saturating_sub(since.0.0) >= soft.lasts.0 => SoftLimitState::TooLong,
        _ => SoftLimitState::Above,
    }
}

/// For how much longer a key that uses `used` may be above; `None` if it has not begun to be.
pub(crate) fn time_left(above_since: Option<Now>, soft: SoftLimit, used: u64, now: Now) -> Option<Nanos> {
    let since = above_since.filter(|_| used >= soft.limit.get())?;
    Some(Nanos(since.0.0.saturating_add(soft.lasts.0).saturating_sub(now.0.0)))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    const SECOND: u64 = Nanos::SECOND.0;

    fn soft() -> SoftLimit {
        SoftLimit { limit: NonZeroU64::new(3).unwrap(), lasts: Nanos(30 * SECOND) }
    }

    fn at(seconds: u64) -> Now {
        Now(Nanos(seconds * SECOND))
    }

    #[test]
    fn a_key_may_be_above_for_a_time() {
        let since = |used, since, seconds| soft_state(since, soft(), used, at(seconds));
        assert_eq!(since(3, None, 0), SoftLimitState::Below);
        assert_eq!(
            (since(4, None, 0), since(4, Some(at(0)), 29)),
            (SoftLimitState::Above, SoftLimitState::Above)
        );
        assert_eq!(since(4, Some(at(0)), 30), SoftLimitState::TooLong);
        assert_eq!(since(3, Some(at(0)), 30), SoftLimitState::Below);
        let crossings = Crossings::new(1000);
        crossings.note(7, at(1), Nanos(3600 * SECOND));
        crossings.note(7, at(2), Nanos(3600 * SECOND));
        assert_eq!((crossings.since(7), crossings.since(8)), (Some(at(1)), None));
        crossings.forget(7);
        assert_eq!(crossings.since(7), None);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_is_over_makes_room() {
        let crossings = Crossings::new(64);
        let count =
            || crossings.shards.iter().map(|shard| shard.lock().unwrap().crossings.len()).sum::<usize>();
        for key in 0..10_000_u64 {
            crossings.note(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), at(0), Nanos(10 * SECOND));
        }
        assert_eq!(count(), 64);
        crossings.note(0x1234_5678_9abc_def0, at(11), Nanos(10 * SECOND));
        let kept = crossings.shard(0x1234_5678_9abc_def0).crossings.contains_key(&0x1234_5678_9abc_def0);
        assert!(kept && count() == 64);
    }
}
