//! The state of one bucket outside its store: what a decision is made of, and what it changes.

use ratelimit_common::{
    algorithm::{
        self, LimitDecision,
        sliding_window_counter::WideState,
        sliding_window_log::{self, Entries as _},
    },
    limit::{Limit, StateKind},
    time::Now,
};

use super::{Answer, Log};

/// The state of one bucket.
#[derive(Clone, Debug)]
pub enum State {
    /// A word of the bucket table.
    Word(u64),
    /// What does not fit into a word. In a box, so that words are moved as two words.
    Wide(Box<WideRecord>),
}

/// A state that is not a word.
#[derive(Clone, Debug)]
pub enum WideRecord {
    /// A sliding window log.
    Log(Log),
    /// A sliding counter at full width.
    Counter(WideState),
}

impl State {
    /// One that is not a word.
    #[must_use]
    pub fn wide(record: WideRecord) -> Self {
        Self::Wide(Box::new(record))
    }

    /// Decides and charges.
    #[inline(always)]
    pub(crate) fn charge<'l>(&mut self, limit: &'l Limit, now: Now, cost: u32) -> Answer<'l> {
        match self {
            Self::Word(word) => Answer::charge_word(limit, word, now, cost),
            Self::Wide(record) => Answer::known(record.charge(limit, now, cost)),
        }
    }

    /// Decides as [`Self::charge`] would, without charging.
    #[inline]
    pub(crate) fn ask<'l>(&self, limit: &'l Limit, now: Now, cost: u32) -> Answer<'l> {
        match self {
            Self::Word(word) => {
                let (decision, _) = algorithm::decide(limit, *word, now, cost);
                Answer::word_uncharged(limit, now, cost, (decision.allowed, *word))
            }
            Self::Wide(record) => Answer::known(record.ask(limit, now, cost)),
        }
    }

    /// Lets what is owed enter a log, as far as it has been paid. That takes nothing, and changes no decision.
    pub(crate) fn settle(&mut self, limit: &Limit, now: Now) {
        if let Self::Wide(record) = self
            && let WideRecord::Log(log) = &mut **record
            && limit.overruns()
            && log.owed() > 0
        {
            sliding_window_log::decide(limit, log, now, 0);
        }
    }

    /// Charges a cost that is reported afterwards, as far as there is room.
    pub(crate) fn report<'l>(&mut self, limit: &'l Limit, now: Now, cost: u32) -> Answer<'l> {
        match self {
            Self::Word(word) => {
                let before = *word;
                let (decision, after) = algorithm::report(limit, before, now, cost);
                *word = after;
                Answer::known(decision)
            }
            Self::Wide(record) => Answer::known(record.report(limit, now, cost)),
        }
    }

    /// Gives back so many units, as far as the bucket, or its current window, has taken as many.
    pub(crate) fn refund(&mut self, limit: &Limit, now: Now, cost: u32) {
        match self {
            Self::Word(word) => {
                // More than a bucket holds has no time. A window that counts denied requests may hold more than its
                // limit.
                let most = match limit.kind() {
                    StateKind::ArrivalTime => u32::try_from(limit.most_used()).unwrap_or(u32::MAX),
                    StateKind::Interval
                    | StateKind::Window
                    | StateKind::SlidingCounter
                    | StateKind::WideSlidingCounter
                    | StateKind::Log => u32::MAX,
                };
                // What was charged in this instant is all that there is, so all of it can be told apart.
                *word = algorithm::undo(limit, *word, now, now, cost.min(most));
            }
            Self::Wide(record) => record.refund(limit, now, cost),
        }
    }

    /// Gives back what an admitted request took at `charged`, after another limit denied it. `later` is the present.
    pub(crate) fn undo(&mut self, limit: &Limit, charged: Now, later: Now, cost: u32) {
        match self {
            Self::Word(word) => *word = algorithm::undo(limit, *word, charged, later, cost),
            Self::Wide(record) => record.undo(limit, charged, cost),
        }
    }

    /// The state that another process has written, under the limit as it is here; `None` if it is not one of such a
    /// limit.
    pub(crate) fn under(self, limit: &Limit, now: Now) -> Option<Self> {
        let is_word = limit.kind().is_word();
        match self {
            Self::Word(word) if is_word => Some(Self::Word(algorithm::clamp(limit, word, now))),
            Self::Wide(record) if !is_word || limit.kind() == StateKind::SlidingCounter => {
                record.is_of(limit).then_some(Self::Wide(record))
            }
            _ => None,
        }
    }

    /// Whether the other is the same state. Logs are if nobody has changed either since one was copied from the other.
    #[inline(always)]
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Word(one), Self::Word(other)) => one == other,
            (Self::Wide(one), Self::Wide(other)) => one.is(other),
            _ => false,
        }
    }
}

impl WideRecord {
    pub(crate) fn fresh(limit: &Limit) -> Self {
        match limit.kind() {
            StateKind::Log => Self::Log(Log::default()),
            // A sliding counter may have been too wide for a word; no other word becomes a record.
            StateKind::WideSlidingCounter
            | StateKind::SlidingCounter
            | StateKind::ArrivalTime
            | StateKind::Interval
            | StateKind::Window => Self::Counter(WideState::default()),
        }
    }

    /// Whether it is one of such a limit.
    pub(crate) fn is_of(&self, limit: &Limit) -> bool {
        matches!(self, Self::Log(_)) == (limit.kind() == StateKind::Log)
    }

    /// Whether forgetting it changes no decision.
    pub(crate) fn is_idle(&self, limit: &Limit, now: Now) -> bool {
        match self {
            Self::Log(log) => sliding_window_log::is_idle(limit, log, now),
            Self::Counter(counter) => counter.is_idle(limit, now),
        }
    }

    pub(crate) fn charge<'l>(&mut self, limit: &'l Limit, now: Now, cost: u32) -> LimitDecision<'l> {
        match self {
            Self::Log(log) => sliding_window_log::decide(limit, log, now, cost),
            Self::Counter(counter) => counter.decide(limit, now, cost),
        }
    }

    fn report<'l>(&mut self, limit: &'l Limit, now: Now, cost: u32) -> LimitDecision<'l> {
        match self {
            Self::Log(log) => sliding_window_log::report(limit, log, now, cost),
            Self::Counter(counter) => counter.report(limit, now, cost),
        }
    }

    fn refund(&mut self, limit: &Limit, now: Now, cost: u32) {
        match self {
            Self::Log(log) => sliding_window_log::refund(limit, log, now, cost),
            Self::Counter(counter) => counter.undo(limit, now, cost),
        }
    }

    fn undo(&mut self, limit: &Limit, charged: Now, cost: u32) {
        match self {
            Self::Log(log) => sliding_window_log::undo(log, charged, cost),
            Self::Counter(counter) => counter.undo(limit, charged, cost),
        }
    }

    /// Makes what has changed a part of the rest, so that the next change takes no more.
    pub(super) fn merge(&mut self, limit: &Limit) {
        if let Self::Log(log) = self {
            log.merge(limit.capacity());
        }
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Log(one), Self::Log(other)) => one.is(other),
            (Self::Counter(one), Self::Counter(other)) => one == other,
            _ => false,
        }
    }

    fn ask<'l>(&self, limit: &'l Limit, now: Now, cost: u32) -> LimitDecision<'l> {
        // A request that costs nothing changes nothing, so its numbers are those before.
        let decision = self.clone().charge(limit, now, 0);
        let is_enough = decision.allowed && decision.remaining() >= cost.into();
        // A limit that can be overrun denies all costs or none.
        if is_enough || limit.overruns() {
            return decision;
        }
        self.clone().charge(limit, now, cost)
    }
}
