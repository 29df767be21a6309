//! The golden decisions of `overrun.yaml`, for tables of several ages.

use ratelimit_common::{limit::StateStorage, time::Nanos};

use super::{
    bucket::Bucket,
    promises,
    vectors::{self, Vector},
};

/// How old the table is at the vectors' zero: new, years, and beyond 64 bits of ticks.
const AGES: [Nanos; 3] = [Nanos(0), Nanos(Nanos::YEAR.0 * 3 + 77_000_000_001), Nanos(Nanos::YEAR.0 * 6 + 1)];

#[test]
fn every_vector_holds() -> Result<(), String> {
    let vectors = vectors::read(include_str!("../overrun.yaml"))?;
    assert!(vectors.len() >= 10, "only {} vectors", vectors.len());
    for (vector, age) in vectors.iter().flat_map(|vector| AGES.map(|age| (vector, age))) {
        run(vector, age).map_err(|error| format!("{}, table aged {age:?}: {error}", vector.name))?;
    }
    Ok(())
}

fn run(vector: &Vector, age: Nanos) -> Result<(), String> {
    let limit = vector.spec.build(StateStorage::UserSpace).map_err(|error| error.to_string())?;
    let window = limit.period().0;
    let limit = limit.aligned(Nanos(window - age.0 % window));
    let mut bucket = Bucket::fresh(&limit, age);
    for (index, event) in vector.events.iter().enumerate() {
        let now = Nanos(age.0 + event.at.0);
        for _ in 0..event.times {
            let answer = bucket.decide(&limit, now, event.cost);
            promises(&limit, &bucket, now, &answer).map_err(|error| format!("event {index}: {error}"))?;
            let as_expected = answer.allowed == event.allow
                && event.remaining.is_none_or(|remaining| remaining == answer.remaining)
                && event.owed.is_none_or(|owed| owed == answer.owed)
                && event.cut.is_none_or(|cut| cut == answer.cut)
                && event.retry_after.is_none_or(|wait| Some(wait) == answer.retry_after);
            if !as_expected {
                return Err(format!("event {index}: expected {event:?}, got {answer:?}"));
            }
        }
    }
    Ok(())
}
