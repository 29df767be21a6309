//! Limits requests of several clients in a program of one's own: `cargo run --example limiter`.

use std::{error::Error, num::NonZeroU64};

use ratelimit::{
    clock::FakeClock,
    limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule},
};

fn main() -> Result<(), Box<dyn Error>> {
    // A clock that this program moves, so that it prints the same each time; without it, real time is used.
    let clock = FakeClock::new(Nanos::from_secs(1_700_000_000));
    let limiter = Limiter::builder()
        .rule(Rule::new("burst", limit(Algorithm::TokenBucket, 2, Nanos::SECOND)?))
        .rule(Rule::new("quota", limit(Algorithm::FixedWindow, 5, Nanos::from_secs(86_400))?))
        .rule(Rule::new("planned", limit(Algorithm::FixedWindow, 3, Nanos::from_secs(86_400))?).observe())
        .clock(clock.clone())
        .max_keys(100_000)
        .build()?;

    for _ in 0..8 {
        let decision = limiter.check("198.51.100.7", 1);
        let rule = decision.rule().map_or("none", Rule::name);
        match decision.retry_after() {
            None => println!("allowed; {rule} has {} of {} left", decision.remaining(), decision.limit()),
            Some(wait) => println!("denied by {rule}; come again in {:.3} s", wait.0 as f64 / 1e9),
        }
        clock.advance(Nanos(250_000_000));
    }

    // Other clients have buckets of their own; what is charged may differ from rule to rule.
    let asks = [limiter.ask(0, "203.0.113.9", 1), limiter.ask(1, "203.0.113.9", 4)];
    let asks: Vec<_> = asks.into_iter().flatten().collect();
    let outcome = limiter.check_each(&asks);
    println!("another client: allowed {}, {:?}", outcome.allowed(), outcome.decision().remaining());
    Ok(())
}

fn limit(algorithm: Algorithm, amount: u64, per: Nanos) -> Result<LimitSpec, Box<dyn Error>> {
    let amount = NonZeroU64::new(amount).ok_or("a limit of nothing")?;
    Ok(LimitSpec::new(algorithm, Rate { amount, per }))
}
