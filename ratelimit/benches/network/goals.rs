//! The goals, as data, and which of them are missed.

use std::fmt::Write as _;

use crate::{
    case::{Case, Traffic},
    filter::Filter,
    report::nanos,
};

/// Shares of the program that only parses and reads the clock, at 1, 1,000 and 50,000 sources: what must be, and is to
/// be.
const SHARES: [(u16, f64, f64); 3] = [(1, 0.85, 0.9), (1_000, 0.85, 0.9), (50_000, 0.68, 0.75)];
/// How many times what nftables' faster hook judges.
const TIMES_NFTABLES: [(u16, f64, f64); 3] = [(1, 2.0, 2.4), (1_000, 2.1, 2.55), (50_000, 2.2, 3.2)];
/// Nanoseconds that a packet takes that passes.
const ADDED: [(u16, f64, f64); 2] = [(1_000, 80.0, 50.0), (50_000, 220.0, 150.0)];

/// One goal and what was measured.
struct GoalResult {
    what: String,
    is: f64,
    must: f64,
    goal: f64,
    /// Whether less is better.
    is_cost: bool,
}

impl GoalResult {
    fn misses(&self, least: f64) -> bool {
        if self.is_cost { self.is > least } else { self.is < least }
    }
}

/// The list, what must be reached first.
pub fn missed(cases: &[Case]) -> String {
    let all = results(cases);
    let musts: Vec<_> = all.iter().filter(|one| one.misses(one.must)).collect();
    let goals: Vec<_> = all.iter().filter(|one| !one.misses(one.must) && one.misses(one.goal)).collect();
    let mut text = format!("\n{} of {} goals measured miss what they must reach\n", musts.len(), all.len());
    for one in musts {
        let _ = writeln!(text, "  {:<52} {:>7.2}, must {:.2}", one.what, one.is, one.must);
    }
    let _ = writeln!(text, "and {} reach that, but miss their goal", goals.len());
    for one in goals {
        let _ = writeln!(text, "  {:<52} {:>7.2}, goal {:.2}", one.what, one.is, one.goal);
    }
    text
}

fn results(cases: &[Case]) -> Vec<GoalResult> {
    let dropped = |filter, sources| nanos(cases, filter, Traffic::Dropped, sources);
    let added = |filter, sources| added(cases, filter, sources);
    let mut all = Vec::new();
    for (sources, must, goal) in SHARES {
        let is = dropped(Filter::ClockOnly, sources).zip(dropped(Filter::Ratelimit, sources));
        all.extend(is.map(|(least, own)| GoalResult {
            what: format!("dropping, of parsing and clock, {sources} sources"),
            is: least / own,
            must,
            goal,
            is_cost: false,
        }));
    }
    for (sources, must, goal) in TIMES_NFTABLES {
        let nft = [Filter::NftIngress, Filter::NftPrerouting].map(|hook| dropped(hook, sources));
        let nft = nft.into_iter().flatten().reduce(f64::min);
        all.extend(nft.zip(dropped(Filter::Ratelimit, sources)).map(|(nft, own)| GoalResult {
            what: format!("dropping, times nftables, {sources} sources"),
            is: nft / own,
            must,
            goal,
            is_cost: false,
        }));
    }
    for (sources, must, goal) in ADDED {
        let own = added(Filter::Ratelimit, sources);
        let cost =
            |what: String, is: f64, must: f64, goal: f64| GoalResult { what, is, must, goal, is_cost: true };
        all.extend(own.map(|own| cost(format!("passing, ns added, {sources} sources"), own, must, goal)));
        for other in [Filter::NftIngress, Filter::NftPrerouting, Filter::Hashlimit] {
            let both = own.zip(added(other, sources));
            all.extend(both.map(|(own, other_added)| {
                let what = format!("passing, ns more than {}, {sources} sources", other.name());
                cost(what, own - other_added, 0.0, 0.0)
            }));
        }
    }
    all
}

/// Nanoseconds more than where nothing is.
pub fn added(cases: &[Case], filter: Filter, sources: u16) -> Option<f64> {
    let passing = |filter| nanos(cases, filter, Traffic::Passing, sources);
    Some(passing(filter)? - passing(Filter::Nothing)?)
}
