//! Limits as people write them: options by name, in YAML or as `token_bucket,rate=10/s,burst=20`.
//!
//! The YAML reader and the command line share this, so that a limit means the same in both. What a bucket can hold is
//! for `ratelimit_common::limit` to say.

use std::num::NonZeroU64;

use ratelimit_common::limit::{Algorithm, LimitError, LimitSpec, OnLimit, Rate, Refill};

use super::{
    error::quoted,
    rate::{CountError, RateError, parse_count},
    words::{WordError, hint, parse_word},
};

pub use super::rate::{format_rate, parse_rate};

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
}

impl LimitOption {
    /// All of them, in the order in which a limit is shown.
    pub const ALL: [Self; 6] =
        [Self::Algorithm, Self::Rate, Self::Burst, Self::Refill, Self::CountDenied, Self::OnLimit];

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

const ALGORITHMS: [(&str, Algorithm); 5] = [
    named(Algorithm::TokenBucket),
    named(Algorithm::LeakyBucket),
    named(Algorithm::FixedWindow),
    named(Algorithm::SlidingWindowLog),
    named(Algorithm::SlidingWindowCounter),
];

const fn named(algorithm: Algorithm) -> (&'static str, Algorithm) {
    (algorithm.name(), algorithm)
}

const REFILLS: [(&str, Refill); 2] = [("continuous", Refill::Continuous), ("interval", Refill::Interval)];
const ON_LIMITS: [(&str, OnLimit); 2] = [("reject", OnLimit::Reject), ("delay", OnLimit::Delay)];
const BOOLEANS: [(&str, bool); 2] = [("true", true), ("false", false)];

/// A limit of which some options are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitDraft {
    algorithm: Option<Algorithm>,
    rate: Option<Rate>,
    burst: Option<NonZeroU64>,
    refill: Option<Refill>,
    count_denied: Option<bool>,
    on_limit: Option<OnLimit>,
}

impl LimitDraft {
    /// Sets an option from its text.
    ///
    /// # Errors
    /// The text is not what the option takes; the draft is unchanged.
    pub fn set(&mut self, option: LimitOption, text: &str) -> Result<(), LimitTextError> {
        match option {
            LimitOption::Algorithm => self.algorithm = Some(parse_word(text, &ALGORITHMS)?),
            LimitOption::Rate => self.rate = Some(parse_rate(text)?),
            LimitOption::Burst => self.burst = Some(parse_burst(text)?),
            LimitOption::Refill => self.refill = Some(parse_word(text, &REFILLS)?),
            LimitOption::CountDenied => self.count_denied = Some(parse_word(text, &BOOLEANS)?),
            LimitOption::OnLimit => self.on_limit = Some(parse_word(text, &ON_LIMITS)?),
        }
        Ok(())
    }

    /// The algorithm; the default if none was set.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm.unwrap_or_default()
    }

    /// The whole limit.
    ///
    /// # Errors
    /// Each option that is missing or that the algorithm does not have.
    pub fn finish(self) -> Result<LimitSpec, Vec<(LimitOption, LimitTextError)>> {
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
        match self.rate {
            Some(rate) if errors.is_empty() => Ok(LimitSpec {
                algorithm,
                rate,
                burst: self.burst,
                refill: self.refill.unwrap_or_default(),
                count_denied: self.count_denied.unwrap_or_default(),
                on_limit: self.on_limit.unwrap_or_default(),
            }),
            Some(_) => Err(errors),
            None => {
                errors.push((LimitOption::Rate, LimitTextError::RateMissing));
                Err(errors)
            }
        }
    }
}

fn parse_burst(text: &str) -> Result<NonZeroU64, LimitTextError> {
    parse_count(text).map_err(|error| match error {
        CountError::Zero => LimitTextError::BurstZero,
        other => other.into(),
    })
}

/// The option that is to blame if a limit can't be built.
#[must_use]
pub fn blamed_option(error: &LimitError) -> LimitOption {
    match error {
        LimitError::LogInKernel => LimitOption::Algorithm,
        LimitError::BurstOnWindow(_) => LimitOption::Burst,
        LimitError::BurstTooLong { most } if *most > 0 => LimitOption::Burst,
        LimitError::RefillNotTokenBucket(_) => LimitOption::Refill,
        LimitError::DelayNotLeakyBucket(_) | LimitError::DelayInKernel => LimitOption::OnLimit,
        _ => LimitOption::Rate,
    }
}

/// A limit on the command line that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {error}")]
pub struct LimitArgumentError {
    /// The option it is about, as written.
    pub option: String,
    /// What is wrong with it.
    pub error: LimitTextError,
}

/// Parses `ALGORITHM,OPTION=VALUE,...`, such as `token_bucket,rate=10/s,burst=20`; the first item may be
/// `algorithm=...` too, or the algorithm be left out.
///
/// # Errors
/// The first option that is wrong.
pub fn parse_limit(text: &str) -> Result<LimitSpec, LimitArgumentError> {
    let mut draft = LimitDraft::default();
    let mut seen: Vec<LimitOption> = Vec::new();
    for (index, item) in text.split(',').map(str::trim).enumerate() {
        let (name, value) = match item.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None if index == 0 => (LimitOption::Algorithm.name(), item),
            None => (item, ""),
        };
        let failed = |error| LimitArgumentError { option: name.to_owned(), error };
        let option = LimitOption::ALL.into_iter().find(|option| option.name() == name);
        let option = option.ok_or_else(|| failed(LimitTextError::Unknown(name.to_owned())))?;
        if seen.contains(&option) {
            return Err(failed(LimitTextError::Twice));
        }
        seen.push(option);
        draft.set(option, value).map_err(failed)?;
    }
    draft.finish().map_err(|errors| {
        let first = errors.into_iter().next();
        let (option, error) = first.unwrap_or((LimitOption::Rate, LimitTextError::RateMissing));
        LimitArgumentError { option: option.name().to_owned(), error }
    })
}

/// A limit in the form that [`parse_limit`] reads; defaults are left out.
#[must_use]
pub fn format_limit(spec: &LimitSpec) -> String {
    let burst = spec.burst.map(|burst| format!(",burst={burst}")).unwrap_or_default();
    let refill = if spec.refill == Refill::Interval { ",refill=interval" } else { "" };
    let count_denied = if spec.count_denied { ",count_denied=true" } else { "" };
    let on_limit = if spec.on_limit == OnLimit::Delay { ",on_limit=delay" } else { "" };
    let (algorithm, rate) = (spec.algorithm.name(), format_rate(spec.rate));
    format!("{algorithm},rate={rate}{burst}{refill}{count_denied}{on_limit}")
}

#[cfg(test)]
mod tests {
    use ratelimit_common::time::Nanos;

    use super::*;

    #[test]
    fn limits_of_the_command_line() {
        let number = |n| NonZeroU64::new(n).unwrap();
        let rate = |n, seconds| Rate { amount: number(n), per: Nanos::from_secs(seconds) };
        let token_bucket = LimitSpec::new(Algorithm::TokenBucket, rate(10, 1));
        let leaky_bucket = LimitSpec::new(Algorithm::LeakyBucket, rate(1, 1));
        let cases = [
            ("token_bucket,rate=10/s,burst=20", LimitSpec { burst: Some(number(20)), ..token_bucket }),
            ("algorithm=token_bucket, rate=10/s", token_bucket),
            ("rate=10/s", token_bucket),
            ("rate=10/s,refill=interval", LimitSpec { refill: Refill::Interval, ..token_bucket }),
            ("token_bucket,refill=continuous,rate=10/s", token_bucket),
            ("leaky_bucket,rate=1/s,on_limit=delay", LimitSpec { on_limit: OnLimit::Delay, ..leaky_bucket }),
            ("fixed_window,rate=256/15m", LimitSpec::new(Algorithm::FixedWindow, rate(256, 900))),
            (
                "sliding_window_log,rate=2/m,count_denied=true",
                LimitSpec { count_denied: true, ..LimitSpec::new(Algorithm::SlidingWindowLog, rate(2, 60)) },
            ),
            ("sliding_window_counter,rate=7/m", LimitSpec::new(Algorithm::SlidingWindowCounter, rate(7, 60))),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_limit(text), Ok(expected), "{text}");
            assert_eq!(parse_limit(&format_limit(&expected)), Ok(expected), "{text}");
        }
    }

    #[test]
    fn limits_that_are_refused_say_which_option_and_why() {
        let cases = [
            ("", "algorithm: `` is not known; accepted: token_bucket,"),
            ("tokenbucket,rate=1/s", "algorithm: `tokenbucket` is not known, did you mean `token_bucket`?"),
            ("token_bucket", "rate: missing"),
            ("token_bucket,rate=0/s", "rate: a rate of 0"),
            ("token_bucket,rate=1/s,burst=0", "burst: a burst of 0"),
            ("token_bucket,rate=1/s,burst=-1", "burst: `-1` is negative"),
            ("token_bucket,rate=1/s,bust=1", "bust: `bust` is not an option of a limit, did you"),
            ("token_bucket,rate=1/s,rate=2/s", "rate: given twice"),
            ("token_bucket,rate", "rate: `` is not a rate"),
            ("token_bucket,rate=1/s,", ": `` is not an option of a limit; accepted: algorithm, rate,"),
            ("fixed_window,rate=1/s,burst=2", "burst: fixed_window has none; it is for token"),
            ("leaky_bucket,rate=1/s,refill=interval", "refill: leaky_bucket has none; it is for"),
            ("token_bucket,rate=1/s,on_limit=delay", "on_limit: token_bucket has none; it is for"),
            ("token_bucket,rate=1/s,count_denied=yes", "count_denied: `yes` is not known; accepted: t"),
        ];
        for (text, expected) in cases {
            let message = parse_limit(text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text}: {message}");
        }
    }
}
