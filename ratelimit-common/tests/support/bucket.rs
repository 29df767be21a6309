//! One bucket, whatever its algorithm keeps: how tests call the pure functions.

use std::collections::VecDeque;

use ratelimit_common::{
    algorithm::{self, LimitDecision, sliding_window_counter::WideState, sliding_window_log},
    limit::{Limit, StateKind},
    time::{Nanos, Now},
};

/// The state of one key under one limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Bucket {
    Word(u64),
    Log(Log),
    Wide(WideState),
}

/// A decision with all its numbers worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub allowed: bool,
    pub never: bool,
    pub remaining: u64,
    pub retry_after: Option<Nanos>,
    pub reset_after: Nanos,
    pub leaves_after: Option<Nanos>,
    pub used: u64,
    pub owed: u64,
    pub cut: u64,
}

impl Bucket {
    /// A bucket that nobody has used, made at `now`.
    pub fn fresh(limit: &Limit, now: Nanos) -> Self {
        match limit.kind() {
            StateKind::Log => Self::Log(Log::default()),
            StateKind::WideSlidingCounter => Self::Wide(WideState::default()),
            StateKind::ArrivalTime | StateKind::Interval | StateKind::Window | StateKind::SlidingCounter => {
                Self::Word(algorithm::fresh(Now(now)))
            }
        }
    }

    /// Decides and charges.
    pub fn decide(&mut self, limit: &Limit, now: Nanos, cost: u32) -> Answer {
        let now = Now(now);
        Answer::of(&match self {
            Self::Word(state) => {
                let (decision, after) = algorithm::decide(limit, *state, now, cost);
                *state = after;
                decision
            }
            Self::Log(entries) => sliding_window_log::decide(limit, entries, now, cost),
            Self::Wide(state) => state.decide(limit, now, cost),
        })
    }

    /// Whether a request would pass; the bucket stays as it is.
    pub fn allows(&self, limit: &Limit, now: Nanos, cost: u32) -> bool {
        let now = Now(now);
        match self {
            Self::Log(_) if limit.overruns() => self.ask(limit, now.0, cost).allowed,
            Self::Word(state) => algorithm::decide(limit, *state, now, cost).0.allowed,
            Self::Log(entries) => sliding_window_log::decide(limit, &mut Frozen(entries), now, cost).allowed,
            Self::Wide(state) => { *state }.decide(limit, now, cost).allowed,
        }
    }

    /// All that a request would get; the bucket stays as it is.
    pub fn ask(&self, limit: &Limit, now: Nanos, cost: u32) -> Answer {
        self.clone().decide(limit, now, cost)
    }

    /// Takes back what a request took that was admitted at `charged`; `later` is the present.
    pub fn undo(&mut self, limit: &Limit, charged: Nanos, later: Nanos, cost: u32) {
        let (charged, later) = (Now(charged), Now(later));
        match self {
            Self::Word(state) => *state = algorithm::undo(limit, *state, charged, later, cost),
            Self::Log(entries) => sliding_window_log::undo(entries, charged, cost),
            Self::Wide(state) => state.undo(limit, charged, cost),
        }
    }

    /// Whether it may be forgotten.
    pub fn is_idle(&self, limit: &Limit, now: Nanos) -> bool {
        match self {
            Self::Word(state) => algorithm::is_idle(*state, Now(now)),
            Self::Log(entries) => sliding_window_log::is_idle(limit, entries, Now(now)),
            Self::Wide(state) => state.is_idle(limit, Now(now)),
        }
    }
}

impl Answer {
    pub fn of(decision: &LimitDecision<'_>) -> Self {
        Self {
            allowed: decision.allowed,
            never: decision.never(),
            remaining: decision.remaining(),
            retry_after: decision.retry_after(),
            reset_after: decision.reset_after(),
            leaves_after: decision.leaves_after(),
            used: decision.used(),
            owed: decision.owed(),
            cut: decision.cut(),
        }
    }
}

/// The memory of a log, oldest first, and what is owed beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    times: VecDeque<Nanos>,
    owed: u64,
}

impl sliding_window_log::Entries for Log {
    fn len(&self) -> usize {
        self.times.len()
    }

    fn get(&self, index: usize) -> Nanos {
        self.times.get(index).copied().unwrap_or_default()
    }

    fn pop_oldest(&mut self) {
        self.times.pop_front();
    }

    fn push(&mut self, time: Nanos, _most: u64) {
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

/// A log that stays as it is, for questions.
struct Frozen<'l>(&'l Log);

impl sliding_window_log::Entries for Frozen<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Nanos {
        self.0.get(index)
    }

    fn pop_oldest(&mut self) {}

    fn push(&mut self, _: Nanos, _: u64) {}

    fn remove(&mut self, _: usize) {}

    fn owed(&self) -> u64 {
        self.0.owed
    }

    fn owe(&mut self, _: u64) {}
}
