//! Amounts, rates and limits as people write them: bytes in sizes, packets as plain numbers.

use std::num::NonZeroU64;

use ratelimit_common::limit::Rate;
pub use ratelimit_limiter::format::{UNITS, format_ban, format_limit};
use ratelimit_limiter::format::{format_limit_in, format_rate_in};

use crate::{LimitUnit, PacketLimit};

/// Sizes in which bytes are shown, the largest first.
const SHOWN_SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// A number, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub number: NonZeroU64,
    /// Packets if it was a plain number, bytes if it was a size.
    pub unit: LimitUnit,
}

/// A number in the form that the configuration reads: bytes in the largest size of which they are a whole number.
#[must_use]
pub fn format_amount(amount: Amount) -> String {
    let number = amount.number.get();
    match amount.unit {
        LimitUnit::Packets => number.to_string(),
        LimitUnit::Bytes => {
            let fits = |(_, size): &&(&str, u64)| number.is_multiple_of(*size);
            let (name, size) = SHOWN_SIZES.iter().find(fits).unwrap_or(&("B", 1));
            format!("{}{name}", number / size)
        }
    }
}

/// A rate in the form that the configuration reads, with the longest unit of time that fits.
#[must_use]
pub fn format_rate(rate: Rate, unit: LimitUnit) -> String {
    format_rate_in(rate, |number| format_amount(Amount { number, unit }))
}

/// A limit on packets, with sizes if it counts bytes: `token_bucket,rate=10MB/s,burst=1MB`.
#[must_use]
pub fn format_packet_limit(limit: &PacketLimit) -> String {
    format_limit_in(limit.spec(), |number| format_amount(Amount { number, unit: limit.unit() }))
}
