//! The table, and whether the goals are reached.

use super::{
    case::{Case, Figures},
    load::Protocol,
    process::Kind,
};

/// What nginx does over HTTP/1.1, and how much of it has to be done here.
const OF_NGINX: f64 = 0.6;
/// The limiter's part of what the proxy takes.
const OF_PROXY: f64 = 0.05;

pub fn print(cases: &[Case], figures: &[Vec<Figures>]) {
    println!(
        "{:<9} {:<27} {:>10} {:>11} {:>9} {:>9} {:>9}",
        "", "", "requests/s", "CPU us each", "p50 us", "p99 us", "p99.9 us"
    );
    for (case, own) in cases.iter().zip(figures) {
        let straight = of(cases, figures, case.protocol, Kind::Straight);
        let median = |of: fn(&Figures) -> f64| median(own.iter().map(of).collect());
        // The difference of a round's two runs, which lie side by side.
        let added = |of: fn(&Figures) -> f64| {
            let each = own.iter().zip(straight).map(|(own, straight)| of(own) - of(straight));
            match case.kind {
                Kind::Straight => format!("{:.0}", median(of)),
                _ => format!("{:+.0}", self::median(each.collect())),
            }
        };
        println!(
            "{:<9} {:<27} {:>10.0} {:>11.1} {:>9} {:>9} {:>9}",
            case.protocol.name(),
            case.kind.name(),
            median(|figures| figures.a_second),
            median(|figures| figures.processor),
            added(|figures| figures.p50),
            added(|figures| figures.p99),
            added(|figures| figures.p999),
        );
    }
    println!("times are those of the server itself, and what each proxy adds to them");
    goals(cases, figures);
}

fn goals(cases: &[Case], figures: &[Vec<Figures>]) {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let pairs = |one, other| {
            of(cases, figures, protocol, one)
                .iter()
                .zip(of(cases, figures, protocol, other))
                .collect::<Vec<_>>()
        };
        let speed = pairs(Kind::Limited, Kind::Nginx);
        let speed = median(speed.iter().map(|(own, nginx)| own.a_second / nginx.a_second).collect());
        let goal = if protocol == Protocol::Http1 { OF_NGINX } else { 1.0 };
        say(
            &format!("{}: requests a second, times those of nginx", protocol.name()),
            speed,
            goal,
            speed >= goal,
        );
        let part = pairs(Kind::Limited, Kind::Unlimited);
        let part = part.iter().map(|(with, without)| 1.0 - without.processor / with.processor);
        let part = median(part.collect());
        say(
            &format!("{}: the limiter's part of the CPU time", protocol.name()),
            part,
            OF_PROXY,
            part < OF_PROXY,
        );
    }
}

fn say(what: &str, is: f64, goal: f64, is_reached: bool) {
    let whether = if is_reached { "reached" } else { "MISSED" };
    println!("{what}: {is:.3}, the goal is {goal:.2}: {whether}");
}

fn of<'f>(cases: &[Case], figures: &'f [Vec<Figures>], protocol: Protocol, kind: Kind) -> &'f [Figures] {
    let place = cases.iter().position(|case| case.protocol == protocol && case.kind == kind);
    place.and_then(|place| figures.get(place)).expect("a case")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
