//! The worst that the sliding window counter does: arrivals made to mislead it, and formulas for what comes of them.
//!
//! N is the amount, W the window in nanoseconds, and the windows are [0, W), [W, 2W) and so on. The counter takes the
//! requests of the window before as evenly spread, so it is wrong by most when all of them came at one instant: it
//! lets too many through if that was the window's last, too few if it was its first.

use ratelimit_common::{limit::Limit, time::Nanos};

use super::bucket::Bucket;

/// Requests at some instants: when, and how many. Those that are denied are not sent again.
pub type Arrivals = Vec<(Nanos, u64)>;

/// N requests in a window's last nanosecond, and N at the end of an interval of `length` nanoseconds, from 2 to W, that
/// begins with it.
pub fn crowded(limit: &Limit, length: u64) -> Arrivals {
    let (amount, window) = (limit.amount(), limit.period().0);
    vec![(Nanos(window - 1), amount), (Nanos(window + length - 2), amount)]
}

/// The most that the counter admits in any `length` nanoseconds (from 2 to W) of any arrivals:
/// N + ceil(N x (length - 2) / W). In W nanoseconds that is 2N, if W is above 2N.
///
/// The interval meets two windows at most. If it meets P admitted requests of the first, then its last nanosecond is
/// at most `length` - 2 into the second, which has counted N - floor(P x (W - (length - 2)) / W) there at most. With P
/// that is N + ceil(P x (length - 2) / W), and P is N at most. [`crowded`] attains it, because the last nanosecond of
/// a window may be all that the interval meets of it. An interval within one window has N at most.
pub fn most_in(limit: &Limit, length: u64) -> u64 {
    let (amount, window) = (limit.amount(), limit.period().0);
    amount + (u128::from(amount) * u128::from(length - 2)).div_ceil(u128::from(window)) as u64
}

/// N requests at the first instant of a window, and N at `into` nanoseconds into the next. No window of any alignment
/// has more than N.
pub fn early(limit: &Limit, into: u64) -> Arrivals {
    let (amount, window) = (limit.amount(), limit.period().0);
    vec![(Nanos(0), amount), (Nanos(window + into), amount)]
}

/// How many of the second N of [`early`] the counter denies: floor(N x (W - into) / W). All of them at the window's
/// start.
pub fn denied_after(limit: &Limit, into: u64) -> u64 {
    let (amount, window) = (limit.amount(), limit.period().0);
    (u128::from(amount) * u128::from(window - into) / u128::from(window)) as u64
}

/// N requests at the first instant of each of `windows` windows: the counter denies every second N.
///
/// No arrivals of which the log denies none lose a larger share: of A <= N requests in a window the counter admits
/// all, or at least N - P, where P is what it admitted in the window before. So it denies A - (N - P) <= P of them at
/// most: no more than it admitted in the window before.
pub fn recurrent(limit: &Limit, windows: u64) -> Arrivals {
    (0..windows).map(|index| (Nanos(index * limit.period().0), limit.amount())).collect()
}

/// One request each W / N (which must be whole) from the first instant of a window on: exactly the limit, as evenly as
/// can be. The counter denies the first request of every second window, where it counts N of the window before in
/// full. The window has then counted one less, so the next one loses none.
pub fn steady(limit: &Limit, windows: u64) -> Arrivals {
    let gap = limit.period().0 / limit.amount();
    (0..windows * limit.amount()).map(|index| (Nanos(index * gap), 1)).collect()
}

/// What became of arrivals: the times of the admitted requests, in order, and how many were denied.
pub struct Outcome {
    pub admitted: Vec<Nanos>,
    pub denied: u64,
}

impl Outcome {
    /// Runs arrivals, which come in order, through a limit.
    pub fn of(limit: &Limit, arrivals: &[(Nanos, u64)]) -> Self {
        let mut bucket = Bucket::fresh(limit, Nanos(0));
        let mut outcome = Self { admitted: Vec::new(), denied: 0 };
        for &(now, count) in arrivals {
            for _ in 0..count {
                if bucket.decide(limit, now, 1).allowed {
                    outcome.admitted.push(now);
                } else {
                    outcome.denied += 1;
                }
            }
        }
        outcome
    }

    /// The most admitted in any `length` nanoseconds.
    pub fn most_in(&self, length: u64) -> u64 {
        let mut first = 0;
        let within = self.admitted.iter().enumerate().map(|(index, last)| {
            while self.admitted[first].0 + length <= last.0 {
                first += 1;
            }
            (index + 1 - first) as u64
        });
        within.max().unwrap_or(0)
    }
}
