//! A limit's part in a request as numbers, in the order that the script's first lines give.

use ratelimit_common::limit::{Limit, StateKind};
use ratelimit_limiter::store::remote::{Act, Over, Say, SoftLimit};
use smallvec::{SmallVec, smallvec};

use super::{
    number::{BEYOND, Micros, exact, flag, pair},
    request::{Doing, ShardPart, ShardRequest},
};

/// The numbers of a part.
pub(crate) type LimitRow = SmallVec<[f64; 32]>;

/// The numbers of a part, if the server's clock says about `at`.
pub(crate) fn row(part: &ShardPart, at: Micros) -> LimitRow {
    let mut row = common(part);
    match part.limit.kind() {
        StateKind::ArrivalTime => arrival(part, &mut row),
        StateKind::Log => log(part, &mut row),
        StateKind::Interval
        | StateKind::Window
        | StateKind::SlidingCounter
        | StateKind::WideSlidingCounter => windows(part, at, &mut row),
    }
    row
}

fn common(part: &ShardPart) -> LimitRow {
    let ShardPart { limit, cost, .. } = part;
    let asked = if part.gives_back() || limit.overruns() { 1 } else { (*cost).max(1) };
    let over = match part.over {
        Over::Counted(_) if limit.kind() != StateKind::Window => [0.0, 0.0],
        Over::Denied => [0.0, 0.0],
        Over::Counted(most) => [1.0, exact(most)],
        Over::Excessive => [2.0, 0.0],
        Over::Closed => [3.0, 0.0],
    };
    smallvec![
        kind(limit.kind()),
        act(part.act),
        say(part.say),
        over[0],
        over[1],
        f64::from(*cost),
        flag(limit.counts_denied()),
        flag(limit.overruns()),
        part.soft.map_or(-1.0, |soft| Micros::up(soft.lasts).number()),
        f64::from(asked),
    ]
}

const fn kind(kind: StateKind) -> f64 {
    match kind {
        StateKind::ArrivalTime => 0.0,
        StateKind::Interval => 1.0,
        StateKind::Window => 2.0,
        StateKind::SlidingCounter | StateKind::WideSlidingCounter => 3.0,
        StateKind::Log => 4.0,
    }
}

const fn act(act: Doing) -> f64 {
    match act {
        Doing::Act(Act::Ask) | Doing::Tentative => 0.0,
        Doing::Act(Act::Charge) => 1.0,
        Doing::Act(Act::Report) => 2.0,
        Doing::Act(Act::ChargeIfAdmitted) => 3.0,
        Doing::Act(Act::Refund) => 4.0,
        Doing::Act(Act::RefundIfAdmitted) => 5.0,
        Doing::Undo(_) => 6.0,
    }
}

const fn say(say: Say) -> f64 {
    match say {
        Say::Decides => 0.0,
        Say::Quota => 1.0,
        Say::Observes => 2.0,
    }
}

fn arrival(part: &ShardPart, row: &mut LimitRow) {
    let ShardPart { limit, cost, soft, .. } = part;
    let is_one = part.gives_back() || limit.overruns() || *cost == 0;
    let asked = if is_one { 1 } else { u64::from(*cost) };
    let taken = if part.gives_back() { u64::from(*cost).min(limit.most_used()) } else { u64::from(*cost) };
    row.extend(pair(limit.time_of_units(asked)));
    row.extend(pair(limit.time_of_units(taken)));
    row.extend(pair(limit.fills_in()));
    row.extend(pair(limit.longest_time()));
    row.push(flag(asked <= limit.capacity()));
    let is_report = part.act == Doing::Act(Act::Report);
    if soft.is_none() && !is_report && !matches!(part.act, Doing::Undo(_)) {
        return;
    }
    row.extend(soft_times(limit, *soft, *cost));
    let (unit, fraction) = limit.unit_time();
    row.extend(pair(unit));
    row.extend([(fraction >> 32) as f64, (fraction & 0xffff_ffff) as f64]);
    row.push(charged_at(part));
}

fn charged_at(part: &ShardPart) -> f64 {
    match part.act {
        Doing::Undo(charged) => charged.number(),
        Doing::Act(_) | Doing::Tentative => 0.0,
    }
}

/// Up to which use the soft limit is not reached, and beyond which the cost goes above it, as times.
fn soft_times(limit: &Limit, soft: Option<SoftLimit>, cost: u32) -> [f64; 4] {
    let Some(soft) = soft else { return [0.0; 4] };
    let most = soft.limit.get();
    let [below, above] =
        [most, (most + 1).saturating_sub(cost.max(1).into())].map(|units| beyond_means(limit, units));
    [below[0], below[1], above[0], above[1]]
}

/// The time beyond which at least so many units are used, a part of one counted as one.
fn beyond_means(limit: &Limit, units: u64) -> [f64; 2] {
    if units == 0 {
        return [-1.0, 0.0];
    }
    let Some(left) = limit.capacity().checked_sub(units) else { return [BEYOND, 0.0] };
    let full = limit.fills_in();
    pair(ratelimit_common::time::Ticks(full.0.saturating_sub(limit.time_of_units(left + 1).0)))
}

/// The estimate of the server's clock may be wrong by half of a shorter window, which the script finds by itself.
const SHORTEST_NAMED: u64 = 50_000;

fn windows(part: &ShardPart, at: Micros, row: &mut LimitRow) {
    let limit = &part.limit;
    let length = period(limit);
    let at = match part.act {
        Doing::Undo(charged) => charged,
        Doing::Act(_) | Doing::Tentative => at,
    };
    if length < SHORTEST_NAMED && !matches!(part.act, Doing::Undo(_)) {
        row.extend([-1.0, 0.0, 0.0]);
    } else {
        let start = Micros(at.0 - at.0 % length);
        row.extend([start, start.plus(length), start.plus(2 * length)].map(Micros::number));
    }
    row.extend(
        [length, limit.capacity(), limit.amount(), limit.counts_up_to(), limit.most_used()].map(exact),
    );
    row.push(soft_limit(part));
}

/// A window in microseconds.
fn period(limit: &Limit) -> u64 {
    Micros::up(limit.period()).0.max(1)
}

fn soft_limit(part: &ShardPart) -> f64 {
    part.soft.map_or(0.0, |soft| exact(soft.limit.get()))
}

/// Where others have a window's numbers; no entries are wanted.
fn log(part: &ShardPart, row: &mut LimitRow) {
    let limit = &part.limit;
    row.extend([exact(period(limit)), 0.0, 0.0, 0.0]);
    row.extend([exact(limit.capacity()), exact(limit.amount()), 0.0, exact(limit.most_used())]);
    row.extend([soft_limit(part), charged_at(part), 0.0]);
}

/// More parts about one log get all of its entries.
const MOST_PARTS: usize = 2;

/// The row that reads a log: it says which entries the answer needs.
pub(crate) fn log_reader(request: &ShardRequest, bucket: usize, at: Micros) -> Option<LimitRow> {
    let mut row = row(request.reader(bucket)?, at);
    row.pop();
    let parts: SmallVec<[&ShardPart; MOST_PARTS]> = request.about(bucket).collect();
    let gives_back = parts.iter().any(|part| part.gives_back());
    // A report takes as much as there is room for, which only the script knows.
    let takes_less = |part: &&ShardPart| part.act == Doing::Act(Act::Report) && !part.limit.always_charges();
    let is_simple = match &*parts {
        _ if parts.iter().any(takes_less) => false,
        [part] => !gives_back || !(part.limit.overruns() || part.soft.is_some()),
        _ => parts.len() <= MOST_PARTS && !gives_back,
    };
    if !is_simple {
        row.push(-1.0);
        return Some(row);
    }
    let wanted = wanted(&parts);
    row.push(wanted.len() as f64);
    row.extend(wanted);
    Some(row)
}

/// Sums of units that an answer may ask for beside what the log has: what the parts take, in any order, and then what
/// one of them, or a request like it, would ask for. Below zero, units that are given back.
fn wanted(parts: &[&ShardPart]) -> SmallVec<[f64; 32]> {
    let mut wanted: SmallVec<[f64; 32]> = SmallVec::new();
    let mut add = |units: i64| {
        let units = units as f64;
        if !wanted.contains(&units) {
            wanted.push(units);
        }
    };
    if let [part] = parts
        && part.gives_back()
    {
        let back = -i64::from(part.cost);
        [back, back + 1, 1].into_iter().for_each(&mut add);
    }
    let costs: SmallVec<[i64; MOST_PARTS]> = parts.iter().map(|part| i64::from(part.cost)).collect();
    let all: i64 = costs.iter().sum();
    let taken = [0, costs[0], *costs.last().unwrap_or(&0), all];
    for taken in taken {
        for asked in [0, costs[0], *costs.last().unwrap_or(&0), all] {
            add(taken + asked);
            add(taken + asked + 1);
        }
        for soft in parts.iter().filter_map(|part| Some((part, part.soft?))) {
            let (part, soft) = soft;
            let above = part.limit.capacity().saturating_sub(soft.limit.get()).saturating_add(1);
            add(taken + i64::try_from(above).unwrap_or(i64::MAX / 4));
        }
    }
    wanted
}
