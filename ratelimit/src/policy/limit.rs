//! A limit on packets: as written, and as the XDP program uses it.

use std::num::NonZeroU64;

use ratelimit_common::limit::{Algorithm, Limit, LimitError, LimitSpec, Place, Refill};

/// A limit that a bucket in the kernel can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketLimit {
    spec: LimitSpec,
    compiled: Limit,
}

impl PacketLimit {
    /// Compiles a limit for the kernel.
    ///
    /// # Errors
    /// A bucket in the kernel can't hold it.
    pub fn new(spec: LimitSpec) -> Result<Self, LimitError> {
        Ok(Self { spec, compiled: spec.build(Place::Kernel)? })
    }

    /// The limit as it was written.
    #[must_use]
    pub const fn spec(&self) -> &LimitSpec {
        &self.spec
    }

    /// The limit as the XDP program uses it.
    #[must_use]
    pub const fn compiled(&self) -> &Limit {
        &self.compiled
    }

    /// How many of `buckets` that one packet each has brought into use are idle again after a second.
    pub(super) fn idle_again_per_second(&self, buckets: u32) -> u64 {
        let (nanos, divisor) = self.one_packet_nanos();
        let per_second =
            u128::from(buckets) * 1_000_000_000 * u128::from(divisor.get()) / u128::from(nanos.max(1));
        u64::try_from(per_second).unwrap_or(u64::MAX)
    }

    /// For how many nanoseconds at most one packet keeps a bucket in use, as a fraction: time and divisor.
    fn one_packet_nanos(&self) -> (u64, NonZeroU64) {
        let LimitSpec { algorithm, rate, refill, .. } = self.spec;
        match (algorithm, refill) {
            (Algorithm::TokenBucket, Refill::Continuous) | (Algorithm::LeakyBucket, _) => {
                (rate.per.0, rate.amount)
            }
            (Algorithm::SlidingWindowCounter, _) => (rate.per.0.saturating_mul(2), NonZeroU64::MIN),
            _ => (rate.per.0, NonZeroU64::MIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::{limit::Rate, time::Nanos};

    use super::*;

    #[test]
    fn a_packet_keeps_a_window_longer_than_a_bucket() {
        let cases = [
            (Algorithm::TokenBucket, Refill::Continuous, 1000 * 100),
            (Algorithm::LeakyBucket, Refill::Continuous, 1000 * 100),
            (Algorithm::TokenBucket, Refill::Interval, 1000 / 60),
            (Algorithm::FixedWindow, Refill::Continuous, 1000 / 60),
            (Algorithm::SlidingWindowCounter, Refill::Continuous, 1000 / 120),
        ];
        for (algorithm, refill, expected) in cases {
            let rate = Rate { amount: NonZeroU64::new(6000).unwrap(), per: Nanos::from_secs(60) };
            let limit = PacketLimit::new(LimitSpec { refill, ..LimitSpec::new(algorithm, rate) }).unwrap();
            assert_eq!(limit.idle_again_per_second(1000), expected, "{algorithm:?} {refill:?}");
        }
    }

    #[test]
    fn a_log_does_not_fit_the_kernel() {
        let rate = Rate { amount: NonZeroU64::MIN, per: Nanos::SECOND };
        let spec = LimitSpec::new(Algorithm::SlidingWindowLog, rate);
        assert_eq!(PacketLimit::new(spec), Err(LimitError::LogInKernel));
    }
}
