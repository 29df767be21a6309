//! Limits as people write them: options by name, in YAML or as `token_bucket,rate=10/s,burst=20` (`argument`).
//!
//! The YAML reader and the command line share this, so that a limit means the same in both. What a bucket can hold is
//! for `ratelimit_common::limit` to say.

mod argument;

use ratelimit_common::limit::{Algorithm, LimitError, LimitSpec, OnLimit, Rate, Refill};

use super::{
    count::{Amount, CountError, parse_amount},
    error::quoted,
    rate::{RateError, parse_rate_of_any},
    words::{WordError, hint, parse_word},
};
use crate::policy::LimitUnit;

pub use argument::{LimitArgumentError, format_limit, format_packet_limit, parse_limit};

/// The options that a limit is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitOption {
    /// `algorithm`; the token bucket if not given.
    Algorithm,
    /// `rate`; always needed.
    Rate,
    /// `burst`; buckets only.
    Burst,
    /// `refill`; token bucket only.
    Refill,
    /// `count_denied`.
    CountDenied,
    /// `on_limit`; leaky bucket only.
    OnLimit,
    /// `overrun`; not for packets.
    Overrun,
}

impl LimitOption {
    /// All of them, in the order in which a limit is shown.
    pub const ALL: [Self; 7] = [
        Self::Algorithm,
        Self::Rate,
        Self::Burst,
        Self::Refill,
        Self::CountDenied,
        Self::OnLimit,
        Self::Overrun,
    ];

    /// The key in YAML and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Algorithm => "algorithm",
            Self::Rate => "rate",
            Self::Burst => "burst",
            Self::Refill => "refill",
            Self::CountDenied => "count_denied",
            Self::OnLimit => "on_limit",
            Self::Overrun => "overrun",
        }
    }
}

/// Why an option of a limit is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitTextError {
    /// Not an option.
    #[error("{} is not an option of a limit{}", quoted(.0), hint(.0, &LimitOption::ALL.map(LimitOption::name)))]
    Unknown(String),
    /// Given twice.
    #[error("given twice")]
    Twice,
    /// No rate.
    #[error("missing; a limit needs a rate, such as 100/s")]
    RateMissing,
    /// Not a rate.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// Not a number of units.
    #[error(transparent)]
    Burst(#[from] CountError),
    /// A burst of nothing.
    #[error("a burst of 0 would deny everything; the least is 1")]
    BurstZero,
    /// A burst of something else than the rate.
    #[error("{}", burst_like(*.rate))]
    Mixed {
        /// What the rate counts.
        rate: LimitUnit,
    },
    /// Bytes, where a cost is a number.
    #[error("sizes are for packets; the cost of a request is a plain number, so write one, such as 10M")]
    Size,
    /// Not one of the words that there are.
    #[error(transparent)]
    Word(#[from] WordError),
    /// An option of other algorithms.
    #[error("{} has none; it is for {only}", .algorithm.name())]
    NotWith {
        /// The limit's algorithm.
        algorithm: Algorithm,
        /// Those that have the option.
        only: &'static str,
    },
}

/// The algorithms by name.
pub(super) const ALGORITHMS: [(&str, Algorithm); Algorithm::ALL.len()] = {
    let mut named = [("", Algorithm::TokenBucket); Algorithm::ALL.len()];
    let mut index = 0;
    while index < named.len() {
        named[index] = (Algorithm::ALL[index].name(), Algorithm::ALL[index]);
        index += 1;
    }
    named
};

const REFILLS: [(&str, Refill); 2] = [("continuous", Refill::Continuous), ("interval", Refill::Interval)];
const ON_LIMITS: [(&str, OnLimit); 2] = [("reject", OnLimit::Reject), ("delay", OnLimit::Delay)];
const BOOLEANS: [(&str, bool); 2] = [("true", true), ("false", false)];

/// A limit of which some options are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitDraft {
    algorithm: Option<Algorithm>,
    rate: Option<(Rate, LimitUnit)>,
    burst: Option<Amount>,
    refill: Option<Refill>,
    count_denied: Option<bool>,
    on_limit: Option<OnLimit>,
    overrun: Option<bool>,
}

impl LimitDraft {
    /// Sets an option from its text.
    ///
    /// # Errors
    /// The text is not what the option takes; the draft is unchanged.
    pub fn set(&mut self, option: LimitOption, text: &str) -> Result<(), LimitTextError> {
        match option {
            LimitOption::Algorithm => self.algorithm = Some(parse_word(text, &ALGORITHMS)?),
            LimitOption::Rate => self.rate = Some(parse_rate_of_any(text)?),
            LimitOption::Burst => self.burst = Some(parse_burst(text)?),
            LimitOption::Refill => self.refill = Some(parse_word(text, &REFILLS)?),
            LimitOption::CountDenied => self.count_denied = Some(parse_word(text, &BOOLEANS)?),
            LimitOption::OnLimit => self.on_limit = Some(parse_word(text, &ON_LIMITS)?),
            LimitOption::Overrun => self.overrun = Some(parse_word(text, &BOOLEANS)?),
        }
        Ok(())
    }

    /// The algorithm; the default if none was set.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm.unwrap_or_default()
    }

    /// What it counts, as far as that is known.
    #[must_use]
    pub fn unit(&self) -> LimitUnit {
        let rate = self.rate.map(|(_, unit)| unit);
        rate.or(self.burst.map(|burst| burst.unit)).unwrap_or_default()
    }

    /// Whether a size was given.
    #[must_use]
    pub fn has_size(&self) -> bool {
        let units = [self.rate.map(|(_, unit)| unit), self.burst.map(|burst| burst.unit)];
        units.contains(&Some(LimitUnit::Bytes))
    }

    /// The whole limit, and what it counts.
    ///
    /// # Errors
    /// Each option that is missing, that the algorithm does not have or that does not go with another.
    pub fn finish(self) -> Result<(LimitSpec, LimitUnit), Vec<(LimitOption, LimitTextError)>> {
        let algorithm = self.algorithm();
        let mut errors = Vec::new();
        let mut only_with = |given: bool, option, fits: bool, only| {
            if given && !fits {
                errors.push((option, LimitTextError::NotWith { algorithm, only }));
            }
        };
        let is_token_bucket = algorithm == Algorithm::TokenBucket;
        let is_leaky_bucket = algorithm == Algorithm::LeakyBucket;
        let buckets = "token_bucket and leaky_bucket";
        only_with(self.burst.is_some(), LimitOption::Burst, algorithm.is_bucket(), buckets);
        only_with(self.refill.is_some(), LimitOption::Refill, is_token_bucket, "token_bucket");
        only_with(self.on_limit.is_some(), LimitOption::OnLimit, is_leaky_bucket, "leaky_bucket");
        if let (Some((_, rate)), Some(burst)) = (self.rate, self.burst)
            && algorithm.is_bucket()
            && rate != burst.unit
        {
            errors.push((LimitOption::Burst, LimitTextError::Mixed { rate }));
        }
        match self.rate {
            Some((rate, unit)) if errors.is_empty() => {
                let spec = LimitSpec {
                    algorithm,
                    rate,
                    burst: self.burst.map(|burst| burst.number),
                    refill: self.refill.unwrap_or_default(),
                    count_denied: self.count_denied.unwrap_or_default(),
                    on_limit: self.on_limit.unwrap_or_default(),
                    overrun: self.overrun.unwrap_or_default(),
                };
                Ok((spec, unit))
            }
            Some(_) => Err(errors),
            None => {
                errors.push((LimitOption::Rate, LimitTextError::RateMissing));
                Err(errors)
            }
        }
    }
}

const fn burst_like(rate: LimitUnit) -> &'static str {
    match rate {
        LimitUnit::Bytes => "the rate is in bytes, so the burst must be a size too, such as 1MB",
        LimitUnit::Packets => "the rate is in packets, so the burst must be a plain number too, such as 20k",
    }
}

/// A burst of a number or a size.
pub(super) fn parse_burst(text: &str) -> Result<Amount, LimitTextError> {
    parse_amount(text).map_err(|error| match error {
        CountError::Zero => LimitTextError::BurstZero,
        other => other.into(),
    })
}

/// The option that is to blame if a limit can't be built.
#[must_use]
pub fn blamed_option(error: &LimitError) -> LimitOption {
    match error {
        LimitError::LogInKernel => LimitOption::Algorithm,
        LimitError::BurstTooLong { most: 0 }
        | LimitError::PeriodOutOfRange
        | LimitError::RateTooHigh
        | LimitError::LogTooLarge
        | LimitError::AmountTooLarge { .. } => LimitOption::Rate,
        LimitError::BurstOnWindow(_) | LimitError::BurstTooLong { .. } => LimitOption::Burst,
        LimitError::RefillNotTokenBucket(_) => LimitOption::Refill,
        LimitError::DelayNotLeakyBucket(_) | LimitError::DelayInKernel => LimitOption::OnLimit,
        LimitError::OverrunCountsDenied => LimitOption::CountDenied,
        LimitError::OverrunInKernel
        | LimitError::OverrunDelays
        | LimitError::OverrunTooLong { .. }
        | LimitError::OverrunWindowTooLong => LimitOption::Overrun,
    }
}
