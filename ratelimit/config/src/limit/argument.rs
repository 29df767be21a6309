//! Limits on one line: `token_bucket,rate=10/s,burst=20`, as the command line takes them and all outputs show them.

use ratelimit_common::limit::LimitSpec;

use super::{LimitDraft, LimitOption, LimitTextError};
use crate::policy::LimitUnit;
pub use crate::policy::format::{format_limit, format_packet_limit};

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
/// `algorithm=...` too, or the algorithm be left out. No sizes: what a request costs is a number of whatever.
///
/// # Errors
/// The first option that is wrong.
pub fn parse_limit(text: &str) -> Result<LimitSpec, LimitArgumentError> {
    let (spec, _) = parse(text, |draft| if draft.has_size() { Err(LimitTextError::Size) } else { Ok(()) })?;
    Ok(spec)
}

/// Parses a limit; `check` looks at it after each option.
fn parse(
    text: &str,
    check: impl Fn(&LimitDraft) -> Result<(), LimitTextError>,
) -> Result<(LimitSpec, LimitUnit), LimitArgumentError> {
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
        draft.set(option, value).and_then(|()| check(&draft)).map_err(failed)?;
    }
    draft.finish().map_err(|errors| {
        let first = errors.into_iter().next();
        let (option, error) = first.unwrap_or((LimitOption::Rate, LimitTextError::RateMissing));
        LimitArgumentError { option: option.name().to_owned(), error }
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use ratelimit_common::{
        limit::{Algorithm, OnLimit, Rate, Refill},
        time::Nanos,
    };

    use super::*;
    use crate::policy::PacketLimit;

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
            (
                "fixed_window,rate=5/m,overrun=true",
                LimitSpec { overrun: true, ..LimitSpec::new(Algorithm::FixedWindow, rate(5, 60)) },
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
            (
                "token_bucket,rate=10MB/s",
                "rate: sizes are for packets; the cost of a request is a plain number",
            ),
            ("token_bucket,rate=1/s,burst=1MB", "burst: sizes are for packets"),
            ("token_bucket,burst=1MB,rate=1/s", "burst: sizes are for packets"),
            ("token_bucket,rate=1/s,count_denied=yes", "count_denied: `yes` is not known; accepted: t"),
        ];
        for (text, expected) in cases {
            let message = parse_limit(text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text}: {message}");
        }
    }

    #[test]
    fn limits_of_bytes_are_shown_in_sizes() {
        let cases = [
            ("token_bucket,rate=10MB/s,burst=1MB", "token_bucket,rate=10MB/s,burst=1MB"),
            ("rate=50Mbit/s,burst=64KiB", "token_bucket,rate=6250kB/s,burst=64KiB"),
            ("fixed_window,rate=1GiB/d,count_denied=true", "fixed_window,rate=1GiB/d,count_denied=true"),
            ("token_bucket,rate=10k/s,burst=20k", "token_bucket,rate=10000/s,burst=20000"),
        ];
        for (text, expected) in cases {
            let (spec, unit) = parse(text, |_| Ok(())).unwrap();
            let shown = format_packet_limit(&PacketLimit::new(spec, unit).unwrap());
            assert_eq!(shown, expected);
            assert_eq!(parse(&shown, |_| Ok(())), Ok((spec, unit)));
        }
    }
}
