//! How many low bits of a state count units, and how far they count.

use super::{LOG_MOST, LimitError, StateKind};

/// How many low bits of a state count units. It follows from the period alone, so that a changed amount keeps states.
///
/// The bits above them must tell two window ends apart; where counts leave room, they tell quarters of a window, so
/// that an expired bucket is soon seen as idle.
pub(super) fn count_bits(kind: StateKind, per: u64) -> u8 {
    let most = per.max(1).ilog2() as u8;
    match kind {
        // The wide one has no such state, and goes on with those of the other.
        StateKind::SlidingCounter | StateKind::WideSlidingCounter => most & !1,
        StateKind::Window | StateKind::Interval => most.saturating_sub(2),
        StateKind::ArrivalTime | StateKind::Log => 0,
    }
}

/// The largest amount for which every count fits.
pub(super) fn most_counted(kind: StateKind, count_bits: u8) -> u64 {
    match kind {
        StateKind::ArrivalTime => u64::MAX,
        StateKind::Interval | StateKind::Window => (1 << count_bits) - 1,
        StateKind::SlidingCounter => (1 << (count_bits / 2)) - 1,
        StateKind::Log => LOG_MOST,
        StateKind::WideSlidingCounter => u64::MAX >> 2,
    }
}

pub(super) fn check_counts(kind: StateKind, count_bits: u8, amount: u64) -> Result<(), LimitError> {
    let most = most_counted(kind, count_bits);
    match kind {
        _ if amount <= most => Ok(()),
        StateKind::Log => Err(LimitError::LogTooLarge),
        StateKind::ArrivalTime
        | StateKind::Interval
        | StateKind::Window
        | StateKind::SlidingCounter
        | StateKind::WideSlidingCounter => Err(LimitError::AmountTooLarge { most }),
    }
}
