//! Banning a source that goes on exceeding a rule.

use std::num::{NonZeroU32, NonZeroU64};

use ratelimit_common::{
    bans::BanLength,
    limit::{Algorithm, LimitSpec, Rate},
    time::Nanos,
};

use ratelimit_limiter::application::BanTerms;

use super::{LimitUnit, PacketLimit, PacketLimitError};

/// A source of which a rule has denied so many packets within a time is banned for another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketBan {
    terms: BanTerms,
    /// What one denied packet less may use; `None` if the first one bans.
    limit: Option<PacketLimit>,
}

/// Why a ban can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketBanError {
    /// The count and the time in which it is counted.
    #[error("so many packets in such a time can't be counted: {0}")]
    Count(#[from] PacketLimitError),
    /// Its length.
    #[error("a ban lasts at most 365 days, or `forever`")]
    TooLong,
}

impl PacketBan {
    /// The longest one.
    pub const LONGEST: Nanos = BanTerms::LONGEST;

    /// A ban after so many denied packets within a time, counted by a sliding window.
    ///
    /// # Errors
    /// It lasts too long, or the count does not fit a bucket.
    pub fn new(terms: BanTerms) -> Result<Self, PacketBanError> {
        let BanTerms { after, within, length, .. } = terms;
        if matches!(length, BanLength::For(length) if length > Self::LONGEST) {
            return Err(PacketBanError::TooLong);
        }
        let limit = |amount| {
            let spec = LimitSpec::new(Algorithm::SlidingWindowCounter, Rate { amount, per: within });
            PacketLimit::new(spec, LimitUnit::Packets)
        };
        let limit = NonZeroU64::new(u64::from(after.get()) - 1).map(limit).transpose()?;
        Ok(Self { terms, limit })
    }

    /// How many packets.
    #[must_use]
    pub const fn after(&self) -> NonZeroU32 {
        self.terms.after
    }

    /// In which time.
    #[must_use]
    pub const fn within(&self) -> Nanos {
        self.terms.within
    }

    /// How long it lasts.
    #[must_use]
    pub const fn length(&self) -> BanLength {
        self.terms.length
    }

    /// All that it says.
    #[must_use]
    pub const fn terms(&self) -> &BanTerms {
        &self.terms
    }

    /// The limit on denied packets; the source is banned when this denies one. `None`: always.
    #[must_use]
    pub const fn limit(&self) -> Option<&PacketLimit> {
        self.limit.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packet_that_completes_the_count_bans() {
        let ban = |after, within, length| {
            let after = NonZeroU32::new(after).unwrap();
            let length = BanLength::For(Nanos::from_secs(length));
            PacketBan::new(BanTerms { after, within: Nanos::from_secs(within), length, longer: None })
        };
        assert!(ban(1, 10, 600).unwrap().limit().is_none());
        let limit = ban(100, 10, 600).unwrap().limit().unwrap().spec().rate;
        assert_eq!((limit.amount.get(), limit.per), (99, Nanos::from_secs(10)));
        assert_eq!(ban(1, 1, 365 * 86_400 + 1), Err(PacketBanError::TooLong));
        assert!(matches!(ban(u32::MAX, 1, 1), Err(PacketBanError::Count(_))));
    }
}
