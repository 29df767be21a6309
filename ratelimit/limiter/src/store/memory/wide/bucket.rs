//! One bucket whose state is not a word: what it holds, and how near it is to a fresh one.

use std::collections::VecDeque;

use ratelimit_common::{
    algorithm::{
        Decision,
        realign::ClockStep,
        sliding_window_counter::WideState,
        sliding_window_log::{self, Entries},
    },
    limit::{Kind, Limit},
    time::{Nanos, Now},
};

use super::{SavedState, SavedWide};
use crate::store::Charge;

/// How far a bucket is from a fresh one: the share of its limit that is used, in 65,536ths, then when it will be idle.
pub(super) type Rank = (u32, Nanos);

/// The share of a bucket that has nothing left.
const FULL_SHARE: u32 = 1 << 16;

/// Log entries that memory is taken for at once, at least.
const LEAST_MORE: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Bucket {
    /// When it will be as good as new, if it is not charged again.
    pub(super) idle_at: Nanos,
    /// The share that was used when it was charged last.
    share: u32,
    pub(super) state: State,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Log(Log),
    Counter(WideState),
}

impl Bucket {
    pub(super) fn fresh(limit: &Limit) -> Self {
        let state = match limit.kind() {
            Kind::Log => State::Log(Log::default()),
            _ => State::Counter(WideState::default()),
        };
        Self { idle_at: Nanos(0), share: 0, state }
    }

    /// A counter that goes on with what a word has counted.
    pub(super) fn of_word(charge: &Charge<'_>, word: u64) -> Self {
        let state = State::Counter(WideState::of_word(charge.limit, word, charge.now));
        let mut bucket = Self { idle_at: Nanos(0), share: 0, state };
        bucket.decide(&Charge { cost: 0, ..*charge });
        bucket
    }

    /// One that was saved; its limit is not known here, so until it is charged it counts as used up.
    pub(super) fn restored(SavedWide { idle_at, state, .. }: SavedWide) -> Self {
        let state = match state {
            SavedState::Log { times, owed } => State::Log(Log { times: times.into(), owed }),
            SavedState::Counter(parts) => State::Counter(WideState::of_parts(parts)),
        };
        Self { idle_at, share: FULL_SHARE, state }
    }

    pub(super) fn saved(&self, identity: u64) -> SavedWide {
        let state = match &self.state {
            State::Log(log) => SavedState::Log { times: log.times.iter().copied().collect(), owed: log.owed },
            State::Counter(counter) => SavedState::Counter(counter.parts()),
        };
        SavedWide { identity, idle_at: self.idle_at, state }
    }

    pub(super) const fn rank(&self) -> Rank {
        (self.share, self.idle_at)
    }

    /// Whether the state is one of such a limit.
    pub(super) fn is_of(&self, limit: &Limit) -> bool {
        matches!(self.state, State::Log(_)) == (limit.kind() == Kind::Log)
    }

    pub(super) fn decide<'l>(&mut self, charge: &Charge<'l>) -> Decision<'l> {
        let Charge { limit, now, cost, .. } = *charge;
        let (decision, rest) = match &mut self.state {
            State::Log(log) => (sliding_window_log::decide(limit, log, now, cost), Nanos(0)),
            State::Counter(counter) => {
                let decision = counter.decide(limit, now, cost);
                // What the window has counted weighs on the next one.
                let rest = if counter.is_idle(limit, now) { Nanos(0) } else { limit.period() };
                (decision, rest)
            }
        };
        let until_idle = match decision.reset_after() {
            _ if self.is_idle(limit, now) => Nanos(0),
            reset => Nanos(reset.0.saturating_add(rest.0)),
        };
        self.idle_at = Nanos(now.0.0.saturating_add(until_idle.0));
        if until_idle.0 == 0
            && let State::Counter(counter) = &mut self.state
        {
            *counter = WideState::default();
        }
        self.share = share(decision.used(), decision.limit());
        decision
    }

    /// Moves a counter's window after the wall clock was set. A log counts back from the present. A counter is idle a number of
    /// windows after its own has ended that it knows, so that tells how long they are.
    pub(super) fn realign(&mut self, step: ClockStep, phase: impl Fn(Nanos) -> Nanos, now: Now) {
        let State::Counter(counter) = &mut self.state else { return };
        let after = self.idle_at.0.saturating_sub(counter.end().0);
        let window = Nanos(after / counter.windows_after().max(1));
        if counter.is_empty() || window.0 == 0 {
            return;
        }
        *counter = counter.realigned(step, window, phase(window), now);
        let after = window.0.saturating_mul(counter.windows_after());
        self.idle_at = Nanos(counter.end().0.saturating_add(after));
    }

    /// Decides, and stays as it is.
    pub(super) fn ask<'l>(&mut self, charge: &Charge<'l>) -> Decision<'l> {
        // A request that costs nothing changes nothing, so its numbers are those before.
        let decision = self.decide(&Charge { cost: 0, ..*charge });
        let is_enough = decision.allowed && decision.remaining() >= charge.cost.into();
        // A limit that can be overrun denies all costs or none.
        if is_enough || charge.limit.overruns() {
            return decision;
        }
        match self.state {
            // A log can be long, and one that denied requests leave alone stays as it is.
            State::Log(_) if !charge.limit.counts_denied() => self.decide(charge),
            _ => self.clone().decide(charge),
        }
    }

    fn is_idle(&self, limit: &Limit, now: Now) -> bool {
        match &self.state {
            State::Log(log) => sliding_window_log::is_idle(limit, log, now),
            State::Counter(counter) => counter.is_idle(limit, now),
        }
    }

    pub(super) fn entries(&self) -> usize {
        match &self.state {
            State::Log(log) => log.times.len(),
            State::Counter(_) => 0,
        }
    }
}

fn share(used: u64, limit: u64) -> u32 {
    let share = u128::from(used.min(limit)) * u128::from(FULL_SHARE) / u128::from(limit.max(1));
    u32::try_from(share).unwrap_or(FULL_SHARE)
}

/// The times of a log, oldest first, and the units that are owed beside them.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    times: VecDeque<Nanos>,
    owed: u64,
}

impl Entries for Log {
    fn len(&self) -> usize {
        self.times.len()
    }

    fn get(&self, index: usize) -> Nanos {
        self.times.get(index).copied().unwrap_or_default()
    }

    fn pop_oldest(&mut self) {
        self.times.pop_front();
    }

    /// Memory grows by a quarter, and to no more than is ever needed: by itself it would double.
    fn push(&mut self, time: Nanos, most: u64) {
        let len = self.times.len();
        if len == self.times.capacity() {
            let left = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(len);
            self.times.reserve_exact((len / 4).max(LEAST_MORE).min(left));
        }
        self.times.push_back(time);
    }

    fn remove(&mut self, index: usize) {
        self.times.remove(index);
    }

    fn owed(&self) -> u64 {
        self.owed
    }

    fn owe(&mut self, units: u64) {
        self.owed = units;
    }
}
