//! How requests are counted: the algorithms, and the options that some of them have.

/// How requests are counted against the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Tokens refilled at the rate, up to the burst; a request takes its cost.
    #[default]
    TokenBucket,
    /// A queue of `burst` requests that leaves at the rate.
    LeakyBucket,
    /// A counter per epoch-aligned window.
    FixedWindow,
    /// The exact times of the requests of the last window.
    SlidingWindowLog,
    /// The current window's count plus the overlapping share of the previous one's.
    SlidingWindowCounter,
}

impl Algorithm {
    /// All of them, in the order in which people read of them.
    pub const ALL: [Self; 5] = [
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::FixedWindow,
        Self::SlidingWindowLog,
        Self::SlidingWindowCounter,
    ];

    /// The name that configurations use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::LeakyBucket => "leaky_bucket",
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindowLog => "sliding_window_log",
            Self::SlidingWindowCounter => "sliding_window_counter",
        }
    }

    /// Whether it has a capacity of its own, apart from the rate.
    #[must_use]
    pub const fn is_bucket(self) -> bool {
        match self {
            Self::TokenBucket | Self::LeakyBucket => true,
            Self::FixedWindow | Self::SlidingWindowLog | Self::SlidingWindowCounter => false,
        }
    }
}

/// How a token bucket gets its tokens back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Refill {
    /// One after the other, evenly.
    #[default]
    Continuous,
    /// `amount` at once, at the end of each epoch-aligned interval.
    Interval,
}

/// What happens to a request that a leaky bucket does not let out at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnLimit {
    /// Above the burst it is denied; below, it goes on at once.
    #[default]
    Reject,
    /// Above the burst it is denied; below, it is held until its turn.
    Delay,
}
