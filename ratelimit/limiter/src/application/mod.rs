//! Decisions about requests at the application layer: rules by domain and descriptors, as Envoy's rate limit service has
//! them, over a store in memory.
//!
//! A [`Service`] is asked by any number of threads at once. What it is asked and answers is here too; how questions come
//! in is for others, and so is the form in which rules are written: `config` reads files of them.
//!
//! ```
//! use ratelimit_limiter::{application::{Descriptor, Request, Service}, policy::Application};
//! use ratelimit_config::{check_rules};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let file = directory.path().join("edge.yaml");
//! # std::fs::write(&file, "domain: edge\ndescriptors:\n- {key: user, rate_limit: {unit: week, requests_per_unit: 1}}")?;
//! let rules = check_rules(&[file], false)?.rules;
//! let service = Service::new(&Application::of_rules(rules))?;
//!
//! let descriptors = vec![Descriptor::of([("user", "frank")])];
//! let request = Request { domain: "edge".to_owned(), descriptors, hits_addend: 1 };
//! assert!(service.decide(&request)?.allowed());
//! let response = service.decide(&request)?;
//! assert!(!response.allowed());
//! println!("retry in {:?} s", response.deciding().and_then(|status| status.retry_after_seconds()));
//! # Ok(())
//! # }
//! ```

mod book;
mod bucket;
mod cached;
mod counters;
mod decide;
mod generation;
mod judge;
mod pattern;
mod request;
mod response;
mod saved;
mod service;
mod status;
mod values;
mod wait;

pub use self::{
    cached::Cached,
    counters::{DomainCounts, Label, RuleCounts},
    generation::Settings,
    request::{Descriptor, LimitOverride, MOST_DESCRIPTORS, MOST_ENTRIES, MOST_HITS, Request, RequestError},
    response::{Code, CurrentLimit, Response, RuleIdentity, Status, Statuses, UNLIMITED},
    saved::{ReadError, SaveError, StateError, check as check_state},
    service::{InForce, Service, ServiceError},
    status::{DomainStatus, RequestAction, RequestRuleStatus, ServiceStatus, StoreStatus},
    values::MOST_VALUE_LABELS,
};
pub use crate::policy::application::TimeUnit;
