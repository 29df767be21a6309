//! The goals, as data, and how they stand.

use crate::measure::Figures;

/// What must be reached, and what is to be.
pub struct Goal {
    /// The row's name.
    pub row: &'static str,
    pub measure: Measure,
    pub must: f64,
    pub goal: f64,
}

/// What of a row a goal is about.
#[derive(Clone, Copy)]
pub enum Measure {
    /// Nanoseconds above the clock, times the floor.
    TimesFloor,
    /// Times what it is compared with.
    TimesBeside,
    /// Nanoseconds above the clock.
    Nanos,
    /// Nanoseconds more than what it is compared with.
    Added,
}

const fn goal(row: &'static str, measure: Measure, must: f64, goal: f64) -> Goal {
    Goal { row, measure, must, goal }
}

/// All of them.
pub const GOALS: &[Goal] = &[
    goal("one rule, 1 source", Measure::TimesFloor, 1.4, 1.15),
    goal("one rule, 1,000 sources", Measure::TimesFloor, 1.4, 1.15),
    goal("one rule, 100,000 sources", Measure::TimesFloor, 1.15, 1.05),
    goal("one rule, 1,000,000 sources", Measure::TimesFloor, 1.2, 1.05),
    goal("denied", Measure::TimesFloor, 1.6, 1.3),
    goal("IPv6", Measure::TimesFloor, 1.6, 1.3),
    goal("two VLAN tags", Measure::TimesFloor, 1.6, 1.3),
    goal("rules on ports", Measure::TimesFloor, 1.6, 1.3),
    goal("64 rules of which one matches", Measure::TimesBeside, 1.05, 1.0),
    goal("two prefix lengths", Measure::TimesFloor, 1.6, 1.3),
    goal("new_sources", Measure::TimesFloor, 1.6, 1.3),
    goal("bytes", Measure::TimesFloor, 1.6, 1.3),
    goal("fixed window", Measure::TimesFloor, 1.6, 1.3),
    goal("bans in force", Measure::TimesFloor, 1.6, 1.3),
    goal("100,000 prefixes, come back", Measure::Added, 30.0, 15.0),
    goal("100,000 prefixes, never", Measure::Added, 75.0, 60.0),
    goal("eight rules, 1 source", Measure::Nanos, 320.0, 200.0),
    goal("eight rules, 50,000 sources", Measure::Nanos, 950.0, 700.0),
    goal("flood of 10,000,000 sources", Measure::TimesBeside, 1.5, 1.2),
];

impl Goal {
    /// What was measured; `None` if the row was not measured.
    pub fn measured(&self, all: &[Figures]) -> Option<f64> {
        let figures = all.iter().find(|figures| figures.row.name == self.row)?;
        let product = figures.product.above;
        Some(match self.measure {
            Measure::TimesFloor => product / figures.floor()?.above,
            Measure::TimesBeside => product / figures.beside.as_ref()?.above,
            Measure::Nanos => product,
            Measure::Added => product - figures.beside.as_ref()?.above,
        })
    }

    /// With its unit.
    pub fn shown(&self, number: f64) -> String {
        match self.measure {
            Measure::TimesFloor | Measure::TimesBeside => format!("{number:.2}"),
            Measure::Nanos | Measure::Added => format!("{number:.0} ns"),
        }
    }

    pub const fn what(&self) -> &'static str {
        match self.measure {
            Measure::TimesFloor => "times the floor",
            Measure::TimesBeside => "times what it is compared with",
            Measure::Nanos => "above the clock",
            Measure::Added => "more than without",
        }
    }
}

/// The list of goals missed, the least ones first.
pub fn print_missed(all: &[Figures]) {
    let measured = || GOALS.iter().filter_map(|goal| Some((goal, goal.measured(all)?)));
    let missed_musts: Vec<_> = measured().filter(|(goal, number)| *number > goal.must).collect();
    let missed_goals: Vec<_> =
        measured().filter(|(goal, number)| *number > goal.goal && *number <= goal.must).collect();
    println!("\n{} of {} goals measured miss what they must reach", missed_musts.len(), measured().count());
    for (goal, number) in missed_musts {
        println!(
            "  {:<32} {:>8} {}, must {}",
            goal.row,
            goal.shown(number),
            goal.what(),
            goal.shown(goal.must)
        );
    }
    println!("and {} reach that, but miss their goal", missed_goals.len());
    for (goal, number) in missed_goals {
        println!(
            "  {:<32} {:>8} {}, goal {}",
            goal.row,
            goal.shown(number),
            goal.what(),
            goal.shown(goal.goal)
        );
    }
}
