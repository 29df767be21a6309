//! Why a limit can't be kept, said so that the reader knows what would do.

use core::fmt;

use super::{Algorithm, LOG_MOST};

/// Why a limit can't be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitError {
    /// `burst` given for an algorithm that has none.
    BurstOnWindow(Algorithm),
    /// `refill: interval` given for another algorithm than the token bucket.
    RefillNotTokenBucket(Algorithm),
    /// `on_limit: delay` given for another algorithm than the leaky bucket.
    DelayNotLeakyBucket(Algorithm),
    /// Packets can't be held back in the kernel.
    DelayInKernel,
    /// The log needs memory for each packet.
    LogInKernel,
    /// The rate's time is zero or longer than a year.
    PeriodOutOfRange,
    /// More than one unit in 1/128 ns.
    RateTooHigh,
    /// An empty bucket would take longer than a year to fill.
    BurstTooLong {
        /// The largest burst that this rate may have.
        most: u64,
    },
    /// What a packet costs is known when it comes.
    OverrunInKernel,
    /// Two ways to go on with costs that are too large.
    OverrunCountsDenied,
    /// A request whose cost is known afterwards can't be held until its turn.
    OverrunDelays,
    /// With overrun, an empty bucket would take longer than 33 days to fill.
    OverrunTooLong {
        /// The largest burst that this rate may have.
        most: u64,
    },
    /// With overrun, a window or an interval would be longer than 33 days.
    OverrunWindowTooLong,
    /// More units in one window than a log keeps for a key.
    LogTooLarge,
    /// More units in one period than the bucket's state can count.
    AmountTooLarge {
        /// The largest amount that it can.
        most: u64,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BurstOnWindow(algorithm) => {
                write!(f, "{} has no burst: all that its rate allows may come at once; leave it out, or use token_bucket", algorithm.name())
            }
            Self::RefillNotTokenBucket(algorithm) => {
                write!(f, "only token_bucket can refill by interval, not {}", algorithm.name())
            }
            Self::DelayNotLeakyBucket(algorithm) => {
                write!(f, "only leaky_bucket can delay, not {}", algorithm.name())
            }
            Self::DelayInKernel => f.write_str("packets can't be delayed, only passed or dropped"),
            Self::LogInKernel => {
                f.write_str("sliding_window_log keeps the time of every packet, which the kernel has no memory for; use sliding_window_counter")
            }
            Self::PeriodOutOfRange => f.write_str("the time of a rate must be between 1 ns and 365 days"),
            Self::RateTooHigh => f.write_str("at most 128 units in a nanosecond"),
            Self::BurstTooLong { most: 0 } => f.write_str("one unit would take more than 365 days"),
            Self::BurstTooLong { most } => {
                write!(f, "an empty bucket would take more than 365 days to fill; at this rate the burst can be {most} at most")
            }
            Self::OverrunInKernel => f.write_str(
                "overrun is for costs that are known only afterwards, and what a packet costs is known when it comes; leave it out",
            ),
            Self::OverrunCountsDenied => f.write_str(
                "overrun charges denied costs already, and owes what is too much, where count_denied only empties the bucket; leave out count_denied",
            ),
            Self::OverrunDelays => {
                f.write_str("a request whose cost is known only afterwards can't be held until its turn; leave out on_limit or overrun")
            }
            Self::OverrunTooLong { most: 0 } => {
                f.write_str("with overrun, ten times the burst can be owed, and one unit would take more than 33 days: its debt could last longer than a year")
            }
            Self::OverrunTooLong { most } => {
                write!(f, "with overrun, ten times the burst can be owed, and an empty bucket would take more than 33 days to fill: its debt could last longer than a year; at this rate the burst can be {most} at most")
            }
            Self::OverrunWindowTooLong => {
                f.write_str("with overrun, ten windows can be owed: the time of the rate can be 33 days at most, or a debt could last longer than a year")
            }
            Self::LogTooLarge => {
                write!(f, "a log keeps {LOG_MOST} entries for a key at most; use sliding_window_counter")
            }
            Self::AmountTooLarge { most } => {
                write!(f, "the state of a bucket can count {most} in this time at most; use token_bucket, or a longer time")
            }
        }
    }
}

impl core::error::Error for LimitError {}
