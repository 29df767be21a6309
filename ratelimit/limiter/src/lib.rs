//! Rate limits inside a program. It decides in the program's own memory, from any number of threads, in a fraction of a
//! microsecond, and needs no daemon, no server and nothing of the kernel.
//!
//! # Quick start
//!
//! ```toml
//! [dependencies]
//! ratelimit-limiter = { git = "URL OF THE REPOSITORY" }
//! ```
//!
//! Each client may send ten requests a second, and twenty at once after a pause:
//!
//! ```
//! use std::{error::Error, num::NonZeroU64, time::Duration};
//!
//! use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule};
//!
//! const TEN: NonZeroU64 = NonZeroU64::new(10).unwrap();
//!
//! fn main() -> Result<(), Box<dyn Error>> {
//!     let ten_a_second = Rate { amount: TEN, per: Nanos::SECOND };
//!     let bucket = LimitSpec::new(Algorithm::TokenBucket, ten_a_second);
//!     let limit = LimitSpec { burst: NonZeroU64::new(20), ..bucket };
//!     let limiter = Limiter::builder().rule(Rule::new("per-client", limit)).build()?;
//!
//!     let decision = limiter.check("198.51.100.7", 1);
//!     assert!(decision.allowed());
//!     assert_eq!((decision.limit(), decision.remaining()), (20, 19));
//!
//!     // This request costs 20, and 19 are left: in a tenth of a second there are 20.
//!     let decision = limiter.check("198.51.100.7", 20);
//!     assert!(!decision.allowed());
//!     let wait = Duration::from(decision.retry_after().ok_or("no waiting helps")?);
//!     assert!(wait <= Duration::from_millis(100));
//!     Ok(())
//! }
//! ```
//!
//! Make one [`Limiter`] when the program starts, and share it between threads, by reference or in an `Arc`:
//! [`Limiter::check`] takes `&self`. The [`Decision`] says whether the request may go on, what is left, and for how
//! long the same request would be denied, to the nanosecond.
//!
//! # Which way in
//!
//! | what is limited | by what | where |
//! |---|---|---|
//! | anything that has a key and a cost | a [`Limiter`] with rules that the program makes | this page |
//! | HTTP and gRPC requests to a service of axum, tonic or hyper | a layer that answers 429 by itself | [`tower`], with the features `tower`, `axum`, `tonic` |
//! | requests that are described as for Envoy's rate limit service | a [`Service`](application::Service) with rules by domain and descriptors, which can be reloaded | [`application`] |
//! | requests that the program itself sends | a layer that waits as long as the server says | [`retry`], with the feature `retry` |
//!
//! # Limits
//!
//! A [`LimitSpec`] is an [`Algorithm`] with its [`Rate`] and some options; a [`Rule`] is a limit with a name. If you
//! have no reason for another one, take [`Algorithm::TokenBucket`].
//!
//! | algorithm | for | option |
//! |---|---|---|
//! | [`TokenBucket`](Algorithm::TokenBucket) | most limits: an even rate, with room for bursts | `burst`; `refill`, if tokens are to come back in batches |
//! | [`LeakyBucket`](Algorithm::LeakyBucket) | smoothing: with `on_limit: OnLimit::Delay`, [`Decision::leaves_after`] says how long to hold a request | `burst`, `on_limit` |
//! | [`FixedWindow`](Algorithm::FixedWindow) | plain quotas, such as 1,000 a day; up to twice the limit around the end of a window | |
//! | [`SlidingWindowCounter`](Algorithm::SlidingWindowCounter) | windows without that jump; an approximation | |
//! | [`SlidingWindowLog`](Algorithm::SlidingWindowLog) | exact windows, for limits of at most 10,000 | |
//!
//! Any of them may count denied requests too (`count_denied`), or be a budget that a request can overrun (`overrun`),
//! where a cost is known only afterwards: see [`Decision::owed`].
//!
//! # Keys and costs
//!
//! Whatever can be hashed is a key, and each key has a bucket of its own under each rule: a text, an address, a
//! [network](prefix::Prefix), a tuple of several such. [`Prefix::around`](prefix::Prefix::around) makes a network of a
//! client's address. A cost is a number of units: 1 for a request, or its bytes, tokens, points. What a request took in
//! vain can be given back.
//!
//! ```
//! # use std::num::NonZeroU64;
//! # use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # const MEGABYTE: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();
//! let a_megabyte_an_hour = Rate { amount: MEGABYTE, per: Nanos::from_secs(3_600) };
//! let limit = LimitSpec::new(Algorithm::FixedWindow, a_megabyte_an_hour);
//! let limiter = Limiter::builder().rule(Rule::new("uploads", limit)).build()?;
//!
//! let key = ("tenant-3", "user-17");
//! assert!(limiter.check(&key, 700_000).allowed());
//! assert!(!limiter.check(&key, 700_000).allowed());
//!
//! // The first upload failed: what it took is given back.
//! limiter.refund(&key, 700_000);
//! assert!(limiter.check(&key, 700_000).allowed());
//! # Ok(())
//! # }
//! ```
//!
//! # Several rules
//!
//! A limiter with several rules applies all of them to a request, all or nothing: if one denies it, no other is
//! charged, unless it counts denied requests ([`LimitSpec::count_denied`]). [`Limiter::check_each`] applies some of the
//! rules, each with a key and a cost of its own. A rule that [observes](Rule::observe) counts and never denies.
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
//!
//! // By their indices: one request of the client, 90 bytes of its tenant.
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
//! # Tests without waiting
//!
//! With a [`FakeClock`](clock::FakeClock) a test moves time itself; any [`Clock`](clock::Clock) will do.
//!
//! ```
//! # use std::num::NonZeroU64;
//! use ratelimit_limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule, clock::FakeClock};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = FakeClock::new(Nanos::from_secs(1_700_000_000));
//! let one_a_second = Rate { amount: NonZeroU64::MIN, per: Nanos::SECOND };
//! let rule = Rule::new("test", LimitSpec::new(Algorithm::TokenBucket, one_a_second));
//! let limiter = Limiter::builder().rule(rule).clock(clock.clone()).build()?;
//!
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
//! replaces its limiter as a whole, behind a lock or an atomic pointer of its own. A [`Service`](application::Service)
//! takes other rules while it decides ([`reload`](application::Service::reload)), and keeps counts over a restart in a
//! file ([`save`](application::Service::save)).
//!
//! # Memory
//!
//! A bucket takes 16 bytes, one of a log about 200 and 8 more for each request of its limit. There is room for a
//! million keys unless [`LimiterBuilder::max_keys`] says otherwise. If there are far more, the buckets that are nearest
//! to full are forgotten first; a bucket that is full again is forgotten without anybody noticing.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tracing` (default) | warnings of what is no error of a call, such as a state file that can't be read |
//! | `serde` | counts and status as JSON and the like |
//! | `http` | [`answers`]: decisions as headers and problem details; [`client_address`]: clients behind proxies |
//! | `tower` | [`tower`]: a layer for whatever takes HTTP requests as a service |
//! | `axum`, `tonic` | the same layer, which makes their bodies and knows how they say who is connected |
//! | `retry` | [`retry`]: for clients, a layer that sends a denied request again when the limit lets it |
//!
// Modules that a feature adds: links to them lead to the table of features where it is off.
#![cfg_attr(feature = "tower", doc = "[`tower`]: crate::tower")]
#![cfg_attr(not(feature = "tower"), doc = "[`tower`]: #features")]
#![cfg_attr(feature = "retry", doc = "[`retry`]: crate::retry")]
#![cfg_attr(not(feature = "retry"), doc = "[`retry`]: #features")]
#![cfg_attr(feature = "http", doc = "[`answers`]: crate::answers")]
#![cfg_attr(not(feature = "http"), doc = "[`answers`]: #features")]
#![cfg_attr(feature = "http", doc = "[`client_address`]: crate::client_address")]
#![cfg_attr(not(feature = "http"), doc = "[`client_address`]: #features")]
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
