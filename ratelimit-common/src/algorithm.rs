//! The rate limit algorithms: pure functions from (limit, state, now, cost) to a decision and the new state.
//!
//! Each file holds one algorithm whose state is a 64-bit word; the log and the wide sliding counter have states of
//! their own and are called directly. Every word is a time in its high bits, and a bucket is as good as new once that
//! time is past. So one comparison tells whether a slot is idle, whatever its algorithm, and [`fresh`] is a fresh state
//! of all.

pub mod fixed_window;
pub mod leaky_bucket;
pub mod outside;
pub mod realign;
pub mod sliding_window_counter;
pub mod sliding_window_log;
pub mod token_bucket;
pub mod token_bucket_interval;
mod window;

pub(crate) use self::window::low_bits;
use crate::{
    limit::{Limit, StateKind},
    time::{Nanos, Now, Ticks},
};

/// What one request got, and what can be told from it.
///
/// The numbers are worked out when asked for, because most callers need only [`LimitDecision::allowed`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitDecision<'l> {
    /// Whether the request may go on.
    pub allowed: bool,
    limit: &'l Limit,
    facts: DecidedState,
    cost: u32,
    now: Now,
}

/// The state that a decision's numbers come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum DecidedState {
    /// A state word before and after.
    Word { before: u64, after: u64 },
    /// Numbers of a state that is not a word.
    Known { units: Units, wait: Nanos, reset: Nanos, next: Nanos },
}

/// Units after a charge.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Units {
    remaining: u64,
    owed: u64,
    /// Those that were not taken, because no more can be owed.
    cut: u64,
}

/// The state of a bucket that nobody has used.
#[must_use]
#[inline(always)]
pub const fn fresh(now: Now) -> u64 {
    now.plus(Ticks(0)).0
}

/// Whether `state` is as good as new: forgetting it changes no decision.
#[must_use]
#[inline(always)]
pub const fn is_idle(state: u64, now: Now) -> bool {
    now.has_passed(Ticks(state))
}

/// Decides one request and gives the bucket's new state, which for a denied request is the old one unless the limit
/// counts denied requests or can be overrun.
#[must_use]
#[inline(always)]
pub fn decide<'l>(limit: &'l Limit, state: u64, now: Now, cost: u32) -> (LimitDecision<'l>, u64) {
    let (allowed, after) = match limit.kind {
        StateKind::ArrivalTime => token_bucket::decide(limit, state, now, cost),
        StateKind::Interval => token_bucket_interval::decide(limit, state, now, cost),
        StateKind::Window => fixed_window::decide(limit, state, now, cost),
        StateKind::SlidingCounter => sliding_window_counter::decide(limit, state, now, cost),
        StateKind::Log | StateKind::WideSlidingCounter => (false, state),
    };
    (LimitDecision { allowed, limit, facts: DecidedState::Word { before: state, after }, cost, now }, after)
}

/// Charges a cost that is reported afterwards, as far as there is room, and gives the new state: a limit that can be
/// overrun, or that counts denied requests, takes it as [`decide`] does, any other up to the whole units that are left.
#[must_use]
pub fn report<'l>(limit: &'l Limit, state: u64, now: Now, cost: u32) -> (LimitDecision<'l>, u64) {
    let left = decide(limit, state, now, 0).0.remaining();
    decide(limit, state, now, reported(limit, left, cost))
}

/// What is charged of a cost that is reported.
fn reported(limit: &Limit, left: u64, cost: u32) -> u32 {
    if limit.always_charges() { cost } else { u32::try_from(left).unwrap_or(u32::MAX).min(cost) }
}

/// Whether a limit that keeps arrival times allows a request, and the state after it: [`decide`] of the commonest kind
/// alone.
#[must_use]
#[inline(always)]
pub fn decide_by_arrival(limit: &Limit, state: u64, now: Now, cost: u32) -> (bool, u64) {
    token_bucket::decide(limit, state, now, cost)
}

/// The same of a limit of fixed windows.
#[must_use]
#[inline(always)]
pub fn decide_by_window(limit: &Limit, state: u64, now: Now, cost: u32) -> (bool, u64) {
    fixed_window::decide(limit, state, now, cost)
}

/// The state without what a request took at `charged`, which a later limit made void. `later` is the present.
///
/// What others did in between stays. Where it can't be told apart from the charge, the charge stays too: undoing may
/// leave too little, never too much.
#[must_use]
#[inline(always)]
pub fn undo(limit: &Limit, state: u64, charged: Now, later: Now, cost: u32) -> u64 {
    match limit.kind {
        StateKind::ArrivalTime => token_bucket::undo(limit, state, charged, later, cost),
        StateKind::Interval => token_bucket_interval::undo(limit, state, charged, later, cost),
        StateKind::Window => fixed_window::undo(limit, state, charged, cost),
        StateKind::SlidingCounter => sliding_window_counter::undo(limit, state, charged, cost),
        StateKind::Log | StateKind::WideSlidingCounter => state,
    }
}

/// The same bucket under a limit whose numbers have changed: no emptier than empty, and owing no more than it can.
#[must_use]
pub fn clamp(limit: &Limit, state: u64, now: Now) -> u64 {
    match limit.kind {
        StateKind::ArrivalTime => token_bucket::clamp(limit, state, now),
        StateKind::Interval => token_bucket_interval::clamp(limit, state, now),
        // A window's count above the limit reads as nothing remaining, until the window ends or it is paid.
        StateKind::Window | StateKind::SlidingCounter | StateKind::Log | StateKind::WideSlidingCounter => {
            state
        }
    }
}

/// How much of the bucket is used, in 1/65,536 of its capacity (rounded, at most 65,536).
#[must_use]
#[inline(always)]
pub fn share_used(limit: &Limit, state: u64, now: Now) -> u32 {
    let (used, of) = match limit.kind {
        StateKind::ArrivalTime => (now.ahead(Ticks(state), limit.far()).0, limit.full.0),
        StateKind::Interval => (token_bucket_interval::missing(limit, state, now), limit.capacity),
        StateKind::Window => (fixed_window::used(limit, state, now), limit.capacity),
        // A wide counter's limit is asked about words where another limit with the same states has them.
        StateKind::SlidingCounter | StateKind::WideSlidingCounter => {
            (sliding_window_counter::roughly_counted(limit, state, now), limit.capacity)
        }
        StateKind::Log => (0, 1),
    };
    ratio(used, of)
}

/// `part / whole` in 1/65,536, without a 128-bit division.
#[inline(always)]
const fn ratio(part: u64, whole: u64) -> u32 {
    if part >= whole {
        return 1 << 16;
    }
    let excess = (64 - whole.leading_zeros()).saturating_sub(48);
    let whole = whole >> excess;
    match ((part >> excess) << 16).checked_div(whole) {
        Some(share) => share as u32,
        None => 1 << 16,
    }
}

impl<'l> LimitDecision<'l> {
    /// A decision on a state that is not a word. The times are those until a denied request would be allowed, until the
    /// state is fresh or its window ends, and until one more unit is there.
    const fn known(
        limit: &'l Limit,
        (allowed, cost, now): (bool, u32, Now),
        units: Units,
        [wait, reset, next]: [Nanos; 3],
    ) -> Self {
        Self { allowed, limit, facts: DecidedState::Known { units, wait, reset, next }, cost, now }
    }

    /// The most units at once: burst of a bucket, amount of a window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit.capacity
    }

    /// The limit that decided.
    #[must_use]
    pub const fn by(&self) -> &'l Limit {
        self.limit
    }

    /// Whole units left: a request of this cost would pass now, one of more would not.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        let state = match self.facts {
            DecidedState::Known { units, .. } => return units.remaining,
            DecidedState::Word { after, .. } => after,
        };
        match self.limit.kind {
            StateKind::ArrivalTime => token_bucket::remaining(self.limit, state, self.now),
            StateKind::Interval => self
                .limit
                .capacity
                .saturating_sub(token_bucket_interval::missing(self.limit, state, self.now)),
            StateKind::Window => {
                self.limit.capacity.saturating_sub(fixed_window::used(self.limit, state, self.now))
            }
            StateKind::SlidingCounter => self
                .limit
                .capacity
                .saturating_sub(sliding_window_counter::counted(self.limit, state, self.now)),
            StateKind::Log | StateKind::WideSlidingCounter => 0,
        }
    }

    /// Units that are owed: used above the capacity of a limit that can be overrun. Denied until they are paid.
    #[must_use]
    pub fn owed(&self) -> u64 {
        match self.facts {
            DecidedState::Known { units, .. } => units.owed,
            DecidedState::Word { .. } if !self.limit.overruns() => 0,
            DecidedState::Word { after, .. } => match self.limit.kind {
                StateKind::ArrivalTime => token_bucket::owed(self.limit, after, self.now),
                StateKind::Interval => token_bucket_interval::owed(self.limit, after, self.now),
                StateKind::SlidingCounter => sliding_window_counter::owed(self.limit, after, self.now),
                StateKind::Window | StateKind::Log | StateKind::WideSlidingCounter => 0,
            },
        }
    }

    /// Units of the cost that were not taken, because no more can be owed: so much the mean exceeds the rate.
    #[must_use]
    pub fn cut(&self) -> u64 {
        match self.facts {
            DecidedState::Known { units, .. } => units.cut,
            DecidedState::Word { .. } if !self.limit.overruns() => 0,
            DecidedState::Word { before, .. } => match self.limit.kind {
                StateKind::ArrivalTime => token_bucket::cut(self.limit, before, self.now, self.cost),
                StateKind::Interval => token_bucket_interval::cut(self.limit, before, self.now, self.cost),
                StateKind::SlidingCounter => {
                    sliding_window_counter::cut(self.limit, before, self.now, self.cost)
                }
                StateKind::Window | StateKind::Log | StateKind::WideSlidingCounter => 0,
            },
        }
    }

    /// Units used; what is owed is among them, and a fixed window that counts denied requests may have more than its
    /// limit.
    #[must_use]
    pub fn used(&self) -> u64 {
        match self.limit.kind {
            StateKind::Window => match self.facts {
                DecidedState::Word { after, .. } => fixed_window::used(self.limit, after, self.now),
                DecidedState::Known { .. } => 0,
            },
            StateKind::ArrivalTime
            | StateKind::Interval
            | StateKind::SlidingCounter
            | StateKind::Log
            | StateKind::WideSlidingCounter => {
                self.limit.capacity.saturating_sub(self.remaining()).saturating_add(self.owed())
            }
        }
    }

    /// How long until one more unit is there than [`Self::remaining`]; of a fixed window, until it ends. 0 if none is
    /// missing.
    #[must_use]
    pub fn next_after(&self) -> Nanos {
        let remaining = self.remaining();
        if remaining >= self.limit.capacity {
            return Nanos(0);
        }
        let state = match self.facts {
            DecidedState::Known { next, .. } => return next,
            DecidedState::Word { after, .. } => after,
        };
        // Where there are more units than a cost can be, they come back within a few nanoseconds.
        let cost = (remaining + 1).min(u32::MAX as u64) as u32;
        self.wait(state, cost)
    }

    /// How long so much is denied in a state.
    fn wait(&self, state: u64, cost: u32) -> Nanos {
        match self.limit.kind {
            StateKind::ArrivalTime => token_bucket::wait(self.limit, state, self.now, cost),
            StateKind::Interval => token_bucket_interval::wait(self.limit, state, self.now, cost),
            StateKind::Window => fixed_window::reset(self.limit, state, self.now),
            StateKind::SlidingCounter => sliding_window_counter::wait(self.limit, state, self.now, cost),
            StateKind::Log | StateKind::WideSlidingCounter => Nanos(0),
        }
    }

    /// Whether the cost is above the capacity, so that no waiting helps. Never, if the limit can be overrun.
    #[must_use]
    pub const fn never(&self) -> bool {
        !self.limit.overruns() && self.cost as u64 > self.limit.capacity
    }

    /// How long the same request is denied, if nobody else takes the units: it is allowed then, and not a nanosecond
    /// before. `None` if it was allowed, or can never be.
    #[must_use]
    pub fn retry_after(&self) -> Option<Nanos> {
        if self.allowed || self.never() {
            return None;
        }
        let state = match self.facts {
            DecidedState::Known { wait, .. } => return Some(wait),
            DecidedState::Word { after, .. } => after,
        };
        let cost = asked_of(self.limit, self.cost);
        Some(self.wait(state, cost))
    }

    /// How long until the bucket is full again; of a window, until it ends, or the one does in which the last is paid
    /// that is owed.
    #[must_use]
    pub fn reset_after(&self) -> Nanos {
        let state = match self.facts {
            DecidedState::Known { reset, .. } => return reset,
            DecidedState::Word { after, .. } => after,
        };
        match self.limit.kind {
            StateKind::ArrivalTime => self.now.ahead(Ticks(state), self.limit.far()).to_nanos_up(),
            StateKind::Interval => token_bucket_interval::reset(self.limit, state, self.now),
            StateKind::Window => fixed_window::reset(self.limit, state, self.now),
            StateKind::SlidingCounter => sliding_window_counter::reset(self.limit, state, self.now),
            StateKind::Log | StateKind::WideSlidingCounter => Nanos(0),
        }
    }

    /// How long an admitted request of a limit that delays is held before it leaves.
    #[must_use]
    pub fn leaves_after(&self) -> Option<Nanos> {
        match self.facts {
            DecidedState::Word { before, .. } if self.allowed && self.limit.delays() => {
                Some(leaky_bucket::leaves_after(self.limit, before, self.now))
            }
            _ => None,
        }
    }
}

/// The cost that a request is judged by: one that takes nothing is denied where one unit would be.
#[inline(always)]
const fn asked(cost: u32) -> u32 {
    if cost == 0 { 1 } else { cost }
}

/// [`asked`], or a single unit if the limit can be overrun by the rest.
#[inline(always)]
const fn asked_of(limit: &Limit, cost: u32) -> u32 {
    if limit.overruns() { 1 } else { asked(cost) }
}
