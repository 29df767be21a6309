//! Decimal seconds to the nanosecond, digit by digit: no float comes near them.

use std::fmt;

use ratelimit_common::time::Nanos;

/// Why a text is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecondsError {
    /// Below zero.
    #[error("a time before the Unix epoch")]
    Negative,
    /// Something else than digits and a point between them.
    #[error("not a decimal number of seconds, such as 1700000000.25")]
    NotDecimal,
    /// Finer than a nanosecond.
    #[error("more than nine decimals; a nanosecond is the finest time")]
    TooFine,
    /// More nanoseconds than 64 bits hold.
    #[error("more than 18446744073 seconds")]
    TooLarge,
}

/// Nine decimals.
const PLACES: usize = 9;

/// Reads decimal seconds. Decimals after the ninth must be zeros.
///
/// # Errors
/// It is not a time that can be kept exactly.
pub fn parse_seconds(text: &str) -> Result<Nanos, SecondsError> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) {
        return Err(if text.starts_with('-') { SecondsError::Negative } else { SecondsError::NotDecimal });
    }
    let (fine, finer) = decimals.split_at(decimals.len().min(PLACES));
    if finer.bytes().any(|digit| digit != b'0') {
        return Err(SecondsError::TooFine);
    }
    let zeros = &"000000000"[fine.len()..];
    [whole, fine, zeros].concat().parse().map(Nanos).map_err(|_| SecondsError::TooLarge)
}

/// A time as decimal seconds, as short as it is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub Nanos);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, nanos) = (self.0.0 / Nanos::SECOND.0, self.0.0 % Nanos::SECOND.0);
        if nanos == 0 {
            return write!(f, "{whole}");
        }
        let decimals = format!("{nanos:09}");
        write!(f, "{whole}.{}", decimals.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_exactly() {
        let cases = [
            ("0", 0, "0"),
            ("14.9", 14_900_000_000, "14.9"),
            ("84.000000001", 84_000_000_001, "84.000000001"),
            ("1.500000000000", 1_500_000_000, "1.5"),
            ("0007", 7_000_000_000, "7"),
            ("1700000000.123456789", 1_700_000_000_123_456_789, "1700000000.123456789"),
            ("18446744073.709551615", u64::MAX, "18446744073.709551615"),
        ];
        for (text, nanos, written) in cases {
            assert_eq!(parse_seconds(text), Ok(Nanos(nanos)), "{text}");
            assert_eq!(Seconds(Nanos(nanos)).to_string(), written, "{text}");
        }
    }

    #[test]
    fn what_is_no_exact_time_is_refused() {
        let cases = [
            ("-1", SecondsError::Negative),
            ("-0.5", SecondsError::Negative),
            ("", SecondsError::NotDecimal),
            (".", SecondsError::NotDecimal),
            ("1.", SecondsError::NotDecimal),
            (".5", SecondsError::NotDecimal),
            ("+1", SecondsError::NotDecimal),
            ("1e9", SecondsError::NotDecimal),
            ("1.5E3", SecondsError::NotDecimal),
            ("NaN", SecondsError::NotDecimal),
            ("inf", SecondsError::NotDecimal),
            ("0x10", SecondsError::NotDecimal),
            ("1_000", SecondsError::NotDecimal),
            ("1.2.3", SecondsError::NotDecimal),
            ("\u{661}", SecondsError::NotDecimal),
            ("1.0000000001", SecondsError::TooFine),
            ("18446744073.709551616", SecondsError::TooLarge),
            ("99999999999999999999999", SecondsError::TooLarge),
        ];
        for (text, error) in cases {
            assert_eq!(parse_seconds(text), Err(error), "{text}");
        }
    }
}
