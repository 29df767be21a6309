//! A program that embeds the limiter: ten jobs of two tenants, of which each may start two at once and one more a
//! second, and none may read more than 1 MB an hour. It needs stable Rust and nothing else: `cargo run`.

use std::{error::Error, num::NonZeroU64, time::Duration};

use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule, clock::FakeClock};

const TWO: NonZeroU64 = NonZeroU64::new(2).unwrap();
const MEGABYTE: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();
const HOUR: Nanos = Nanos::from_secs(3_600);

fn main() -> Result<(), Box<dyn Error>> {
    // A clock that this program moves, so that it prints the same each time; without it, real time counts.
    let clock = FakeClock::new(Nanos::from_secs(1_700_000_000));
    let one_a_second = Rate { amount: NonZeroU64::MIN, per: Nanos::SECOND };
    let jobs = LimitSpec { burst: Some(TWO), ..LimitSpec::new(Algorithm::TokenBucket, one_a_second) };
    let bytes = LimitSpec::new(Algorithm::FixedWindow, Rate { amount: MEGABYTE, per: HOUR });
    let limiter = Limiter::builder()
        .rule(Rule::new("jobs", jobs))
        .rule(Rule::new("bytes", bytes))
        .clock(clock.clone())
        .build()?;

    let mut started = 0;
    for job in 0..10 {
        let tenant = if job % 2 == 0 { "acme" } else { "globex" };
        // Each rule has a cost of its own. Both are charged, or none.
        let asks = [limiter.ask(0, tenant, 1), limiter.ask(1, tenant, 400_000)];
        let asks: Vec<_> = asks.into_iter().flatten().collect();
        let outcome = limiter.check_each(&asks);
        let decision = outcome.decision();
        let rule = decision.rule().map_or("no rule", Rule::name);
        match decision.retry_after().map(Duration::from) {
            None => println!("job {job} of {tenant} starts; {rule} has {} left", decision.remaining()),
            Some(wait) => println!("job {job} of {tenant} waits for {rule}: {wait:?}"),
        }
        started += u32::from(outcome.allowed());
        clock.advance(Nanos(300_000_000));
    }

    // A job that has read less than it announced gives the rest back, and another fits.
    let rest: Vec<_> = limiter.ask(1, "acme", 300_000).into_iter().collect();
    limiter.refund_each(&rest);
    let fits = limiter.ask(1, "acme", 400_000).is_some_and(|ask| limiter.check_each(&[ask]).allowed());
    println!("after a refund there is room for another job of acme: {fits}");
    if (started, fits) == (4, true) { Ok(()) } else { Err("not what the limits say".into()) }
}
