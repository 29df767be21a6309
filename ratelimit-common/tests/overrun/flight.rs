//! What a limit that can be overrun promises: taken in any time is at most the burst and what the rate gives in it (of
//! windows, a limit for each that is touched), and the costs in flight: of requests that were let through, the last one
//! among them, and whose costs were not reported yet.

use proptest::{prelude::*, test_runner::TestCaseResult};
use ratelimit_common::{
    limit::{Algorithm, Refill},
    time::Nanos,
};

use super::{bucket::Bucket, config, limits, limits::Made, specs::owing};

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A request asks. If it is let through, it will cost so many 1,024ths of what can be owed.
    Ask(u64),
    /// One of those in flight is done.
    Report(usize),
    /// A request is charged as it asks.
    Take(u64),
    /// So many 60ths of the time in which the whole limit comes back.
    Wait(u64),
    /// As long as the last request was told, less so many nanoseconds.
    Retry(u64),
    /// The clock steps back by so many 60ths.
    Back(u64),
}

/// A request that was let through.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: Nanos,
    cost: u64,
    /// The numbers of the events.
    asked: usize,
    reported: Option<usize>,
}

fn share() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..=20, 0_u64..=1_024]
}

fn wait() -> impl Strategy<Value = Event> {
    let wait = prop_oneof![0_u64..=60, 0_u64..=400].prop_map(Event::Wait);
    prop_oneof![wait, (0_u64..=1).prop_map(Event::Retry)]
}

struct Flight<'m> {
    made: &'m Made,
    bucket: Bucket,
    now: Nanos,
    latest: Nanos,
    /// The latest time at which the bucket was charged.
    charged: Nanos,
    retry: Nanos,
    cut: u128,
    requests: Vec<Request>,
}

impl<'m> Flight<'m> {
    fn of(made: &'m Made, start: Nanos, events: &[Event]) -> Self {
        let bucket = Bucket::fresh(&made.limit(), start);
        let (now, latest, charged, retry) = (start, start, Nanos(0), Nanos(0));
        let mut flight = Self { made, bucket, now, latest, charged, retry, cut: 0, requests: Vec::new() };
        for (number, &event) in events.iter().enumerate() {
            flight.happens(number, event);
        }
        flight
    }

    fn happens(&mut self, number: usize, event: Event) {
        let limit = self.made.limit();
        let whole = u128::from(self.made.spec.rate.per.0.max(limit.fills_in().to_nanos_up().0));
        let parts = |parts: u64| (whole * u128::from(parts) / 60) as u64;
        match event {
            Event::Wait(count) => self.now.0 += parts(count),
            Event::Retry(less) => self.now.0 += self.retry.0.saturating_sub(less),
            // An hour behind the latest time is all that a clock may step back.
            Event::Back(count) => {
                let least = Nanos(self.latest.0 - Nanos::from_secs(3_500).0);
                self.now = Nanos(self.now.0.saturating_sub(parts(count))).max(least);
            }
            Event::Ask(share) => self.ask(number, self.cost(share), None),
            Event::Take(share) => self.ask(number, self.cost(share), Some(number)),
            Event::Report(which) => {
                let mut in_flight = self.requests.iter_mut().filter(|request| request.reported.is_none());
                if let Some(request) = in_flight.nth(which) {
                    request.reported = Some(number);
                    self.charged = self.charged.max(self.now);
                    let answer = self.bucket.decide(&limit, self.now, request.cost as u32);
                    self.cut += u128::from(answer.cut);
                }
            }
        }
        self.latest = self.latest.max(self.now);
    }

    fn cost(&self, share: u64) -> u64 {
        let limit = self.made.limit();
        let most = u128::from(limit.most_used() - limit.capacity());
        ((most * u128::from(share)) >> 10).clamp(1, u32::MAX.into()) as u64
    }

    fn ask(&mut self, number: usize, cost: u64, reported: Option<usize>) {
        let limit = self.made.limit();
        let takes = if reported.is_some() { cost as u32 } else { 0 };
        let answer = self.bucket.decide(&limit, self.now, takes);
        (self.retry, self.cut) = (answer.retry_after.unwrap_or_default(), self.cut + u128::from(answer.cut));
        // A window that has begun goes on if the clock steps back; buckets count time.
        let counts = !limits::fills(&limit);
        if takes > 0 {
            self.charged = self.charged.max(self.now);
        }
        let at = if counts { self.now.max(self.charged) } else { self.now };
        if answer.allowed {
            self.requests.push(Request { at, cost, asked: number, reported });
        }
    }

    /// What the rate gives at most in a stretch of time, ends included.
    fn given(&self, from: Nanos, to: Nanos) -> u128 {
        let (limit, spec) = (self.made.limit(), &self.made.spec);
        let (amount, per) = (u128::from(limit.amount()), u128::from(spec.rate.per.0));
        let capacity = u128::from(limit.capacity());
        let window = |time: Nanos| (u128::from(time.0) + u128::from(self.made.epoch.0)) / per;
        let (ends, length) = (window(to) - window(from), u128::from(to.0 - from.0));
        match spec.algorithm {
            Algorithm::TokenBucket if spec.refill == Refill::Interval => capacity + amount * ends,
            // The time of each charge is rounded down, by less than a nanosecond.
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let rounding = self.requests.len() as u128;
                capacity + (amount * (length + rounding)).div_ceil(per)
            }
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter => amount * (1 + ends),
            Algorithm::SlidingWindowLog => amount * (1 + length / per),
        }
    }

    /// Checks, for each stretch from one request to another, what was let through in it, but for what was in flight
    /// when the last of them asked.
    fn check(&self) -> TestCaseResult {
        for Request { at: from, .. } in &self.requests {
            for Request { at: to, .. } in self.requests.iter().filter(|end| end.at >= *from) {
                let within = |request: &&Request| (*from..=*to).contains(&request.at);
                let last = self.requests.iter().filter(within).map(|request| request.asked).max();
                let is_done = |request: &&Request| request.reported < last && request.reported.is_some();
                let taken = self.requests.iter().filter(within).filter(is_done);
                let taken: u128 = taken.map(|request| u128::from(request.cost)).sum();
                let bound = self.given(*from, *to) + self.cut;
                prop_assert!(
                    taken <= bound,
                    "{taken} from {from:?} to {to:?}, bound {bound}, {:?}: {:?}",
                    self.made,
                    self.requests
                );
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_taken_stays_within_the_bound_but_for_costs_in_flight(
        made in owing(limits::of),
        events in prop::collection::vec(prop_oneof![
            3 => share().prop_map(Event::Ask),
            3 => (0_usize..4).prop_map(Event::Report),
            2 => wait(),
        ], 1..60),
    ) {
        Flight::of(&made, Nanos(1 << 50), &events).check()?;
    }

    #[test]
    fn a_clock_that_steps_back_admits_nothing_extra(
        made in owing(limits::short), beyond in any::<bool>(),
        events in prop::collection::vec(prop_oneof![
            4 => share().prop_map(Event::Take),
            2 => wait(),
            1 => (1_u64..=90).prop_map(Event::Back),
        ], 1..40),
    ) {
        let start = if beyond { super::WRAP.0 + (1 << 50) } else { 1 << 50 };
        Flight::of(&made, Nanos(start), &events).check()?;
    }
}
