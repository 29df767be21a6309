//! Numbers and rates as people write them: `20k`, `10000/s`, `256/15m`.
//!
//! Only how they are written; what a bucket can hold is for `ratelimit_common::limit` to say.

use std::num::NonZeroU64;

use ratelimit_common::{limit::Rate, time::Nanos};

use super::{error::quoted, pending::NOT_SUPPORTED_YET};

/// Units of time in seconds, the longest first.
const UNITS: [(&str, u64); 5] = [("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// Multipliers of a number, as powers of ten.
const MULTIPLIERS: [(&str, u32); 3] = [("", 0), ("k", 3), ("M", 6)];

/// What sizes are measured in; a limit in one of them counts bytes instead of packets.
const SIZES: [&str; 11] = ["B", "kB", "MB", "GB", "KiB", "MiB", "GiB", "bit", "kbit", "Mbit", "Gbit"];

/// Why a text is not a number of things.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// Something else.
    #[error("{} is not a whole number; write digits, with k (thousand) or M (million) if you like", quoted(.0))]
    NotANumber(String),
    /// Half a packet.
    #[error("{} is not a whole number", quoted(.0))]
    Fraction(String),
    /// Nothing.
    #[error("must be at least 1")]
    Zero,
    /// Less than nothing.
    #[error("{} is negative; must be at least 1", quoted(.0))]
    Negative(String),
    /// More than 64 bits hold.
    #[error("{} is too large", quoted(.0))]
    TooLarge(String),
    /// A number of bytes.
    #[error("sizes such as {} are {NOT_SUPPORTED_YET}; write a number of packets", quoted(.0))]
    Size(String),
}

/// Why a text is not a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Not `N/UNIT`.
    #[error("{} is not a rate; write N/UNIT or N/nUNIT, such as 100/s or 256/15m", quoted(.0))]
    Shape(String),
    /// What stands before the slash.
    #[error(transparent)]
    Amount(CountError),
    /// A rate of nothing.
    #[error("a rate of 0 would deny everything; the least is 1 in some time, such as 1/h")]
    Zero,
    /// What stands after the number of units.
    #[error("{} is not a unit of time; accepted: s, m (minute), h, d, w", quoted(.0))]
    Unit(String),
    /// No time at all.
    #[error("a time of 0; write at least one unit, such as 1s")]
    PeriodZero,
    /// More than 584 years.
    #[error("{} is too long a time", quoted(.0))]
    PeriodTooLong(String),
}

/// Parses a number of at least 1: digits, with `k` or `M` if wanted; `1.5k` is 1500.
///
/// # Errors
/// What is wrong with it.
pub fn parse_count(text: &str) -> Result<NonZeroU64, CountError> {
    if text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        return Err(CountError::Negative(text.to_owned()));
    }
    let not_a_number = || CountError::NotANumber(text.to_owned());
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = text.strip_suffix(unit).unwrap_or(text);
    if !number.is_empty() && SIZES.contains(&unit) {
        return Err(CountError::Size(text.to_owned()));
    }
    let (_, power) = MULTIPLIERS.iter().find(|(name, _)| *name == unit).ok_or_else(not_a_number)?;
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction.trim_end_matches('0')),
        Some(_) => return Err(not_a_number()),
        None => (number, ""),
    };
    if whole.is_empty() || fraction.contains('.') {
        return Err(not_a_number());
    }
    let zeros = usize::try_from(*power).ok().and_then(|power| power.checked_sub(fraction.len()));
    let zeros = zeros.ok_or_else(|| CountError::Fraction(text.to_owned()))?;
    let digits = format!("{whole}{fraction}{}", "0".repeat(zeros));
    let count = digits.parse().map_err(|_| CountError::TooLarge(text.to_owned()))?;
    NonZeroU64::new(count).ok_or(CountError::Zero)
}

/// Parses `N/UNIT` or `N/nUNIT`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_rate(text: &str) -> Result<Rate, RateError> {
    let (amount, period) = text.split_once('/').ok_or_else(|| RateError::Shape(text.to_owned()))?;
    let amount = parse_count(amount).map_err(|error| match error {
        CountError::Zero => RateError::Zero,
        other => RateError::Amount(other),
    })?;
    Ok(Rate { amount, per: parse_period(period)? })
}

fn parse_period(text: &str) -> Result<Nanos, RateError> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let count = text.strip_suffix(unit).unwrap_or_default();
    let seconds = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, seconds)| *seconds);
    let seconds = seconds.ok_or_else(|| RateError::Unit(unit.to_owned()))?;
    let too_long = || RateError::PeriodTooLong(text.to_owned());
    let count: u64 = if count.is_empty() { 1 } else { count.parse().map_err(|_| too_long())? };
    let nanos = seconds.checked_mul(count).and_then(|seconds| seconds.checked_mul(Nanos::SECOND.0));
    match nanos.ok_or_else(too_long)? {
        0 => Err(RateError::PeriodZero),
        nanos => Ok(Nanos(nanos)),
    }
}

/// A rate in the form that [`parse_rate`] reads, with the longest unit that fits.
#[must_use]
pub fn format_rate(rate: Rate) -> String {
    let unit = UNITS.iter().find(|(_, seconds)| rate.per.0.is_multiple_of(seconds * Nanos::SECOND.0));
    match unit {
        Some((name, seconds)) => match rate.per.0 / (seconds * Nanos::SECOND.0) {
            1 => format!("{}/{name}", rate.amount),
            count => format!("{}/{count}{name}", rate.amount),
        },
        // Times below a second are not written by people, but can be computed.
        None => format!("{}/{}ns", rate.amount, rate.per.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_that_are_accepted() {
        let cases = [
            ("10000/s", 10_000, 1),
            ("10k/s", 10_000, 1),
            ("1.5k/s", 1_500, 1),
            ("1.50M/s", 1_500_000, 1),
            ("0.001k/s", 1, 1),
            ("2.0/s", 2, 1),
            ("256/15m", 256, 900),
            ("5/w", 5, 604_800),
            ("1/2d", 1, 172_800),
            ("007/01h", 7, 3_600),
            ("18446744073709551615/s", u64::MAX, 1),
        ];
        for (text, amount, seconds) in cases {
            let expected = Rate { amount: NonZeroU64::new(amount).unwrap(), per: Nanos::from_secs(seconds) };
            assert_eq!(parse_rate(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn rates_that_are_refused_say_why() {
        let cases = [
            ("0/s", "rate of 0 would deny everything"),
            ("0k/s", "rate of 0 would deny everything"),
            ("-1/s", "`-1` is negative"),
            ("10/fortnight", "`fortnight` is not a unit of time; accepted: s, m (minute), h, d, w"),
            ("10/min", "`min` is not a unit"),
            ("10/S", "`S` is not a unit"),
            ("10/", "`` is not a unit"),
            ("10/-1s", "`-1s` is not a unit"),
            ("10/1.5h", "`.5h` is not a unit"),
            ("10/s/s", "`s/s` is not a unit"),
            ("10/0s", "a time of 0"),
            ("10/99999999999999999999s", "too long a time"),
            ("10/31000w", "too long a time"),
            ("10", "`10` is not a rate; write N/UNIT"),
            ("", "is not a rate"),
            ("fast", "is not a rate"),
            ("/s", "`` is not a whole number"),
            ("ten/s", "`ten` is not a whole number; write digits"),
            ("1.5/s", "`1.5` is not a whole number"),
            ("1.0005k/s", "`1.0005k` is not a whole number"),
            ("1./s", "is not a whole number"),
            (".5k/s", "is not a whole number"),
            ("1.2.3k/s", "is not a whole number"),
            ("1_000/s", "is not a whole number"),
            ("+1/s", "is not a whole number"),
            ("1e3/s", "is not a whole number"),
            ("1K/s", "with k (thousand) or M (million)"),
            ("１/s", "is not a whole number"),
            (" 1/s", "is not a whole number"),
            ("18446744073709551616/s", "too large"),
            ("18446744073709551M/s", "too large"),
            ("10MB/s", "sizes such as `10MB` are not supported yet"),
            ("50Mbit/s", "not supported yet"),
            ("MB/s", "is not a whole number"),
        ];
        for (text, expected) in cases {
            let message = parse_rate(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn what_is_formatted_is_read_back(amount in 1..=u64::MAX, seconds in 1..18_000_000_000_u64) {
            let rate = Rate { amount: NonZeroU64::new(amount).unwrap(), per: Nanos::from_secs(seconds) };
            prop_assert_eq!(parse_rate(&format_rate(rate)), Ok(rate));
        }

        #[test]
        fn any_text_is_a_rate_or_an_error(text in "\\PC*|[0-9.kM]{0,30}/?[0-9smhdw]{0,30}") {
            let _ = parse_rate(&text);
        }
    }
}
