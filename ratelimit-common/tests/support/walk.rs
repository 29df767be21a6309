//! Arrivals as proptest strategies: gaps and costs that hug the limit's own boundaries, worked out as the walk goes on.

use proptest::prelude::*;
use ratelimit_common::time::Nanos;

use super::{
    bucket::Answer,
    limits::{Made, any_length},
};

/// One arrival, relative to what has happened.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    gap: Gap,
    cost: Cost,
}

#[derive(Clone, Copy, Debug)]
enum Gap {
    None,
    After(Nanos),
    /// The time of so many units, and an offset in nanoseconds.
    Units(u64, i64),
    /// The end of the current window and so many more, and an offset.
    Windows(u64, i64),
    /// When the last answer said to try again.
    Retry(i64),
    /// When the last answer said that the bucket is full or the window ends.
    Reset(i64),
    Back(Nanos),
    /// Just before the current window, or so many before.
    BackWindows(u64, i64),
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Exactly(u32),
    /// What was left by the last answer, and an offset.
    Remaining(i64),
    Capacity(i64),
    /// So many eighths of the capacity.
    Eighths(u64),
}

fn offset() -> impl Strategy<Value = i64> {
    -1_i64..=1
}

/// Gaps forward, idle for at most 2^`idle` ns.
fn forward(idle: u32) -> impl Strategy<Value = Gap> {
    prop_oneof![
        4 => Just(Gap::None),
        2 => (0_u64..=3).prop_map(|nanos| Gap::After(Nanos(nanos))),
        4 => (1_u64..=4, offset()).prop_map(|(count, offset)| Gap::Units(count, offset)),
        3 => (0_u64..=2, offset()).prop_map(|(count, offset)| Gap::Windows(count, offset)),
        3 => offset().prop_map(Gap::Retry),
        1 => offset().prop_map(Gap::Reset),
        3 => any_length(idle).prop_map(|nanos| Gap::After(Nanos(nanos))),
    ]
}

fn backward() -> impl Strategy<Value = Gap> {
    prop_oneof![
        any_length(57).prop_map(|nanos| Gap::Back(Nanos(nanos))),
        Just(Gap::Back(Nanos(1))),
        (0_u64..=2, offset()).prop_map(|(count, offset)| Gap::BackWindows(count, offset)),
    ]
}

fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        5 => Just(Cost::Exactly(1)),
        1 => Just(Cost::Exactly(0)),
        2 => (2_u32..=5).prop_map(Cost::Exactly),
        2 => any_length(32).prop_map(|cost| Cost::Exactly(cost as u32)),
        1 => Just(Cost::Exactly(u32::MAX)),
        3 => offset().prop_map(Cost::Remaining),
        1 => offset().prop_map(Cost::Capacity),
        3 => (1_u64..=8).prop_map(Cost::Eighths),
    ]
}

/// Arrivals in order.
pub fn in_order(idle: u32, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (forward(idle), cost()).prop_map(|(gap, cost)| Step { gap, cost });
    prop::collection::vec(step, 1..most)
}

/// Arrivals by a clock that steps back now and then.
pub fn any_order(idle: u32, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![8 => forward(idle), 1 => backward()];
    let step = (gap, cost()).prop_map(|(gap, cost)| Step { gap, cost });
    prop::collection::vec(step, 1..most)
}

/// How far a walk may go.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub start: Nanos,
    pub end: Nanos,
    /// How far the clock may step back behind the latest time.
    pub back: Nanos,
    /// How long a bucket may go uncharged.
    pub idle: Nanos,
}

/// Where a walk is.
#[derive(Clone, Debug)]
pub struct Walk<'m> {
    made: &'m Made,
    range: Range,
    now: Nanos,
    latest: Nanos,
    charged: Nanos,
    answer: Option<Answer>,
}

impl<'m> Walk<'m> {
    pub fn new(made: &'m Made, range: Range) -> Self {
        let start = range.start;
        Self { made, range, now: start, latest: start, charged: start, answer: None }
    }

    /// The time and the cost of the next request.
    pub fn next(&mut self, step: Step) -> (Nanos, u32) {
        let wanted = i128::from(self.now.0) + self.gap(step.gap);
        let first = self.range.start.max(Nanos(self.latest.0.saturating_sub(self.range.back.0)));
        let last = self.range.end.min(Nanos(self.charged.0.saturating_add(self.range.idle.0))).max(first);
        self.now = Nanos(wanted.clamp(first.0.into(), last.0.into()) as u64);
        self.latest = self.latest.max(self.now);
        (self.now, self.cost(step.cost))
    }

    /// Tells what the request got, and gives the latest time at which the bucket has been charged.
    pub fn got(&mut self, cost: u32, answer: Answer) -> Nanos {
        if cost > 0 && (answer.allowed || self.made.spec.count_denied) {
            self.charged = self.charged.max(self.now);
        }
        self.answer = Some(answer);
        self.charged
    }

    /// The time of the latest request.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Whether the time that lies `wait` ahead is within the range.
    pub fn covers(&self, wait: Nanos) -> bool {
        let at = self.now.0.saturating_add(wait.0);
        at <= self.range.end.0 && at.saturating_sub(self.charged.0) <= self.range.idle.0
    }

    fn gap(&self, gap: Gap) -> i128 {
        let rate = self.made.spec.rate;
        let per = i128::from(rate.per.0);
        let into = (i128::from(self.now.0) + i128::from(self.made.epoch.0)) % per;
        let (length, offset) = match gap {
            Gap::None => (0, 0),
            Gap::After(length) => (length.0.into(), 0),
            Gap::Units(count, offset) => (per * i128::from(count) / i128::from(rate.amount.get()), offset),
            Gap::Windows(count, offset) => (per - into + per * i128::from(count), offset),
            Gap::Retry(offset) => (self.said(|answer| answer.retry_after), offset),
            Gap::Reset(offset) => (self.said(|answer| Some(answer.reset_after)), offset),
            Gap::Back(length) => return -i128::from(length.0),
            Gap::BackWindows(count, offset) => return i128::from(offset) - into - per * i128::from(count),
        };
        (length + i128::from(offset)).max(0)
    }

    fn said(&self, what: impl Fn(&Answer) -> Option<Nanos>) -> i128 {
        self.answer.as_ref().and_then(what).unwrap_or_default().0.into()
    }

    fn cost(&self, cost: Cost) -> u32 {
        let rate = self.made.spec.rate;
        let capacity = self.made.spec.burst.unwrap_or(rate.amount).get();
        let wanted = match cost {
            Cost::Exactly(cost) => return cost,
            Cost::Remaining(offset) => {
                self.answer.map_or(capacity, |answer| answer.remaining).saturating_add_signed(offset)
            }
            Cost::Capacity(offset) => capacity.saturating_add_signed(offset),
            Cost::Eighths(count) => (u128::from(capacity) * u128::from(count) / 8) as u64,
        };
        u32::try_from(wanted).unwrap_or(u32::MAX)
    }
}
