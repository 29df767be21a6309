//! How far the sliding window counter is from the log: the worst by construction, exactly, and ordinary traffic within
//! what probability allows. `cargo xtask bench counter` has the figures for more traffic.
#![expect(clippy::expect_used, reason = "a test that can not go on has failed")]

#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "nothing is taken back or forgotten here")]
mod bucket;
#[path = "support/rivals.rs"]
mod rivals;
#[path = "support/traffic.rs"]
mod traffic;
#[path = "support/worst.rs"]
mod worst;

use std::num::NonZeroU64;

use ratelimit_common::time::Nanos;
use rivals::{Counting, Pair, Rivals, Tally};
use traffic::{Arrivals, Random, Shape};
use worst::Outcome;

const MINUTE: Nanos = Nanos::from_secs(60);
const AMOUNTS: [u64; 7] = [1, 2, 3, 7, 60, 100, 1_000];

fn pair(amount: u64, per: Nanos) -> Pair {
    Pair::new(NonZeroU64::new(amount).expect("not zero"), per, false).expect("a limit")
}

#[test]
fn the_counter_admits_twice_the_limit_in_a_window_at_worst() {
    for amount in AMOUNTS {
        let Pair { counter, log } = pair(amount, MINUTE);
        for quarters in 1..=4 {
            let length = MINUTE.0 / 4 * quarters;
            let arrivals = worst::crowded(&counter, length);
            let most = Outcome::of(&counter, &arrivals).most_in(length);
            assert_eq!(most, amount + (amount * quarters).div_ceil(4), "{amount} a minute, {quarters} / 4");
            assert_eq!(most, worst::most_in(&counter, length), "{amount} a minute, {quarters} / 4");
            assert_eq!(Outcome::of(&log, &arrivals).most_in(length), amount);
        }
    }
}

#[test]
fn the_counter_denies_a_whole_limit_of_good_requests_at_worst() {
    for amount in AMOUNTS {
        let Pair { counter, log } = pair(amount, MINUTE);
        for (quarters, expected) in [(0, amount), (1, amount * 3 / 4), (2, amount / 2), (3, amount / 4)] {
            let into = MINUTE.0 / 4 * quarters;
            let arrivals = worst::early(&counter, into);
            assert_eq!(Outcome::of(&counter, &arrivals).denied, expected, "{amount} a minute");
            assert_eq!(worst::denied_after(&counter, into), expected, "{amount} a minute");
            assert_eq!(Outcome::of(&log, &arrivals).denied, 0, "{amount} a minute");
        }
        let recurrent = worst::recurrent(&counter, 10);
        assert_eq!(Outcome::of(&counter, &recurrent).denied, 5 * amount, "{amount} a minute");
        assert_eq!(Outcome::of(&log, &recurrent).denied, 0, "{amount} a minute");
    }
}

#[test]
fn an_even_client_at_the_limit_loses_one_request_in_two_windows() {
    for amount in AMOUNTS.into_iter().filter(|amount| MINUTE.0.is_multiple_of(*amount)) {
        let Pair { counter, log } = pair(amount, MINUTE);
        let arrivals = worst::steady(&counter, 10);
        assert_eq!(Outcome::of(&counter, &arrivals).denied, 5, "{amount} a minute");
        assert_eq!(Outcome::of(&log, &arrivals).denied, 0, "{amount} a minute");
    }
}

/// Windows of a few nanoseconds, so that all arrivals can be tried: each number of requests at each instant.
#[test]
fn no_arrivals_are_worse_than_the_constructed_ones() {
    for (amount, window, windows) in [(1, 3, 3), (2, 3, 3), (2, 4, 2), (2, 5, 2), (3, 4, 2)] {
        let Pair { counter, log } = pair(amount, Nanos(window));
        let instants = (window * windows) as u32;
        let mut most = vec![0; window as usize + 1];
        for number in 0..(amount + 1).pow(instants) {
            let count = |instant| number / (amount + 1).pow(instant) % (amount + 1);
            let arrivals: Vec<_> = (0..instants).map(|at| (Nanos(at.into()), count(at))).collect();
            let outcome = Outcome::of(&counter, &arrivals);
            for length in 2..=window {
                most[length as usize] = outcome.most_in(length).max(most[length as usize]);
            }
            if Outcome::of(&log, &arrivals).denied == 0 {
                assert!(
                    outcome.denied <= outcome.admitted.len() as u64,
                    "{amount} in {window}: {arrivals:?}"
                );
            }
        }
        for length in 2..=window {
            let expected = worst::most_in(&counter, length);
            assert_eq!(most[length as usize], expected, "{amount} in {window}, over {length}");
        }
    }
}

/// The limit of the traffic below, in a minute.
const AMOUNT: u64 = 100;

/// A bound for the probability that the two decide differently about a request of a Poisson source that sends `load`
/// times the limit, if both have counted all requests; if only those that were admitted, for a load up to 1.
///
/// The other requests make the log's number Poisson with the mean load x N, and the counter's a sum of such numbers
/// with weights up to 1 and the same mean. To disagree, one of the two must have reached N with a load below 1, or
/// have stayed below N with one above. By Chernoff's inequality, to which weights up to 1 make no difference, each has
/// a probability of exp(N x (1 - load + ln load)) at most. Requests that do not count because they were denied only
/// lower the numbers.
fn chernoff(load: f64) -> f64 {
    2.0 * (AMOUNT as f64 * (1.0 - load + load.ln())).exp()
}

/// What that probability is for a load of 1, whatever N, by the normal distribution: at a share u of a window the two
/// numbers differ by sqrt(N x u x (1 - u)) x sqrt(2 / pi) on average, and lie at N with 1 / sqrt(2 x pi x N). Over all
/// u that is an eighth. The bounds leave room for chance. It is the most that a load can have.
const NEAR_THE_LIMIT: [f64; 2] = [1.0 / 9.0, 1.0 / 7.0];

/// Some 30,000 requests, and the most that a limiter could admit of them.
fn judge(shape: Shape, load: f64) -> (Tally, u64) {
    const WINDOWS: u64 = 20;
    let rivals = Rivals::new(NonZeroU64::new(AMOUNT).expect("not zero"), MINUTE).expect("a limit");
    let sources = (30_000.0 / (WINDOWS * AMOUNT) as f64 / load).ceil() as u64;
    let gap = MINUTE.0 as f64 / AMOUNT as f64 / load;
    let mut tally = Tally::default();
    for source in 0..sources {
        tally += rivals.judge(Arrivals::new(shape, gap, Nanos(MINUTE.0 * WINDOWS), Random(source << 32)));
    }
    (tally, sources * WINDOWS * AMOUNT)
}

fn share(tally: &Tally, counting: Counting) -> f64 {
    (tally[counting].allowed + tally[counting].denied) as f64 / tally.requests as f64
}

#[test]
fn the_two_disagree_about_poisson_traffic_no_more_than_chance_allows() {
    let mut requests = 0;
    for load in [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0] {
        let (tally, most) = judge(Shape::Poisson, load);
        requests += tally.requests;
        let bound = chernoff(load).min(NEAR_THE_LIMIT[1]);
        for counting in Counting::EACH {
            let is_bounded = load < 1.0 || counting == Counting::All;
            assert!(!is_bounded || share(&tally, counting) <= bound, "load {load}: {counting:?}, {tally:?}");
        }
        assert!(tally.counter_allowed.max(tally.log_allowed) <= most, "load {load}: {tally:?}");
        let is_seen = share(&tally, Counting::All) >= NEAR_THE_LIMIT[0];
        assert_eq!(is_seen, load == 1.0, "load {load}: {tally:?}");
    }
    assert!(requests >= 200_000, "{requests}");
}

/// While it is on, such a source sends half the limit: as if it were always on, or less.
#[test]
fn the_two_agree_about_bursts_far_below_the_limit() {
    let bursts = Shape::Bursts { on: Nanos(MINUTE.0 / 10), off: Nanos(MINUTE.0 / 10 * 9) };
    let (tally, _) = judge(bursts, 0.05);
    assert!(tally.requests > 20_000, "{tally:?}");
    for counting in Counting::EACH {
        assert!(share(&tally, counting) <= chernoff(0.5), "{counting:?}, {tally:?}");
    }
}
