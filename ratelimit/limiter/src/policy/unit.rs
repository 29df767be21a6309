//! Units of time that a limit's requests are counted in.

use std::str::FromStr;

use ratelimit_common::time::Nanos;

/// A unit of time. A month has 30 days, a year 365.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// Second
    Second,
    /// Minute
    Minute,
    /// Hour
    Hour,
    /// Day
    Day,
    /// Week
    Week,
    /// 30 days
    Month,
    /// 365 days
    Year,
}

impl TimeUnit {
    /// The shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The name in rule files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// How long it is.
    #[must_use]
    pub const fn length(self) -> Nanos {
        const DAY: u64 = 86_400;
        Nanos::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
        })
    }

    /// The unit of this length, if there is one.
    #[must_use]
    pub fn of_length(length: Nanos) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.length() == length)
    }
}

/// Not the name of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a unit of time; accepted: second, minute, hour, day, week, month, year")]
pub struct NoTimeUnit;

impl FromStr for TimeUnit {
    type Err = NoTimeUnit;

    /// In upper or lower case.
    fn from_str(text: &str) -> Result<Self, NoTimeUnit> {
        Self::ALL.into_iter().find(|unit| text.eq_ignore_ascii_case(unit.name())).ok_or(NoTimeUnit)
    }
}
