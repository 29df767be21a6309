//! Numbers as people write them: `20k` of something, `1.5MB` of bytes.
//!
//! Only how they are written; what a bucket can hold is for `ratelimit_common::limit` to say.

use std::{borrow::Cow, num::NonZeroU64};

use super::error::quoted;
use crate::policy::LimitUnit;
pub use crate::policy::format::Amount;

/// Multipliers of a plain number.
const MULTIPLIERS: [(&str, u64); 3] = [("", 1), ("k", 1_000), ("M", 1_000_000)];

/// What sizes are measured in: so many bits or bytes, and how many of these are a byte.
const SIZES: [(&str, u64, u64); 11] = [
    ("B", 1, 1),
    ("kB", 1_000, 1),
    ("MB", 1_000_000, 1),
    ("GB", 1_000_000_000, 1),
    ("KiB", 1 << 10, 1),
    ("MiB", 1 << 20, 1),
    ("GiB", 1 << 30, 1),
    ("bit", 1, 8),
    ("kbit", 1_000, 8),
    ("Mbit", 1_000_000, 8),
    ("Gbit", 1_000_000_000, 8),
];

/// The names of the sizes, for messages.
const SIZE_NAMES: &str = "B, kB, MB, GB, KiB, MiB, GiB, bit, kbit, Mbit, Gbit";

/// Digits after the point at most: what is finer is a whole number of nothing.
const MOST_DECIMALS: usize = 18;

/// Why a text is not a number of things.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// Something else.
    #[error("{} is not a whole number; write digits, with k (thousand) or M (million) if you like", quoted(.0))]
    NotANumber(String),
    /// Something else, where a size would do too.
    #[error(
        "{} is not a whole number; write digits, with k (thousand) or M (million) if you like, or a size in \
         {SIZE_NAMES}",
        quoted(.0)
    )]
    NotAnAmount(String),
    /// Half a packet.
    #[error("{} is not a whole number", quoted(.0))]
    Fraction(String),
    /// Half a byte.
    #[error("{} is not a whole number of bytes, of 8 bits each", quoted(.0))]
    FractionOfByte(String),
    /// Nothing.
    #[error("must be at least 1")]
    Zero,
    /// Less than nothing.
    #[error("{} is negative; must be at least 1", quoted(.0))]
    Negative(String),
    /// More than 64 bits hold.
    #[error("{} is too large", quoted(.0))]
    TooLarge(String),
    /// A number of bytes, where bytes are not counted.
    #[error("{} is a size, and bytes are not counted here; write a plain number, such as 100 or 20k", quoted(.0))]
    Size(String),
}

/// Parses a number of at least 1: digits, with `k` or `M` if wanted; `1.5k` is 1500.
///
/// # Errors
/// What is wrong with it.
pub fn parse_count(text: &str) -> Result<NonZeroU64, CountError> {
    match parse(text)? {
        Amount { number, unit: LimitUnit::Packets } => Ok(number),
        Amount { unit: LimitUnit::Bytes, .. } => Err(CountError::Size(text.to_owned())),
    }
}

/// Parses a number as [`parse_count`] does, or a size such as `10MB` or `50Mbit`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_amount(text: &str) -> Result<Amount, CountError> {
    parse(text).map_err(|error| match error {
        CountError::NotANumber(text) => CountError::NotAnAmount(text),
        other => other,
    })
}

/// A whole number without the `_` that YAML allows between its digits.
pub fn without_underscores(text: &str) -> Cow<'_, str> {
    let is_digits = |group: &str| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit());
    let is_grouped = text.contains('_') && text.split('_').all(is_digits);
    if is_grouped { Cow::Owned(text.replace('_', "")) } else { Cow::Borrowed(text) }
}

fn parse(text: &str) -> Result<Amount, CountError> {
    let text = &*without_underscores(text);
    if text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        return Err(CountError::Negative(text.to_owned()));
    }
    let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let digits = text.strip_suffix(suffix).unwrap_or(text);
    let plain = MULTIPLIERS.iter().find(|(name, _)| *name == suffix);
    let size = SIZES.iter().find(|(name, _, _)| *name == suffix);
    let (unit, multiplier, divisor) = match (plain, size) {
        (Some((_, multiplier)), _) => (LimitUnit::Packets, *multiplier, 1),
        (None, Some((_, multiplier, divisor))) => (LimitUnit::Bytes, *multiplier, *divisor),
        (None, None) => return Err(CountError::NotANumber(text.to_owned())),
    };
    let fraction = || match unit {
        LimitUnit::Packets => CountError::Fraction(text.to_owned()),
        LimitUnit::Bytes => CountError::FractionOfByte(text.to_owned()),
    };
    let parts = multiplied(text, digits, multiplier)?.ok_or_else(fraction)?;
    if !parts.is_multiple_of(divisor.into()) {
        return Err(fraction());
    }
    let number =
        u64::try_from(parts / u128::from(divisor)).map_err(|_| CountError::TooLarge(text.to_owned()))?;
    Ok(Amount { number: NonZeroU64::new(number).ok_or(CountError::Zero)?, unit })
}

/// `digits`, with or without a point, times `multiplier`; `None` if that is not a whole number.
fn multiplied(text: &str, digits: &str, multiplier: u64) -> Result<Option<u128>, CountError> {
    let not_a_number = || CountError::NotANumber(text.to_owned());
    let (whole, decimals) = match digits.split_once('.') {
        Some((whole, decimals)) if !decimals.is_empty() => (whole, decimals.trim_end_matches('0')),
        Some(_) => return Err(not_a_number()),
        None => (digits, ""),
    };
    if whole.is_empty() || decimals.contains('.') {
        return Err(not_a_number());
    }
    if decimals.len() > MOST_DECIMALS {
        return Ok(None);
    }
    let whole: u64 = whole.parse().map_err(|_| CountError::TooLarge(text.to_owned()))?;
    let scale = decimals.bytes().fold(1_u128, |scale, _| scale * 10);
    let fraction = decimals.parse().unwrap_or(0_u128) * u128::from(multiplier);
    let is_whole = fraction.is_multiple_of(scale);
    Ok(is_whole.then(|| u128::from(whole) * u128::from(multiplier) + fraction / scale))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::format::format_amount;

    #[test]
    fn sizes_are_numbers_of_bytes() {
        let cases = [
            ("1B", 1, "1B"),
            ("1514B", 1_514, "1514B"),
            ("10kB", 10_000, "10kB"),
            ("10MB", 10_000_000, "10MB"),
            ("1.5MB", 1_500_000, "1500kB"),
            ("2GB", 2_000_000_000, "2GB"),
            ("64KiB", 65_536, "64KiB"),
            ("0.5KiB", 512, "512B"),
            ("1.5MiB", 1_572_864, "1536KiB"),
            ("1GiB", 1 << 30, "1GiB"),
            ("8bit", 1, "1B"),
            ("12kbit", 1_500, "1500B"),
            ("0.008kbit", 1, "1B"),
            ("50Mbit", 6_250_000, "6250kB"),
            ("10Gbit", 1_250_000_000, "1250MB"),
            ("18446744073709551615B", u64::MAX, "18446744073709551615B"),
        ];
        for (text, bytes, shown) in cases {
            let amount = Amount { number: NonZeroU64::new(bytes).unwrap(), unit: LimitUnit::Bytes };
            assert_eq!(parse_amount(text), Ok(amount), "{text}");
            assert_eq!(format_amount(amount), shown);
        }
    }

    #[test]
    fn sizes_that_are_refused_say_why() {
        let cases = [
            ("4bit", "`4bit` is not a whole number of bytes, of 8 bits each"),
            ("0.0125kbit", "is not a whole number of bytes"),
            ("1.5B", "is not a whole number of bytes"),
            ("0.3KiB", "is not a whole number of bytes"),
            ("0.0000000000000000001GB", "is not a whole number of bytes"),
            ("0MB", "must be at least 1"),
            ("0bit", "must be at least 1"),
            ("-1MB", "`-1MB` is negative"),
            ("1KB", "or a size in B, kB, MB, GB, KiB, MiB, GiB, bit, kbit, Mbit, Gbit"),
            ("1mb", "`1mb` is not a whole number; write digits"),
            ("1 MB", "`1 MB` is not a whole number"),
            ("MB", "`MB` is not a whole number"),
            (".MB", "`.MB` is not a whole number"),
            ("18446744074GB", "is too large"),
            ("18446744073709551616B", "is too large"),
        ];
        for (text, expected) in cases {
            let message = parse_amount(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn digits_may_be_grouped() {
        for (text, number) in [("5_000", 5_000), ("1_048_576", 1 << 20)] {
            assert_eq!(parse_count(text).map(NonZeroU64::get), Ok(number), "{text}");
        }
        assert_eq!(parse_amount("1_500").map(|amount| amount.number.get()), Ok(1_500));
        for text in ["_5", "5_", "5__0", "5_k", "5_000k", "5_.0", "_", "1_B", "1_500B"] {
            assert!(matches!(parse_count(text), Err(CountError::NotANumber(_))), "{text}");
        }
    }

    #[test]
    fn a_size_is_no_plain_number() {
        let message = parse_count("10MB").unwrap_err().to_string();
        assert!(message.starts_with("`10MB` is a size, and bytes are not counted here; write a plain"));
        assert!(!parse_count("ten").unwrap_err().to_string().contains("MiB"));
    }

    #[test]
    fn the_names_in_messages_are_those_that_are_read() {
        assert_eq!(SIZES.map(|(name, _, _)| name).join(", "), SIZE_NAMES);
    }

    proptest! {
        #[test]
        fn what_is_formatted_is_read_back(number in 1..=u64::MAX, zeros in 0_u32..19, is_size: bool) {
            let power = 10_u64.pow(zeros);
            let number = NonZeroU64::new(number / power * power).unwrap_or(NonZeroU64::MIN);
            let amount = Amount { number, unit: if is_size { LimitUnit::Bytes } else { LimitUnit::Packets } };
            prop_assert_eq!(parse_amount(&format_amount(amount)), Ok(amount));
        }

        #[test]
        fn any_text_is_an_amount_or_an_error(text in "\\PC*|[0-9.]{0,40}[kMGKiBbit]{0,4}") {
            let _ = parse_amount(&text);
        }
    }
}
