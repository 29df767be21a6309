//! One bucket whose state is not a word: what it holds, and how near it is to a fresh one.

use ratelimit_common::{
    algorithm::{
        LimitDecision, realign::ClockStep, sliding_window_counter::WideState,
        sliding_window_log::Entries as _,
    },
    limit::Limit,
    time::{Nanos, Now},
};

use super::{SavedState, SavedWide};
use crate::store::{Charge, Log, WideRecord};

/// How far a bucket is from a fresh one: the share of its limit that is used, in 65,536ths, then when it will be idle.
pub(super) type Rank = (u32, Nanos);

/// The share of a bucket that has nothing left.
const FULL_SHARE: u32 = 1 << 16;

#[derive(Clone, Debug)]
pub(super) struct WideBucket {
    /// When it will be as good as new, if it is not charged again.
    pub(super) idle_at: Nanos,
    /// The share that was used when it was charged last.
    share: u32,
    pub(super) record: WideRecord,
}

impl WideBucket {
    pub(super) fn fresh(limit: &Limit) -> Self {
        Self { idle_at: Nanos(0), share: 0, record: WideRecord::fresh(limit) }
    }

    /// A counter that goes on with what a word has counted.
    pub(super) fn of_word(charge: &Charge<'_>, word: u64) -> Self {
        let counter = WideState::of_word(charge.limit, word, charge.now);
        Self::of_record(charge, WideRecord::Counter(counter))
    }

    /// One that holds this.
    pub(super) fn of_record(charge: &Charge<'_>, record: WideRecord) -> Self {
        let mut bucket = Self { idle_at: Nanos(0), share: 0, record };
        bucket.look(charge);
        bucket
    }

    /// One that was saved; its limit is not known here, so until it is charged it counts as used up.
    pub(super) fn restored(SavedWide { idle_at, state, .. }: SavedWide) -> Self {
        let record = match state {
            SavedState::Log { times, owed } => WideRecord::Log(Log::of(&times, owed)),
            SavedState::Counter(parts) => WideRecord::Counter(WideState::of_parts(parts)),
        };
        Self { idle_at, share: FULL_SHARE, record }
    }

    pub(super) fn saved(&self, identity: u64) -> SavedWide {
        let state = match &self.record {
            WideRecord::Log(log) => SavedState::Log { times: log.times().collect(), owed: log.owed() },
            WideRecord::Counter(counter) => SavedState::Counter(counter.parts()),
        };
        SavedWide { identity, idle_at: self.idle_at, state }
    }

    pub(super) const fn rank(&self) -> Rank {
        (self.share, self.idle_at)
    }

    /// Learns how near to fresh it is now.
    pub(super) fn look(&mut self, charge: &Charge<'_>) {
        self.decide(&Charge { cost: 0, ..*charge });
    }

    pub(super) fn decide<'l>(&mut self, charge: &Charge<'l>) -> LimitDecision<'l> {
        let Charge { limit, now, cost, .. } = *charge;
        let decision = self.record.charge(limit, now, cost);
        let reset = decision.reset_after();
        let until_idle = match &self.record {
            WideRecord::Counter(counter) if counter.is_idle(limit, now) => Nanos(0),
            // What the window has counted weighs on the next one.
            WideRecord::Counter(_) => Nanos(reset.0.saturating_add(limit.period().0)),
            WideRecord::Log(_) => reset,
        };
        self.idle_at = Nanos(now.0.0.saturating_add(until_idle.0));
        if until_idle.0 == 0
            && let WideRecord::Counter(counter) = &mut self.record
        {
            *counter = WideState::default();
        }
        self.share = share(decision.used(), decision.limit());
        decision
    }

    /// Moves a counter's window after the wall clock was set. A log counts back from the present. A counter is idle a
    /// number of windows after its own has ended that it knows, so that tells how long they are.
    pub(super) fn realign(&mut self, step: ClockStep, phase: impl Fn(Nanos) -> Nanos, now: Now) {
        let WideRecord::Counter(counter) = &mut self.record else { return };
        let after = self.idle_at.0.saturating_sub(counter.end().0);
        let window = Nanos(after / counter.windows_after().max(1));
        if counter.is_empty() || window.0 == 0 {
            return;
        }
        *counter = counter.realigned(step, window, phase(window), now);
        let after = window.0.saturating_mul(counter.windows_after());
        self.idle_at = Nanos(counter.end().0.saturating_add(after));
    }

    pub(super) fn entries(&self) -> usize {
        match &self.record {
            WideRecord::Log(log) => log.len(),
            WideRecord::Counter(_) => 0,
        }
    }
}

fn share(used: u64, limit: u64) -> u32 {
    let share = u128::from(used.min(limit)) * u128::from(FULL_SHARE) / u128::from(limit.max(1));
    u32::try_from(share).unwrap_or(FULL_SHARE)
}
