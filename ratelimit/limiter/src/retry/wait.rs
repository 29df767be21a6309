//! How long to wait: what `Retry-After` says, and chance.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::{Duration, SystemTime},
};

/// The least that chance adds to at most, so that clients with the shortest waits differ, too.
const LEAST_SPREAD: Duration = Duration::from_millis(100);

/// Numbers that differ from client to client. Nothing secret hangs on them.
#[derive(Debug)]
pub struct Jitter {
    seed: RandomState,
    count: u64,
}

impl Jitter {
    pub fn new() -> Self {
        Self { seed: RandomState::new(), count: 0 }
    }

    /// At least so long, and up to a quarter more.
    pub fn beyond(&mut self, wait: Duration) -> Duration {
        wait.saturating_add(self.share_of((wait / 4).max(LEAST_SPREAD)))
    }

    /// From half of it to all of it.
    pub fn within(&mut self, wait: Duration) -> Duration {
        (wait / 2).saturating_add(self.share_of(wait / 2))
    }

    fn share_of(&mut self, most: Duration) -> Duration {
        self.count += 1;
        let share = self.seed.hash_one(self.count) as u32;
        most.mul_f64(f64::from(share) / f64::from(u32::MAX))
    }
}

/// What `Retry-After` says: seconds, or a date (RFC 9110, section 10.2.3).
pub fn parse(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        for (text, expected) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(parse(text, now), expected.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn chance_stays_within_its_bounds() {
        let mut jitter = Jitter::new();
        let second = Duration::from_secs(1);
        let mut waits: Vec<Duration> = (0..1_000).map(|_| jitter.beyond(second)).collect();
        assert!(waits.iter().all(|wait| (second..=second * 5 / 4).contains(wait)));
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 900, "they differ");
        assert!((0..1_000).all(|_| (second / 2..=second).contains(&jitter.within(second))));
        assert!((0..1_000).all(|_| jitter.beyond(Duration::ZERO) <= LEAST_SPREAD));
        assert_eq!(jitter.beyond(Duration::MAX), Duration::MAX);
    }
}
