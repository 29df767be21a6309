//! Windows after the wall clock was set: buckets are moved to where windows lie now, while packets are judged.
//!
//! A step back is prepared before the new program comes: what it delays, the old one takes for windows that have not
//! begun, and goes on counting there. A step forward is followed when the old program is gone: the new one takes what
//! ends later for such windows, too. So neither program finds a bucket empty that is not.

use ratelimit_common::{
    algorithm::realign::{ClockStep, realign, settle},
    time::{Nanos, Now},
    wire::CompiledRule,
};

use super::buckets::BucketTable;

/// A step of the wall clock, seen from a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockMove {
    pub step: ClockStep,
    /// When the table was made, by the wall clock before.
    pub from: Nanos,
}

impl ClockMove {
    /// Before an interface gets a program by these rules.
    pub(super) fn before_switch(&self, buckets: &BucketTable, rules: &[CompiledRule], now: Now) {
        if self.step == ClockStep::Back {
            self.realign(buckets, rules, now);
        }
    }

    /// When no processor is in the old program any more.
    pub(super) fn after_switch(&self, buckets: &BucketTable, rules: &[CompiledRule], now: Now) {
        match self.step {
            ClockStep::Forward(_) => self.realign(buckets, rules, now),
            // What the old program has written since.
            ClockStep::Back => buckets.change_all(rules, |rule, state| settle(&rule.limit, state, now)),
        }
    }

    /// Instead of that, if the old program stays.
    pub(super) fn take_back(&self, buckets: &BucketTable, rules: &[CompiledRule], now: Now) {
        if self.step == ClockStep::Back {
            buckets.change_all(rules, |rule, state| settle(&rule.limit.aligned(self.from), state, now));
        }
    }

    fn realign(&self, buckets: &BucketTable, rules: &[CompiledRule], now: Now) {
        buckets.change_all(rules, |rule, state| {
            realign(&rule.limit.aligned(self.from), &rule.limit, self.step, state, now)
        });
    }
}
