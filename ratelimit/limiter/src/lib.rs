//! Rate limits inside a program: it decides in its own memory, from any number of threads, in a fraction of a microsecond,
//! and needs no daemon, no server and nothing of the kernel.
//!
//! | what is limited | by what | where |
//! |---|---|---|
//! | anything that has a key and a cost | a [`Limiter`] with rules of the program | below |
//! | requests that are described as for Envoy's rate limit service | an [`application::Service`] with rules by domain and descriptors | [`application`] |
//! | requests to a service of axum, tonic, hyper | a layer over either of them | `tower`, with the features `tower`, `axum`, `tonic` |
//!
//! # One limit
//!
//! A [`LimitSpec`] is an [`Algorithm`] with its numbers, a [`Rule`] a limit with a name. Whatever can be hashed is a key, and
//! each key has a bucket of its own.
//!
//! ```
//! use std::{num::NonZeroU64, time::Duration};
//!
//! use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! const TEN: NonZeroU64 = NonZeroU64::new(10).unwrap();
//! let ten_a_second = Rate { amount: TEN, per: Nanos::SECOND };
//! let limit = LimitSpec { burst: NonZeroU64::new(20), ..LimitSpec::new(Algorithm::TokenBucket, ten_a_second) };
//! let limiter = Limiter::builder().rule(Rule::new("per-client", limit)).build()?;
//!
//! let decision = limiter.check("198.51.100.7", 1);
//! assert!(decision.allowed());
//! assert_eq!((decision.limit(), decision.remaining()), (20, 19));
//!
//! // Another cost: this request takes 20 units, and there are only 19.
//! let decision = limiter.check("198.51.100.7", 20);
//! assert!(!decision.allowed());
//! let wait = Duration::from(decision.retry_after().ok_or("it can pass later")?);
//! assert!(wait <= Duration::from_millis(100));
//!
//! // The first request came to nothing: what it took is given back.
//! limiter.refund("198.51.100.7", 1);
//! assert!(limiter.check("198.51.100.7", 20).allowed());
//! # Ok(())
//! # }
//! ```
//!
//! # Several rules, several keys
//!
//! A limiter with several rules applies all of them to a request, all or nothing: what one denies, no other is charged for,
//! unless it counts denied requests ([`LimitSpec::count_denied`]). [`Limiter::check_each`] applies some of them, each with a
//! key and a cost of its own. A rule that [observes](Rule::observe) counts and never denies.
//!
//! ```
//! # use std::num::NonZeroU64;
//! # use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # const HUNDRED: NonZeroU64 = NonZeroU64::new(100).unwrap();
//! # let a_day = LimitSpec::new(Algorithm::FixedWindow, Rate { amount: HUNDRED, per: Nanos::from_secs(86_400) });
//! # let a_second = LimitSpec::new(Algorithm::SlidingWindowCounter, Rate { amount: HUNDRED, per: Nanos::SECOND });
//! let limiter = Limiter::builder()
//!     .rule(Rule::new("requests-of-a-client", a_second))
//!     .rule(Rule::new("bytes-of-a-tenant", a_day))
//!     .build()?;
//! let asks = [limiter.ask(0, "198.51.100.7", 1), limiter.ask(1, "tenant-3", 90)];
//! let asks: Vec<_> = asks.into_iter().flatten().collect();
//! assert!(limiter.check_each(&asks).allowed());
//!
//! let outcome = limiter.check_each(&asks);
//! assert!(!outcome.allowed());
//! assert_eq!(outcome.decision().rule().map(Rule::name), Some("bytes-of-a-tenant"));
//! # Ok(())
//! # }
//! ```
//!
//! # A clock for tests
//!
//! With a [`FakeClock`](clock::FakeClock) a test moves time itself; any [`Clock`](clock::Clock) will do.
//!
//! ```
//! # use std::num::NonZeroU64;
//! use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule, clock::FakeClock};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = FakeClock::new(Nanos::from_secs(1_700_000_000));
//! let once_a_second = LimitSpec::new(Algorithm::TokenBucket, Rate { amount: NonZeroU64::MIN, per: Nanos::SECOND });
//! let limiter = Limiter::builder().rule(Rule::new("test", once_a_second)).clock(clock.clone()).build()?;
//! assert!(limiter.check("key", 1).allowed());
//! assert!(!limiter.check("key", 1).allowed());
//! clock.advance(Nanos::SECOND);
//! assert!(limiter.check("key", 1).allowed());
//! # Ok(())
//! # }
//! ```
//!
//! # Other rules, and restarts
//!
//! A limiter never changes. [`Limiter::with_rules`] makes another one that goes on with the same buckets, so a program
//! replaces its limiter as a whole, behind a lock or an atomic pointer of its own. A [`Service`](application::Service) takes
//! other rules while it decides ([`reload`](application::Service::reload)), and keeps counts over a restart in a file
//! ([`save`](application::Service::save)).
//!
//! # Memory
//!
//! A bucket takes 16 bytes. There is room for a million keys unless the builder says otherwise; beyond that, the buckets that
//! are nearest to fresh ones are forgotten first, and those that are as good as fresh cost nothing to forget.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tracing` (default) | warnings of what is no error of a call, such as a state file that can't be read |
//! | `serde` | counts and status as JSON and the like |
//! | `http` | `answers`: decisions as headers and problem details; `client_address`: clients behind proxies |
//! | `tower` | `tower`: a layer for whatever takes HTTP requests as a service |
//! | `retry` | `retry`: for clients, a layer that sends a denied request again when the limit lets it |
//! | `axum`, `tonic` | the layer makes their bodies, and knows how they say who is connected |
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod answer_headers;
#[cfg(feature = "http")]
pub mod answers;
pub mod application;
#[cfg(feature = "http")]
pub mod client_address;
pub mod clock;
#[doc(hidden)]
pub mod format;
mod limiter;
mod policy;
pub mod prefix;
#[cfg(feature = "retry")]
pub mod retry;
pub mod store;
#[doc(hidden)]
pub mod text;
#[cfg(feature = "tower")]
pub mod tower;
mod transaction;
mod warnings;

pub use answer_headers::AnswerHeaders;
pub use limiter::{
    Algorithm, Ask, Decision, LimitError, LimitSpec, Limiter, LimiterBuilder, LimiterError, Nanos, OnLimit,
    Outcome, Rate, Refill, Rule,
};
