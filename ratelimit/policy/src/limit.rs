//! A limit on packets: as written, and as the XDP program uses it.

use std::num::{NonZeroU32, NonZeroU64};

use ratelimit_common::limit::{Algorithm, Limit, LimitError, LimitSpec, Refill, StateStorage};

/// What a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitUnit {
    /// Each packet is one.
    #[default]
    Packets,
    /// Wire bytes: Ethernet header included, frame check sequence not.
    Bytes,
}

/// A limit that a bucket in the kernel can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketLimit {
    spec: LimitSpec,
    unit: LimitUnit,
    compiled: Limit,
}

/// Why a limit can't be one on packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketLimitError {
    /// Its numbers.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Two counts of bytes do not fit beside a time.
    #[error("`sliding_window_counter` can't count bytes here; take `fixed_window` or `token_bucket`")]
    SlidingBytes,
}

/// Wire bytes of the largest frame on an ordinary link.
const FULL_FRAME: u128 = 1514;

impl PacketLimit {
    /// Compiles a limit for the kernel.
    ///
    /// # Errors
    /// A bucket in the kernel can't hold it.
    pub fn new(spec: LimitSpec, unit: LimitUnit) -> Result<Self, PacketLimitError> {
        if unit == LimitUnit::Bytes && spec.algorithm == Algorithm::SlidingWindowCounter {
            return Err(PacketLimitError::SlidingBytes);
        }
        Ok(Self { spec, unit, compiled: spec.build(StateStorage::Kernel)? })
    }

    /// The limit as it was written.
    #[must_use]
    pub const fn spec(&self) -> &LimitSpec {
        &self.spec
    }

    /// What it counts.
    #[must_use]
    pub const fn unit(&self) -> LimitUnit {
        self.unit
    }

    /// The limit as the XDP program uses it.
    #[must_use]
    pub const fn compiled(&self) -> &Limit {
        &self.compiled
    }

    /// The same with `factor` times the rate and the burst.
    ///
    /// # Errors
    /// That is more than a bucket in the kernel can hold.
    pub fn times(&self, factor: NonZeroU32) -> Result<Limit, LimitError> {
        let mut spec = self.spec;
        spec.rate.amount = spec.rate.amount.saturating_mul(factor.into());
        spec.burst = spec.burst.map(|burst| burst.saturating_mul(factor.into()));
        spec.build(StateStorage::Kernel)
    }

    /// How many of `buckets` that one packet each has brought into use are idle again after a second.
    pub(super) fn idle_again_per_second(&self, buckets: u32) -> u64 {
        let (nanos, divisor) = self.one_packet_nanos();
        let per_second = u128::from(buckets) * 1_000_000_000 * u128::from(divisor.get()) / nanos.max(1);
        u64::try_from(per_second).unwrap_or(u64::MAX)
    }

    /// For how many nanoseconds at most one packet keeps a bucket in use, as a fraction: time and divisor.
    fn one_packet_nanos(&self) -> (u128, NonZeroU64) {
        let LimitSpec { algorithm, rate, refill, .. } = self.spec;
        let per = u128::from(rate.per.0);
        match (algorithm, refill) {
            (Algorithm::TokenBucket, Refill::Continuous) | (Algorithm::LeakyBucket, _) => match self.unit {
                LimitUnit::Packets => (per, rate.amount),
                LimitUnit::Bytes => (per * FULL_FRAME, rate.amount),
            },
            (Algorithm::SlidingWindowCounter, _) => (per * 2, NonZeroU64::MIN),
            (Algorithm::TokenBucket, Refill::Interval)
            | (Algorithm::FixedWindow | Algorithm::SlidingWindowLog, _) => (per, NonZeroU64::MIN),
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
            let limit =
                PacketLimit::new(LimitSpec { refill, ..LimitSpec::new(algorithm, rate) }, LimitUnit::Packets)
                    .unwrap();
            assert_eq!(limit.idle_again_per_second(1000), expected, "{algorithm:?} {refill:?}");
        }
    }

    #[test]
    fn a_log_does_not_fit_the_kernel() {
        let rate = Rate { amount: NonZeroU64::MIN, per: Nanos::SECOND };
        let spec = LimitSpec::new(Algorithm::SlidingWindowLog, rate);
        assert_eq!(PacketLimit::new(spec, LimitUnit::Packets), Err(LimitError::LogInKernel.into()));
    }

    #[test]
    fn a_sliding_counter_counts_packets_only() {
        let rate = Rate { amount: NonZeroU64::MIN, per: Nanos::SECOND };
        let spec = LimitSpec::new(Algorithm::SlidingWindowCounter, rate);
        assert_eq!(PacketLimit::new(spec, LimitUnit::Bytes), Err(PacketLimitError::SlidingBytes));
    }

    #[test]
    fn a_factor_multiplies_rate_and_burst() {
        let rate = |amount| Rate { amount: NonZeroU64::new(amount).unwrap(), per: Nanos::SECOND };
        let spec = |amount, burst| LimitSpec {
            burst: NonZeroU64::new(burst),
            ..LimitSpec::new(Algorithm::TokenBucket, rate(amount))
        };
        let limit = PacketLimit::new(spec(100, 50), LimitUnit::Packets).unwrap();
        let times = |factor| limit.times(NonZeroU32::new(factor).unwrap());
        assert_eq!(times(32), spec(3200, 1600).build(StateStorage::Kernel));
        assert_eq!(times(1), Ok(*limit.compiled()));
    }
}
