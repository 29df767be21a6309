//! How many low bits of a state count units, and how far they count.

use super::{Kind, LOG_MOST, LimitError};

/// How many low bits of a state count units. It follows from the period alone, so that a changed amount keeps states.
///
/// The bits above them must tell two window ends apart; where counts leave room, they tell quarters of a window, so that
/// an expired bucket is soon seen as idle.
pub(super) fn count_bits(kind: Kind, per: u64) -> u8 {
    let most = per.max(1).ilog2() as u8;
    match kind {
        // The wide one has no such state, and goes on with those of the other.
        Kind::SlidingCounter | Kind::WideSlidingCounter => most & !1,
        Kind::Window | Kind::Interval => most.saturating_sub(2),
        Kind::ArrivalTime | Kind::Log => 0,
    }
}

/// The largest amount for which every count fits.
pub(super) fn most_counted(kind: Kind, count_bits: u8) -> u64 {
    match kind {
        Kind::ArrivalTime => u64::MAX,
        Kind::Interval | Kind::Window => (1 << count_bits) - 1,
        Kind::SlidingCounter => (1 << (count_bits / 2)) - 1,
        Kind::Log => LOG_MOST,
        Kind::WideSlidingCounter => u64::MAX >> 2,
    }
}

pub(super) fn check_counts(kind: Kind, count_bits: u8, amount: u64) -> Result<(), LimitError> {
    let most = most_counted(kind, count_bits);
    match kind {
        _ if amount <= most => Ok(()),
        Kind::Log => Err(LimitError::LogTooLarge),
        _ => Err(LimitError::AmountTooLarge { most }),
    }
}
