//! Decisions about requests at the application layer: rules by domain and descriptors, as Envoy's rate limit service has
//! them, over a store in memory.
//!
//! A [`Service`] is asked by any number of threads at once. What it is asked and answers is here too; how questions come
//! in is for others, and so is the form in which rules are written.

mod book;
mod bucket;
mod counters;
mod decide;
mod generation;
mod judge;
mod pattern;
mod request;
mod response;
mod saved;
mod service;
mod soft;

pub use self::{
    counters::{DomainCounts, Label, MOST_VALUE_LABELS, RuleCounts},
    request::{
        Descriptor, LimitOverride, MOST_BYTES, MOST_DESCRIPTORS, MOST_ENTRIES, MOST_HITS, Request,
        RequestError,
    },
    response::{Code, CurrentLimit, Response, RuleIdentity, Status, Statuses, UNLIMITED},
    saved::SaveError,
    service::{Service, ServiceError},
};
pub use crate::policy::application::TimeUnit;
