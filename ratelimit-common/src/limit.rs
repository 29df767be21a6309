//! A limit as it is written ([`LimitSpec`]) and as the algorithms use it ([`Limit`]).

mod algorithm;
mod counts;
mod error;
mod outside;
mod overrun;
mod reach;

use core::num::NonZeroU64;

pub use algorithm::{Algorithm, OnLimit, Refill};
use counts::{check_counts, count_bits, most_counted};
pub use error::LimitError;

use crate::{
    time::{Nanos, Now, Ticks},
    wide::{self, Divisor},
};

/// `amount` units in every `per`, such as ten in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Packets, bytes or requests.
    pub amount: NonZeroU64,
    /// The time they are allowed in: more than zero, and at most a year.
    pub per: Nanos,
}

/// Where a limit is to be kept, which decides how much state it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateStorage {
    /// In the XDP program: 64 bits a bucket.
    Kernel,
    /// In a process: a log, or a wide counter, has memory of its own.
    UserSpace,
}

/// A limit as a person writes it: an algorithm, its rate, and options. [`LimitSpec::new`] has all options at their
/// defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSpec {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The rate, and with it the window.
    pub rate: Rate,
    /// The most units at once, for buckets; `None` means the rate's amount. An error for windows.
    pub burst: Option<NonZeroU64>,
    /// How tokens come back. Other algorithms than the token bucket have [`Refill::Continuous`] alone.
    pub refill: Refill,
    /// Whether denied requests count too, so that who does not slow down stays denied.
    pub count_denied: bool,
    /// What becomes of requests that can't leave at once. Other algorithms than the leaky bucket have
    /// [`OnLimit::Reject`] alone.
    pub on_limit: OnLimit,
    /// Whether costs are known only afterwards: each is charged whole, even to a request that is denied, and what goes
    /// beyond the capacity is owed.
    pub overrun: bool,
}

impl LimitSpec {
    /// A limit by `algorithm` at `rate`, all else at its default.
    #[must_use]
    pub const fn new(algorithm: Algorithm, rate: Rate) -> Self {
        Self {
            algorithm,
            rate,
            burst: None,
            refill: Refill::Continuous,
            count_denied: false,
            on_limit: OnLimit::Reject,
            overrun: false,
        }
    }
}

/// How a bucket's state is laid out; with the window, what a state means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StateKind {
    /// A time: the theoretical arrival time of GCRA (token and leaky bucket).
    ArrivalTime = 0,
    /// The end of the interval that fills the bucket, and what is missing before it.
    Interval = 1,
    /// The end of the window, and its count.
    Window = 2,
    /// The end of the window after the current one, and the counts of the previous and the current.
    SlidingCounter = 3,
    /// Times and costs, in memory of their own.
    Log = 4,
    /// The sliding counter's three numbers at full width, in memory of their own.
    WideSlidingCounter = 5,
}

impl StateKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::ArrivalTime,
        Self::Interval,
        Self::Window,
        Self::SlidingCounter,
        Self::Log,
        Self::WideSlidingCounter,
    ];

    /// Whether such a state is a word of the bucket table.
    #[must_use]
    pub const fn is_word(self) -> bool {
        match self {
            Self::ArrivalTime | Self::Interval | Self::Window | Self::SlidingCounter => true,
            Self::Log | Self::WideSlidingCounter => false,
        }
    }
}

/// A limit as the algorithms use it: only values that can't overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Limit {
    pub(crate) kind: StateKind,
    /// Low bits of a window state that hold counts.
    pub(crate) count_bits: u8,
    count_denied: u8,
    delays: u8,
    overrun: u8,
    reserved: [u8; 3],
    /// Units in each period.
    pub(crate) amount: Divisor,
    /// The most units at once.
    pub(crate) capacity: u64,
    /// The time in which an empty bucket fills.
    pub(crate) full: Ticks,
    /// The time that one unit takes: whole ticks, and a fraction in 1/2^64 ticks, rounded up.
    unit: Ticks,
    unit_fraction: u64,
    /// The period in nanoseconds.
    pub(crate) window: Divisor,
    /// How far into a period the table was made, in nanoseconds.
    pub(crate) phase: Nanos,
    /// Until when no time in a state of this limit can have wrapped.
    plain_until: Nanos,
}

const _: () = assert!(size_of::<Limit>() == 88);

/// What a log may hold for one key.
pub const LOG_MOST: u64 = 10_000;

impl LimitSpec {
    /// The limit as the algorithms use it.
    ///
    /// # Errors
    /// What doesn't fit together, or doesn't fit into the state that a bucket has in `place`.
    #[doc(hidden)]
    pub fn build(&self, place: StateStorage) -> Result<Limit, LimitError> {
        self.check(place)?;
        let kind = self.kind(place);
        let per = self.rate.per.to_ticks().0;
        let amount = self.rate.amount.get();
        let capacity = self.burst.unwrap_or(self.rate.amount).get();
        let (unit, unit_fraction) = unit_time(per, amount)?;
        let count_bits = count_bits(kind, per);
        check_counts(kind, count_bits, amount)?;
        let full = time_of_many(unit, unit_fraction, capacity);
        if self.algorithm.is_bucket() && full > u128::from(Nanos::YEAR.to_ticks().0) {
            let most = u128::from(Nanos::YEAR.to_ticks().0) * u128::from(amount) / u128::from(per);
            return Err(LimitError::BurstTooLong { most: most.min(u128::from(u64::MAX)) as u64 });
        }
        self.check_debt(full)?;
        let limit = Limit {
            kind,
            count_bits,
            count_denied: self.count_denied.into(),
            delays: (self.on_limit == OnLimit::Delay).into(),
            overrun: self.overrun.into(),
            reserved: [0; 3],
            amount: Divisor::new(amount),
            capacity,
            full: Ticks(full as u64),
            unit,
            unit_fraction,
            window: Divisor::new(self.rate.per.0),
            phase: Nanos(0),
            plain_until: Nanos(0),
        };
        Ok(Limit { plain_until: Now::plain_until(limit.furthest()), ..limit })
    }

    fn check(&self, place: StateStorage) -> Result<(), LimitError> {
        let algorithm = self.algorithm;
        if self.burst.is_some() && !algorithm.is_bucket() {
            return Err(LimitError::BurstOnWindow(algorithm));
        }
        if self.refill == Refill::Interval && algorithm != Algorithm::TokenBucket {
            return Err(LimitError::RefillNotTokenBucket(algorithm));
        }
        if self.on_limit == OnLimit::Delay && algorithm != Algorithm::LeakyBucket {
            return Err(LimitError::DelayNotLeakyBucket(algorithm));
        }
        if place == StateStorage::Kernel && self.on_limit == OnLimit::Delay {
            return Err(LimitError::DelayInKernel);
        }
        if place == StateStorage::Kernel && algorithm == Algorithm::SlidingWindowLog {
            return Err(LimitError::LogInKernel);
        }
        if self.rate.per.0 == 0 || self.rate.per > Nanos::YEAR {
            return Err(LimitError::PeriodOutOfRange);
        }
        self.check_overrun(place)
    }

    fn kind(&self, place: StateStorage) -> StateKind {
        let per = self.rate.per.to_ticks().0;
        match self.algorithm {
            Algorithm::TokenBucket if self.refill == Refill::Interval => StateKind::Interval,
            Algorithm::TokenBucket | Algorithm::LeakyBucket => StateKind::ArrivalTime,
            // What a window passes on to the next is what an interval's refill leaves missing.
            Algorithm::FixedWindow if self.overrun => StateKind::Interval,
            Algorithm::FixedWindow => StateKind::Window,
            Algorithm::SlidingWindowLog => StateKind::Log,
            Algorithm::SlidingWindowCounter => {
                let most =
                    most_counted(StateKind::SlidingCounter, count_bits(StateKind::SlidingCounter, per));
                if place == StateStorage::UserSpace && self.most_units(self.rate.amount.get()) > most {
                    StateKind::WideSlidingCounter
                } else {
                    StateKind::SlidingCounter
                }
            }
        }
    }
}

/// The time of one unit in whole ticks and 1/2^64 ticks.
fn unit_time(per: u64, amount: u64) -> Result<(Ticks, u64), LimitError> {
    let (unit, rest) = (per / amount, per % amount);
    if unit == 0 {
        return Err(LimitError::RateTooHigh);
    }
    let fraction = (u128::from(rest) << 64).div_ceil(u128::from(amount));
    Ok((Ticks(unit), fraction.min(u128::from(u64::MAX)) as u64))
}

/// The time of `units`, rounded down to a tick.
fn time_of_many(unit: Ticks, fraction: u64, units: u64) -> u128 {
    u128::from(unit.0) * u128::from(units) + u128::from(wide::multiply(fraction, units).0)
}

impl Limit {
    /// The same limit for a table that was made `epoch` after the Unix epoch: windows and intervals align to that.
    #[must_use]
    pub fn aligned(mut self, epoch: Nanos) -> Self {
        self.phase = Nanos(self.window.divide(epoch.0).1);
        self
    }

    /// The time in which an empty bucket fills.
    #[must_use]
    pub const fn fills_in(&self) -> Ticks {
        self.full
    }

    /// Whether a bucket that is as good as new allows this cost.
    #[must_use]
    pub const fn can_hold(&self, cost: u32) -> bool {
        self.overruns() || cost as u64 <= self.capacity
    }

    /// How its states are laid out.
    #[must_use]
    #[inline(always)]
    pub const fn kind(&self) -> StateKind {
        self.kind
    }

    /// Whether its states depend on where windows lie. A log counts back from the present.
    #[must_use]
    pub const fn has_windows(&self) -> bool {
        match self.kind {
            StateKind::ArrivalTime | StateKind::Log => false,
            StateKind::Interval
            | StateKind::Window
            | StateKind::SlidingCounter
            | StateKind::WideSlidingCounter => true,
        }
    }

    /// What makes two limits read each other's states: the layout, and the window where states depend on it. A sliding
    /// counter's amount decides how wide its states are, but not whose.
    #[must_use]
    pub const fn shape(&self) -> (StateKind, Nanos) {
        match self.kind {
            StateKind::ArrivalTime => (self.kind, Nanos(0)),
            StateKind::WideSlidingCounter => (StateKind::SlidingCounter, self.period()),
            StateKind::Interval | StateKind::Window | StateKind::SlidingCounter | StateKind::Log => {
                (self.kind, self.period())
            }
        }
    }

    /// The most units at once: the burst of a bucket, the amount of a window.
    #[must_use]
    #[inline(always)]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Units in each period.
    #[must_use]
    pub const fn amount(&self) -> u64 {
        self.amount.get()
    }

    /// The time that the rate's amount is for, which is the window.
    #[must_use]
    pub const fn period(&self) -> Nanos {
        Nanos(self.window.get())
    }

    /// Whether denied requests count too.
    #[must_use]
    #[inline(always)]
    pub const fn counts_denied(&self) -> bool {
        self.count_denied != 0
    }

    /// The same limit, but denied requests do not count.
    #[must_use]
    pub const fn forgiving(mut self) -> Self {
        self.count_denied = 0;
        self
    }

    /// Whether admitted requests are held until their turn.
    #[must_use]
    pub const fn delays(&self) -> bool {
        self.delays != 0
    }

    /// The time that `cost` units take at the rate, rounded down to a tick. `cost` must not exceed the capacity, unless
    /// the limit can be overrun: then it is at most the time of all that can be used.
    #[inline(always)]
    pub(crate) fn time_of(&self, cost: u32) -> Ticks {
        if cost == 1 {
            return self.unit;
        }
        if self.overruns() {
            return self.time_of_any(cost);
        }
        let whole = self.unit.0.wrapping_mul(cost as u64);
        Ticks(whole.wrapping_add(wide::multiply(self.unit_fraction, cost as u64).0))
    }

    /// How many units, at most `most`, fit into `room`: the largest count whose time is not above it.
    pub(crate) fn units_in(&self, room: Ticks, most: u64) -> u64 {
        let unit = (u128::from(self.unit.0) << 64) | u128::from(self.unit_fraction);
        let room = u128::from(room.0);
        // The units whose exact time stays below room + 1; the estimate by division is off by one at most.
        let estimate = (((room + 1) << 64) / unit).min(u128::from(most)) as u64;
        let is_too_many = time_of_many(self.unit, self.unit_fraction, estimate) > room;
        estimate.saturating_sub(is_too_many.into())
    }
}
