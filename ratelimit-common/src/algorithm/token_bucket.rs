//! Token bucket with continuous refill, as GCRA (ITU-T I.371, the virtual scheduling form).
//!
//! The state is the theoretical arrival time: when the bucket will be full again. How far it lies ahead is what has
//! been used, as time. The leaky bucket is the same computation. A limit that can be overrun may have used more than
//! its capacity: then the bucket is a debt, until so much has come back.

use super::asked;
use crate::{
    limit::Limit,
    time::{Nanos, Now, Ticks},
};

/// Decides and charges.
#[inline(always)]
pub(super) fn decide(limit: &Limit, state: u64, now: Now, cost: u32) -> (bool, u64) {
    if limit.overruns() {
        return overrun(limit, state, now, cost);
    }
    let from = limit.later(now, Ticks(state)).0;
    let used = from.wrapping_sub(now.ticks().0);
    let takes = limit.time_of(asked(cost)).0;
    let fits = cost <= 1 || cost as u64 <= limit.capacity;
    let allowed = fits && used <= limit.full.0.wrapping_sub(takes);
    if allowed && cost > 0 {
        (true, Ticks(from.wrapping_add(takes)).as_state())
    } else if !allowed && cost > 0 && limit.counts_denied() && used < limit.full.0 {
        (false, now.plus(limit.full).0)
    } else {
        (allowed, state)
    }
}

/// Charges the whole cost, up to what can be owed; allowed if one unit was left before.
fn overrun(limit: &Limit, state: u64, now: Now, cost: u32) -> (bool, u64) {
    let used = now.ahead(Ticks(state), limit.far()).0;
    let allowed = used <= limit.full.0.saturating_sub(limit.time_of(1).0);
    if cost == 0 {
        return (allowed, state);
    }
    let sum = used.saturating_add(limit.time_of(cost).0).min(limit.most_time().0).max(used);
    (allowed, now.plus(Ticks(sum)).0)
}

/// Units that are owed, a part of one counted as one.
pub(super) fn owed(limit: &Limit, state: u64, now: Now) -> u64 {
    let used = now.ahead(Ticks(state), limit.far()).0;
    limit.units_of(Ticks(used.saturating_sub(limit.full.0)))
}

/// How many units, a part of one counted as one, a charge in `state` does not take because no more can be owed.
pub(super) fn cut(limit: &Limit, state: u64, now: Now, cost: u32) -> u64 {
    let used = now.ahead(Ticks(state), limit.far()).0;
    let room = Ticks(limit.most_time().0.saturating_sub(used));
    u64::from(cost).saturating_sub(limit.units_in(room, limit.most_used()))
}

/// What the charge took comes back by itself from then on, at worst in a bucket that was full before it; what may have
/// come back that way is not given back again.
#[inline(always)]
pub(super) fn undo(limit: &Limit, state: u64, charged: Now, later: Now, cost: u32) -> u64 {
    let took = limit.time_of(cost);
    let left = later.ahead(charged.plus(took), limit.far());
    if left.0 == 0 {
        return state;
    }
    let used = later.ahead(Ticks(state), limit.far()).0;
    // A clock that stepped back makes more seem left than was taken.
    later.plus(Ticks(used.saturating_sub(if left.0 < took.0 { left.0 } else { took.0 }))).0
}

pub(super) fn clamp(limit: &Limit, state: u64, now: Now) -> u64 {
    let is_too_much =
        !now.has_passed(Ticks(state)) && state.wrapping_sub(now.ticks().0) > limit.most_time().0;
    if is_too_much { now.plus(limit.most_time()).0 } else { state }
}

pub(super) fn remaining(limit: &Limit, state: u64, now: Now) -> u64 {
    let used = now.ahead(Ticks(state), limit.far()).0;
    limit.full.0.checked_sub(used).map_or(0, |room| limit.units_in(Ticks(room), limit.capacity))
}

/// The time until `cost`, which is at most the capacity, fits.
pub(super) fn wait(limit: &Limit, state: u64, now: Now, cost: u32) -> Nanos {
    let used = now.ahead(Ticks(state), limit.far()).0;
    let room = limit.full.0.saturating_sub(limit.time_of(cost).0);
    Ticks(used.saturating_sub(room)).to_nanos_up()
}
