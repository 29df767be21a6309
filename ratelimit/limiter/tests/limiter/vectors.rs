//! The golden decisions through a limiter, to the nanosecond, whenever it was made.

#[expect(dead_code, reason = "what is owed shows in how long requests are denied")]
#[path = "../../../../ratelimit-common/tests/support/vectors.rs"]
mod golden;

use golden::{Event, Vector};
use ratelimit_limiter::{Decision, Limiter, Nanos, Rule, clock::FakeClock};

#[test]
fn every_vector_holds_however_old_the_limiter_is() {
    let mut vectors = golden::all().unwrap();
    let overrun = include_str!("../../../../ratelimit-common/tests/overrun.yaml");
    vectors.extend(golden::read(overrun).unwrap());
    assert!(vectors.len() >= 20, "only {} vectors", vectors.len());
    for vector in &vectors {
        // Made when the first request comes, or up to four and a half years before.
        for age in [0, 1, 777_777_777, 86_400_000_000_001, 4 * Nanos::YEAR.0 + 12_345] {
            run(vector, age)
                .unwrap_or_else(|error| panic!("{}, limiter aged {age} ns: {error}", vector.name));
        }
    }
}

fn run(vector: &Vector, age: u64) -> Result<(), String> {
    let first = vector.events.first().map_or(Nanos(0), |event| event.at);
    // Whole weeks later windows begin at the same times.
    let shift = 300 * 7 * 86_400 * Nanos::SECOND.0;
    let clock = FakeClock::new(Nanos(first.0 + shift - age));
    let builder = Limiter::builder().rule(Rule::new("rule", vector.spec)).clock(clock.clone());
    let limiter = builder.build().map_err(|error| error.to_string())?;
    for (index, event) in vector.events.iter().enumerate() {
        clock.set(Nanos(event.at.0 + shift));
        for _ in 0..event.times {
            let decision = limiter.check("key", event.cost);
            compare(event, &decision).map_err(|error| format!("event {index}: {error}"))?;
        }
    }
    Ok(())
}

fn compare(event: &Event, decision: &Decision<'_>) -> Result<(), String> {
    let as_expected = decision.allowed() == event.allow
        && decision.exceeded() != event.allow
        && decision.never() == event.never
        && event.remaining.is_none_or(|remaining| decision.remaining() == remaining)
        && event.retry_after.is_none_or(|wait| decision.retry_after() == Some(wait))
        && event.leaves_after.is_none_or(|wait| decision.leaves_after() == Some(wait));
    if as_expected { Ok(()) } else { Err(format!("expected {event:?}, got {decision:?}")) }
}
