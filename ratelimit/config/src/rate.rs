//! Rates as people write them: `10000/s`, `256/15m`, `10MB/s`.
//!
//! Only how they are written; what a bucket can hold is for `ratelimit_common::limit` to say.

use ratelimit_common::{limit::Rate, time::Nanos};

use super::{
    count::{CountError, parse_amount, parse_count},
    error::quoted,
};
use crate::policy::{LimitUnit, format::UNITS};

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
    /// Not numbers with units, or units that don't go together.
    #[error(
        "{} is not a time; write numbers with units (s, m, h, d, w), the longest first, such as 90s or 1h30m",
        quoted(.0)
    )]
    Time(String),
    /// No time at all.
    #[error("a time of 0; write at least one unit, such as 1s")]
    PeriodZero,
    /// More than 584 years.
    #[error("{} is too long a time", quoted(.0))]
    PeriodTooLong(String),
}

/// Parses `N/UNIT` or `N/nUNIT`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_rate(text: &str) -> Result<Rate, RateError> {
    let (amount, per) = parts(text)?;
    Ok(Rate { amount: parse_count(amount).map_err(of_rate)?, per: parse_period(per)? })
}

/// Parses a rate as [`parse_rate`] does, or one of bytes, such as `10MB/s` or `50Mbit/s`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_rate_of_any(text: &str) -> Result<(Rate, LimitUnit), RateError> {
    let (amount, per) = parts(text)?;
    let amount = parse_amount(amount).map_err(of_rate)?;
    Ok((Rate { amount: amount.number, per: parse_period(per)? }, amount.unit))
}

fn parts(text: &str) -> Result<(&str, &str), RateError> {
    let (amount, per) = text.split_once('/').ok_or_else(|| RateError::Shape(text.to_owned()))?;
    // That is YAML's, for numbers that stand alone.
    if amount.contains('_') {
        return Err(RateError::Amount(CountError::NotANumber(amount.to_owned())));
    }
    Ok((amount, per))
}

fn of_rate(error: CountError) -> RateError {
    match error {
        CountError::Zero => RateError::Zero,
        other => RateError::Amount(other),
    }
}

/// Parses a time in one unit, such as `10s` or `m`: what a rate has behind its slash.
///
/// # Errors
/// What is wrong with it.
pub fn parse_period(text: &str) -> Result<Nanos, RateError> {
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

/// Parses a time in one unit or several, such as `90s` or `1h30m`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_time(text: &str) -> Result<Nanos, RateError> {
    let no_time = || RateError::Time(text.to_owned());
    let (mut part, mut rest) = split_part(text);
    if rest.is_empty() {
        return parse_period(text)
            .map_err(|error| if let RateError::Unit(_) = error { no_time() } else { error });
    }
    let mut sum = 0_u64;
    let mut shorter = &UNITS[..];
    while !part.is_empty() {
        let unit = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let place = shorter.iter().position(|(name, _)| *name == unit);
        let place = place.filter(|_| unit.len() < part.len()).ok_or_else(no_time)?;
        // Nothing of one unit is well if there is something of another: `1h0m`.
        let nanos = match parse_period(part) {
            Err(RateError::PeriodZero) => 0,
            parsed => parsed?.0,
        };
        sum = sum.checked_add(nanos).ok_or_else(|| RateError::PeriodTooLong(text.to_owned()))?;
        shorter = shorter.get(place + 1..).unwrap_or_default();
        (part, rest) = split_part(rest);
    }
    if sum == 0 { Err(RateError::PeriodZero) } else { Ok(Nanos(sum)) }
}

/// The number and the unit that a time begins with, and what comes then.
fn split_part(text: &str) -> (&str, &str) {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (_, behind) = text.split_at(digits);
    let unit = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
    text.split_at(digits + unit)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use proptest::prelude::*;

    use super::*;
    use crate::policy::format::format_rate;

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
            ("10MB/s", "`10MB` is a size, and bytes are not counted here"),
            ("50Mbit/s", "`50Mbit` is a size"),
            ("MB/s", "is not a whole number"),
        ];
        for (text, expected) in cases {
            let message = parse_rate(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn rates_of_bytes() {
        let cases = [
            ("10MB/s", 10_000_000, 1, "10MB/s"),
            ("50Mbit/s", 6_250_000, 1, "6250kB/s"),
            ("1GiB/d", 1 << 30, 86_400, "1GiB/d"),
            ("1.5kB/90m", 1_500, 5_400, "1500B/90m"),
        ];
        for (text, amount, seconds, shown) in cases {
            let rate = Rate { amount: NonZeroU64::new(amount).unwrap(), per: Nanos::from_secs(seconds) };
            assert_eq!(parse_rate_of_any(text), Ok((rate, LimitUnit::Bytes)), "{text}");
            assert_eq!(format_rate(rate, LimitUnit::Bytes), shown);
        }
        let message = |text| parse_rate_of_any(text).unwrap_err().to_string();
        assert!(message("0MB/s").starts_with("a rate of 0 would deny everything"));
        assert!(message("4bit/s").starts_with("`4bit` is not a whole number of bytes"));
        assert!(message("10KB/s").contains("or a size in B, kB"));
    }

    #[test]
    fn times_of_one_unit_or_several() {
        for (text, seconds) in [
            ("s", 1),
            ("90s", 90),
            ("2w", 1_209_600),
            ("1h30m", 5_400),
            ("1h0m", 3_600),
            ("0d2h", 7_200),
            ("1w2d3h4m5s", 788_645),
            ("1d90m", 91_800),
        ] {
            assert_eq!(parse_time(text), Ok(Nanos::from_secs(seconds)), "{text}");
        }
        for (text, expected) in [
            (
                "",
                "`` is not a time; write numbers with units (s, m, h, d, w), the longest first, such as 90s",
            ),
            ("5", "`5` is not a time"),
            ("1h30", "`1h30` is not a time"),
            ("1.5h", "`1.5h` is not a time"),
            ("1h 30m", "`1h 30m` is not a time"),
            ("1h-5m", "`1h-5m` is not a time"),
            ("30m1h", "`30m1h` is not a time"),
            ("1m1m", "`1m1m` is not a time"),
            ("h30m", "`h30m` is not a time"),
            ("0s", "a time of 0"),
            ("0h0m", "a time of 0"),
            ("30500w5000000000s", "too long a time"),
            ("1h99999999999999999999s", "too long a time"),
        ] {
            let message = parse_time(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
        // A rate has one: N/[n]UNIT.
        assert!(parse_rate("5/1h30m").is_err());
    }

    proptest! {
        #[test]
        fn what_is_formatted_is_read_back(
            amount in 1..=u64::MAX,
            seconds in 1..18_000_000_000_u64,
            is_size: bool,
        ) {
            let rate = Rate { amount: NonZeroU64::new(amount).unwrap(), per: Nanos::from_secs(seconds) };
            let unit = if is_size { LimitUnit::Bytes } else { LimitUnit::Packets };
            prop_assert_eq!(parse_rate_of_any(&format_rate(rate, unit)), Ok((rate, unit)));
        }

        #[test]
        fn any_text_is_a_rate_or_an_error(text in "\\PC*|[0-9.kMBit]{0,30}/?[0-9smhdw]{0,30}") {
            let _ = (parse_rate(&text), parse_rate_of_any(&text), parse_time(&text));
        }
    }
}
