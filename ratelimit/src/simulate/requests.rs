//! Logged requests through the rules on requests, by the log's own clock.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use ratelimit_common::time::Nanos;
use serde::Serialize;

use super::access_log::{LoggedFacts, LoggedRequest};
use crate::{
    application::{Descriptor, Label, Request, RequestError, Response, RuleCounts, Service, ServiceError},
    clock::FakeClock,
    policy::application::{Application, Auth, RequestTemplate, StoreSettings},
};

/// Descriptors that the summary counts denials of.
const MOST_DENIED: usize = 10_000;

/// Rules with a clock that requests move.
#[derive(Debug)]
pub struct RequestTrial {
    service: Service,
    clock: FakeClock,
    asks: RequestTemplate,
    summary: RequestSummary,
}

/// What came of all requests.
#[derive(Clone, Debug, Default)]
pub struct RequestSummary {
    /// Those that would have passed.
    pub allowed: u64,
    /// Those that would have been denied.
    pub denied: u64,
    /// Those that passed although they are above a soft limit.
    pub soft: u64,
    /// Those that passed because no limit was about them.
    pub unlimited: u64,
    /// Those that could not be judged, such as one with a path that is too long.
    pub refused: u64,
    denied_by: HashMap<String, u64>,
}

/// What came of one request, for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestReport {
    /// The line's number.
    pub line: u64,
    /// When, as logged, in seconds since the Unix epoch.
    pub seconds: u64,
    /// Who asked.
    pub client: String,
    /// Method and path, null if it was no HTTP request.
    pub method: Option<String>,
    /// See above.
    pub path: Option<String>,
    /// Whether it would have passed.
    pub allow: bool,
    /// Whether it was above a soft limit then.
    pub soft: bool,
    /// The rule that stands for all; null if no limit was about it.
    pub rule: Option<String>,
    /// Requests that it has left.
    pub remaining: Option<u64>,
    /// In whole seconds; null if it passes, or if no waiting helps.
    pub retry_after: Option<u64>,
    /// Why it could not be judged.
    pub error: Option<String>,
}

impl RequestTrial {
    /// The rules of a configuration; what it saves is neither read nor written. `None` if it does not say what requests
    /// are asked about.
    ///
    /// # Errors
    /// The rules can't be put in force.
    pub fn new(policy: &Application) -> Result<Option<Self>, ServiceError> {
        let Some(Auth { asks, .. }) = policy.auth.clone() else { return Ok(None) };
        let store = StoreSettings { state_file: None, ..policy.store.clone() };
        let clock = FakeClock::default();
        let policy = Application { store, ..policy.clone() };
        let service = Service::with_clock(&policy.service_policy(), Arc::new(clock.clone()))?;
        Ok(Some(Self { service, clock, asks, summary: RequestSummary::default() }))
    }

    /// Judges a request that came at `now`, which is not before that of the last one.
    pub fn judge(&mut self, line: u64, logged: &LoggedRequest, now: Nanos) -> RequestReport {
        self.clock.set(now);
        let path = self.asks.path;
        let mut report = RequestReport {
            line,
            seconds: logged.time.0 / Nanos::SECOND.0,
            client: logged.client.clone(),
            method: logged.method.clone(),
            path: logged.path(path),
            allow: true,
            soft: false,
            rule: None,
            remaining: None,
            retry_after: None,
            error: None,
        };
        let Some(request) = self.asks.request(&LoggedFacts { logged, path }) else {
            self.summary.allowed += 1;
            self.summary.unlimited += 1;
            return report;
        };
        match self.service.decide(&request) {
            Ok(response) => self.summary.add(&request, &response, &mut report),
            Err(error) => self.refuse(&error, &mut report),
        }
        report
    }

    fn refuse(&mut self, error: &RequestError, report: &mut RequestReport) {
        self.summary.refused += 1;
        report.allow = false;
        report.error = Some(error.to_string());
    }

    /// What came of all so far.
    #[must_use]
    pub const fn summary(&self) -> &RequestSummary {
        &self.summary
    }

    /// What each rule counted.
    #[must_use]
    pub fn rules(&self) -> Vec<(Label, RuleCounts)> {
        self.service.rule_counts()
    }
}

impl RequestSummary {
    fn add(&mut self, request: &Request, response: &Response, report: &mut RequestReport) {
        report.allow = response.allowed();
        report.soft = response.soft();
        self.soft += u64::from(report.soft);
        let counter = if report.allow { &mut self.allowed } else { &mut self.denied };
        *counter += 1;
        let (Some(index), Some(status)) = (response.deciding, response.deciding()) else {
            self.unlimited += 1;
            return;
        };
        report.rule = status.rule.as_ref().map(|rule| rule.key.clone());
        report.remaining = Some(status.remaining);
        report.retry_after = status.retry_after_seconds().filter(|_| !report.allow);
        if let (false, Some(descriptor)) = (report.allow, request.descriptors.get(index)) {
            self.add_denied(descriptor);
        }
    }

    /// Beyond so many, new ones are not counted: the first to be denied are those denied most, as a rule.
    fn add_denied(&mut self, descriptor: &Descriptor) {
        let entries = descriptor.entries.iter().map(|(key, value)| format!("{key}={value}"));
        let name = entries.collect::<Vec<_>>().join(",");
        let has_room = self.denied_by.len() < MOST_DENIED;
        match self.denied_by.entry(name) {
            Entry::Occupied(mut count) => *count.get_mut() += 1,
            Entry::Vacant(place) if has_room => drop(place.insert(1)),
            Entry::Vacant(_) => {}
        }
    }

    /// Whether there was no request.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.allowed + self.denied + self.refused == 0
    }

    /// The descriptors that were denied most, with how often.
    #[must_use]
    pub fn denied_most(&self, most: usize) -> Vec<(&str, u64)> {
        let mut denied: Vec<_> = self.denied_by.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        denied.sort_by(|(a, more), (b, less)| less.cmp(more).then(a.cmp(b)));
        denied.truncate(most);
        denied
    }
}
