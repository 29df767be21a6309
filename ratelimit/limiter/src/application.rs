//! Rules on requests in the words of Envoy's rate limit service: a request belongs to a domain and brings descriptors,
//! and the rules of the domain say which limits these have.
//!
//! A [`Service`] is asked by any number of threads at once. Rules are a [`RuleSet`] that a program makes itself, or
//! that the package `ratelimit-config` reads from YAML files.
//!
//! ```
//! use ratelimit_limiter::application::{
//!     Descriptor, DescriptorRule, Domain, Quantity, Request, RequestBan, RequestLimit, RequestRate, RuleSet, Service,
//!     ServicePolicy, TimeUnit,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // `{key: user, rate_limit: {unit: week, requests_per_unit: 1}}`
//! let once_a_week = Quantity::Limited(RequestRate::window(1, TimeUnit::Week.length())?);
//! let limit = RequestLimit { name: None, replaces: Vec::new(), quantity: once_a_week, ban: None };
//! let rule = DescriptorRule { limit: Some(limit), ..DescriptorRule::new("user", None) };
//! let mut rules = RuleSet::default();
//! rules.add(Domain::new("edge", vec![rule]), false)?;
//! let service = Service::new(&ServicePolicy::of_rules(rules))?;
//!
//! let descriptors = vec![Descriptor::of([("user", "frank")])];
//! let request = Request { domain: "edge".to_owned(), descriptors, hits_addend: 1 };
//! assert!(service.decide(&request)?.allowed());
//!
//! // It came to nothing, and what it took is given back.
//! let back = Descriptor { is_negative_hits: true, ..request.descriptors[0].clone() };
//! service.decide(&Request { descriptors: vec![back], ..request.clone() })?;
//! assert!(service.decide(&request)?.allowed());
//!
//! let response = service.decide(&request)?;
//! assert!(!response.allowed());
//! println!("retry in {:?} s", response.deciding().and_then(|status| status.retry_after_seconds()));
//! # Ok(())
//! # }
//! ```
//!
//! [`Service::reload`] puts other rules in force while requests are judged; what is counted goes on:
//!
//! ```
//! # use std::error::Error;
//! # use ratelimit_limiter::application::{
//! #     Descriptor, DescriptorRule, Domain, Quantity, Request, RequestLimit, RequestRate, RuleSet, Service,
//! #     ServicePolicy, TimeUnit,
//! # };
//! # fn logins(a_day: u32) -> Result<ServicePolicy, Box<dyn Error>> {
//! #     let quantity = Quantity::Limited(RequestRate::window(a_day, TimeUnit::Day.length())?);
//! #     let limit = RequestLimit { name: None, replaces: Vec::new(), quantity, ban: None };
//! #     let rule = DescriptorRule { limit: Some(limit), ..DescriptorRule::new("user", None) };
//! #     let mut rules = RuleSet::default();
//! #     rules.add(Domain::new("logins", vec![rule]), false)?;
//! #     Ok(ServicePolicy::of_rules(rules))
//! # }
//! # fn main() -> Result<(), Box<dyn Error>> {
//! let service = Service::new(&logins(1)?)?;
//! let descriptors = vec![Descriptor::of([("user", "frank")])];
//! let login = Request { domain: "logins".to_owned(), descriptors, hits_addend: 1 };
//! assert!(service.decide(&login)?.allowed());
//! assert!(!service.decide(&login)?.allowed());
//!
//! // Three a day now. The denied login counts too, so that the third of three is left.
//! service.reload(&logins(3)?)?;
//! assert!(service.decide(&login)?.allowed());
//! assert!(!service.decide(&login)?.allowed());
//! # Ok(())
//! # }
//! ```
//!
//! With [`StoreSettings::state_file`] counts are read at the start, and [`Service::save`] writes them for the next one.

mod active_limit;
mod cached;
mod counters;
mod decide;
mod evaluator;
mod generation;
mod inspect;
mod networks;
mod pattern;
mod request;
mod response;
mod rule_tree;
mod saved;
mod service;
mod shared;
mod status;
mod values;
mod wait;

pub use self::{
    counters::{DomainCounts, Label, RuleCounts},
    inspect::InspectError,
    request::{Descriptor, LimitOverride, MOST_DESCRIPTORS, MOST_ENTRIES, MOST_HITS, Request, RequestError},
    response::{Code, CurrentLimit, Response, RuleIdentity, Status, Statuses, UNLIMITED},
    saved::{ReadError, SaveError, StateError, check as check_state},
    service::{InForce, Service, ServiceError},
    shared::{DEFAULT_EXHAUSTED_KEYS, LATENCY_BOUNDS, SharedStoreStats},
    status::{DomainStatus, RequestAction, RequestRuleStatus, ServiceStatus, SharedStoreStatus, StoreStatus},
    values::MOST_VALUE_LABELS,
};
pub use crate::policy::{
    BanTerms, DescriptorRule, Domain, Identity, Lengthening, NearLimitRatio, Networks, NoTimeUnit,
    OnStoreError, Quantity, RateOptions, RequestBan, RequestLimit, RequestLimitError, RequestRate, RuleSet,
    RuleSetError, ServicePolicy, SoftLimit, StoreSettings, TimeUnit,
};
// For those who read rules from files.
#[doc(hidden)]
pub use crate::policy::{LIMITS_OF_REQUESTS, composite_key, metric_label};
