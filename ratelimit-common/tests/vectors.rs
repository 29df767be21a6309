//! The golden decisions of `vectors.yaml` through the pure functions, to the nanosecond: in every place that can keep
//! the limit, and for tables of several ages. Also checks, for every event, that its numbers agree with what then
//! happens.

#[path = "support/agreement.rs"]
mod agreement;
#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "vectors take nothing back")]
mod bucket;
#[expect(dead_code, reason = "no limit of that file can be overrun")]
#[path = "support/vectors.rs"]
mod vectors;

use bucket::{Answer, Bucket};
use ratelimit_common::{
    algorithm::sliding_window_counter::WideState,
    limit::{Algorithm, Limit, LimitError, LimitSpec, OnLimit, StateKind, StateStorage},
    time::Nanos,
};
use vectors::{Event, Vector};

/// How old the table is at the vectors' zero: new, off every grid, years, and beyond 64 bits of ticks.
const AGES: [Nanos; 4] = [
    Nanos(0),
    Nanos(12_345_678_901),
    Nanos(Nanos::YEAR.0 * 4 + 77_000_000_001),
    Nanos(Nanos::YEAR.0 * 6 + 1),
];

#[test]
fn every_vector_holds_wherever_its_limit_can_be_kept() -> Result<(), String> {
    let vectors = vectors::all()?;
    assert!(vectors.len() >= 20, "only {} vectors", vectors.len());
    for vector in &vectors {
        for place in [StateStorage::Kernel, StateStorage::UserSpace] {
            match vector.spec.build(place) {
                Ok(limit) => run_at_all_ages(vector, &limit, Bucket::fresh)?,
                Err(error) => assert_eq!(Some(error), refusal(&vector.spec, place), "{}", vector.name),
            }
        }
    }
    Ok(())
}

#[test]
fn the_wide_sliding_counter_decides_as_the_narrow_one() -> Result<(), String> {
    let vectors = vectors::all()?;
    let sliding = |vector: &&Vector| vector.spec.algorithm == Algorithm::SlidingWindowCounter;
    for vector in vectors.iter().filter(sliding) {
        let limit = vector.spec.build(StateStorage::UserSpace).map_err(|error| error.to_string())?;
        run_at_all_ages(vector, &limit, |_, _| Bucket::Wide(WideState::default()))?;
    }
    Ok(())
}

/// Why a place may refuse a vector's limit.
fn refusal(spec: &LimitSpec, place: StateStorage) -> Option<LimitError> {
    match (place, spec.algorithm, spec.on_limit) {
        (StateStorage::Kernel, Algorithm::SlidingWindowLog, _) => Some(LimitError::LogInKernel),
        (StateStorage::Kernel, _, OnLimit::Delay) => Some(LimitError::DelayInKernel),
        _ => None,
    }
}

fn run_at_all_ages(
    vector: &Vector,
    limit: &Limit,
    fresh: impl Fn(&Limit, Nanos) -> Bucket,
) -> Result<(), String> {
    for age in AGES {
        let window = limit.period().0;
        let limit = limit.aligned(Nanos(window - age.0 % window));
        let mut bucket = fresh(&limit, age);
        for (index, event) in vector.events.iter().enumerate() {
            let now = Nanos(age.0 + event.at.0);
            run(&limit, &mut bucket, now, event)
                .map_err(|error| format!("{}, event {index}, table aged {age:?}: {error}", vector.name))?;
        }
    }
    Ok(())
}

fn run(limit: &Limit, bucket: &mut Bucket, now: Nanos, event: &Event) -> Result<(), String> {
    for _ in 0..event.times {
        let answer = bucket.decide(limit, now, event.cost);
        compare(event, &answer)?;
        agreement::check(limit, bucket, now, event.cost, &answer)?;
        if fills(limit) {
            agreement::check_reset(limit, bucket, now, answer.reset_after)?;
        }
    }
    Ok(())
}

/// Whether `reset_after` is the time at which a bucket is full, and not the end of a window.
fn fills(limit: &Limit) -> bool {
    match limit.kind() {
        StateKind::ArrivalTime | StateKind::Interval => true,
        StateKind::Window | StateKind::SlidingCounter | StateKind::WideSlidingCounter | StateKind::Log => {
            false
        }
    }
}

fn compare(event: &Event, answer: &Answer) -> Result<(), String> {
    let as_expected = answer.allowed == event.allow
        && answer.never == event.never
        && event.remaining.is_none_or(|remaining| remaining == answer.remaining)
        && event.retry_after.is_none_or(|wait| Some(wait) == answer.retry_after)
        && event.leaves_after.is_none_or(|wait| Some(wait) == answer.leaves_after);
    if as_expected { Ok(()) } else { Err(format!("expected {event:?}, got {answer:?}")) }
}

#[test]
fn decimal_seconds_are_read_exactly() {
    let cases = [("0", 0), ("14.9", 14_900_000_000), ("84.000000001", 84_000_000_001), ("0.05", 50_000_000)];
    for (text, nanos) in cases {
        assert_eq!(vectors::seconds(text), Ok(Nanos(nanos)));
    }
    assert!(vectors::seconds("1.0000000001").is_err());
}
