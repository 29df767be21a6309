//! The limiter as programs use it: through its public interface, with a clock that the tests move.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_range_loop,
    reason = "a test that can not go on has failed; and its keys are numbers"
)]

mod allocations;
mod eviction;
mod growth;
mod random;
mod reload;
mod several;
#[path = "../../../tests/support/stops.rs"]
mod stops;
mod threads;
mod vectors;
mod waits;
mod wide;

use ratelimit_config::limit::parse_limit;
use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rule, clock::FakeClock};

/// A time in the middle of nothing: no window of a whole number of days, hours or minutes begins at it.
const START: Nanos = Nanos(1_700_000_123_456_789_012);

/// The algorithms by name. A test that goes through all of them takes them from here.
fn algorithms() -> impl Iterator<Item = &'static str> {
    Algorithm::ALL.into_iter().map(Algorithm::name)
}

/// A limit in the form of the command line.
fn limit(text: &str) -> LimitSpec {
    match parse_limit(text) {
        Ok(spec) => spec,
        Err(error) => panic!("{text}: {error}"),
    }
}

fn rule(name: &str, text: &str) -> Rule {
    Rule::new(name, limit(text))
}

/// A limiter and its clock, which stands at [`START`].
fn limiter(rules: impl IntoIterator<Item = Rule>, max_keys: u64) -> (Limiter<FakeClock>, FakeClock) {
    let clock = FakeClock::new(START);
    let builder = Limiter::builder().clock(clock.clone()).max_keys(max_keys);
    match rules.into_iter().fold(builder, |builder, rule| builder.rule(rule)).build() {
        Ok(limiter) => (limiter, clock),
        Err(error) => panic!("{error}"),
    }
}

/// A limiter of one rule with the default room.
fn limiter_of(text: &str) -> (Limiter<FakeClock>, FakeClock) {
    limiter([rule("rule", text)], 1_000_000)
}

const SECOND: Nanos = Nanos::SECOND;

/// Numbers that look random and are the same in each run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
