//! What each algorithm promises about every interval of time: how much it lets through at most.

use num_rational::BigRational;
use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Refill},
    time::Nanos,
};

use super::{Numbers, whole};

/// An admitted request.
#[derive(Clone, Copy, Debug)]
pub struct Admitted {
    /// What the clock said.
    pub stamp: Nanos,
    /// The latest time at which the bucket had been charged by then, this request included.
    pub latest: Nanos,
    pub cost: u32,
}

/// Fails if more was admitted in some interval than the limit's bound, and for continuous refill the stated precision.
pub fn check(spec: &LimitSpec, epoch: Nanos, admitted: &[Admitted]) -> Result<(), String> {
    let numbers = Numbers::of(spec, epoch);
    match spec.algorithm {
        Algorithm::TokenBucket if spec.refill == Refill::Interval => intervals(&numbers, admitted),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => continuous(&numbers, admitted),
        Algorithm::FixedWindow => windows(&numbers, admitted),
        Algorithm::SlidingWindowLog => every_window(&numbers, admitted, |_| 0),
        Algorithm::SlidingWindowCounter => {
            windows(&numbers, admitted)?;
            every_window(&numbers, admitted, |last| covered(&numbers, admitted, last))
        }
    }
}

/// In [s, t] at most the burst and what comes back in t - s. The time of each admission may be short by 1/128 ns, and
/// the time of a burst whose product with the amount needs more than 64 bits long by that.
fn continuous(numbers: &Numbers, admitted: &[Admitted]) -> Result<(), String> {
    // All times in 1/128 ns, and multiplied by the amount, which makes them whole.
    let part = whole(numbers.amount);
    let time = |units: u64| whole(units) * whole(numbers.per.0) * whole(128);
    let long = u128::from(numbers.capacity) * u128::from(numbers.amount) >= 1 << 64;
    let bound = time(numbers.capacity) + if long { part.clone() } else { whole(0) };
    let charges = sorted(admitted)
        .into_iter()
        .map(|request| (whole(request.stamp.0) * whole(128) * &part, time(request.cost.into()) - &part));
    let worst = largest_excess(charges);
    ensure(worst.as_ref().is_none_or(|worst| *worst <= bound), || format!("{worst:?} at once, bound {bound}"))
}

/// In [s, t] at most the burst and `amount` for each interval end after s.
fn intervals(numbers: &Numbers, admitted: &[Admitted]) -> Result<(), String> {
    let charges = sorted(admitted).into_iter().map(|request| {
        (whole((numbers.window(request.stamp) * u128::from(numbers.amount)) as i128), whole(request.cost))
    });
    let worst = largest_excess(charges);
    let bound = whole(numbers.capacity);
    ensure(worst.as_ref().is_none_or(|worst| *worst <= bound), || format!("{worst:?} at once, bound {bound}"))
}

/// The most by which the charges of an interval exceed what came back in it, over all intervals. Charges come as
/// (what has come back until then, charge).
fn largest_excess(charges: impl Iterator<Item = (BigRational, BigRational)>) -> Option<BigRational> {
    let mut worst: Option<BigRational> = None;
    // The worst of the intervals that end with the latest charge, and what had come back then.
    let mut running: Option<(BigRational, BigRational)> = None;
    for (back, charge) in charges {
        let carried =
            running.map(|(excess, earlier)| excess - (&back - earlier)).filter(|left| *left > whole(0));
        let excess = charge + carried.unwrap_or_else(|| whole(0));
        worst = Some(worst.map_or_else(|| excess.clone(), |worst| worst.max(excess.clone())));
        running = Some((excess, back));
    }
    worst
}

/// In every aligned window at most the amount.
fn windows(numbers: &Numbers, admitted: &[Admitted]) -> Result<(), String> {
    for window in admitted.chunk_by(|a, b| numbers.window(a.latest) == numbers.window(b.latest)) {
        let cost = window.iter().map(|request| u128::from(request.cost)).sum::<u128>();
        ensure(cost <= numbers.amount.into(), || format!("{cost} in the window of {:?}", window.first()))?;
    }
    Ok(())
}

/// In (t - window, t], for every t at which something was admitted, at most the amount and `extra`.
fn every_window(
    numbers: &Numbers,
    admitted: &[Admitted],
    extra: impl Fn(&Admitted) -> u128,
) -> Result<(), String> {
    for (index, last) in admitted.iter().enumerate() {
        let within = |request: &&Admitted| request.latest.0 + numbers.per.0 > last.latest.0;
        let recent = admitted[..=index].iter().rev().take_while(within);
        let cost = recent.map(|request| u128::from(request.cost)).sum::<u128>();
        let bound = u128::from(numbers.amount) + extra(last);
        ensure(cost <= bound, || format!("{cost} in the window before {:?}, bound {bound}", last.latest))?;
    }
    Ok(())
}

/// What a sliding counter may let through above its amount, because it takes the previous window's requests as evenly
/// spread: the share of them that it no longer counts, rounded up.
fn covered(numbers: &Numbers, admitted: &[Admitted], last: &Admitted) -> u128 {
    let window = numbers.window(last.latest);
    let previous = admitted.iter().filter(|request| numbers.window(request.latest) + 1 == window);
    let previous = previous.map(|request| u128::from(request.cost)).sum::<u128>();
    let into = numbers.per.0 - numbers.until_end(last.latest, window).0;
    (previous * u128::from(into)).div_ceil(u128::from(numbers.per.0))
}

fn sorted(admitted: &[Admitted]) -> Vec<Admitted> {
    let mut sorted = admitted.to_vec();
    sorted.sort_by_key(|request| request.stamp);
    sorted
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}
