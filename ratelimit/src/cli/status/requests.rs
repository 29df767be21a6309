//! What `status` and `rules` show of rules on requests, as the daemon answers it.

use std::fmt;

use super::super::{
    output::counted,
    rules::{ban, share},
    table::TextTable,
};
use super::age;
use crate::{
    application::{
        DomainCounts, DomainStatus, RequestAction, RequestRuleStatus, ServiceStatus, SharedStoreStatus,
        StoreStatus,
    },
    limiter::store::remote::Breaker,
    server::{LayerStatus, ListenerStatus, UpstreamStatus},
    text::{Shown, Thousands},
};

/// What is said instead of a table without rows.
const NO_RULES: &str = "no rules on requests: every request passes";

/// Servers behind the proxy that are shown.
const MOST_UPSTREAMS: usize = 20;

/// The lines at the top: what is in force, and where.
pub struct Head<'s> {
    /// The layer.
    pub layer: &'s LayerStatus,
    /// Whether what is in force about packets has said which configuration that is.
    pub has_config: bool,
}

impl fmt::Display for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LayerStatus { config, since, listeners, service, .. } = self.layer;
        if !self.has_config {
            writeln!(f, "config      {config}, in force for {}", age(*since))?;
        }
        for ListenerStatus { protocol, address, tls } in listeners {
            let protocol = match protocol.as_str() {
                "grpc" => "gRPC",
                "proxy" => "proxy",
                _ => "HTTP",
            };
            writeln!(f, "listening   {protocol} at {address}{}", if *tls { ", TLS" } else { "" })?;
        }
        if listeners.is_empty() {
            writeln!(f, "listening   nowhere: `application.listen` is not configured")?;
        }
        self.upstreams(f)?;
        let rules = (service.rules.len() + service.rules_left_out) as u64;
        let domains = (service.domains.len() + service.domains_left_out) as u64;
        writeln!(f, "requests    {} in {}", counted(rules, "rule"), counted(domains, "domain"))?;
        self.warnings(f)?;
        self.store(f)
    }
}

impl Head<'_> {
    fn upstreams(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for upstream in self.layer.upstreams.iter().take(MOST_UPSTREAMS) {
            let UpstreamStatus { url, addresses, requests, in_flight, failures } = upstream;
            let failures = match failures {
                0 => String::new(),
                failures => format!(", {}", counted(*failures, "failure")),
            };
            let at = if addresses.is_empty() { "not used yet".to_owned() } else { addresses.join(", ") };
            let (requests, in_flight) = (counted(*requests, "request"), Thousands(*in_flight));
            writeln!(f, "upstream    {url} ({at}): {requests}, {in_flight} in flight{failures}")?;
        }
        let left_out = self.layer.upstreams.len().saturating_sub(MOST_UPSTREAMS);
        if left_out > 0 {
            writeln!(f, "            and {}; metrics have all", counted(left_out as u64, "other"))?;
        }
        Ok(())
    }

    fn warnings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LayerStatus { connections_refused, requests_refused, service, .. } = self.layer;
        let ServiceStatus { shadow_mode, quota_mode, request_errors, .. } = service;
        if *shadow_mode {
            writeln!(f, "warning     every request passes: `application.shadow_mode` is on")?;
        }
        if *quota_mode {
            writeln!(
                f,
                "            a request is denied only if all of its limits are over: quota mode is on"
            )?;
        }
        let errors = request_errors.saturating_add(*requests_refused);
        if errors > 0 {
            let errors = counted(errors, "request");
            writeln!(f, "            {errors} made no sense, or could not be read")?;
        }
        if *connections_refused > 0 {
            let refused = counted(*connections_refused, "connection");
            writeln!(f, "            {refused} refused because there were too many")?;
        }
        let mut no_budgets = service.rules.iter().filter(|rule| rule.is_no_budget);
        if let Some(first) = no_budgets.next() {
            let (first, more) = (named(first), no_budgets.count());
            let others =
                if more > 0 { format!(" (and {})", counted(more as u64, "other")) } else { String::new() };
            let indent = "            ";
            writeln!(f, "{indent}{first} is asked with a cost of 0 and can't be overrun{others}:")?;
            writeln!(f, "{indent}if it is a budget, give its limit `overrun: true`")?;
        }
        Ok(())
    }

    fn store(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoreStatus { keys, max_keys, bytes, live_evictions, state_file, shared } =
            &self.layer.service.store;
        let name = match shared {
            Some(shared) => {
                self.shared_store(shared, f)?;
                "memory"
            }
            None => "store",
        };
        let (keys, max_keys, size) = (counted(*keys, "key"), Thousands(*max_keys), bytes.div_ceil(1 << 20));
        let saved = state_file.as_ref().map_or_else(String::new, |path| format!(", saved in {path}"));
        writeln!(f, "{name:<11} {keys} in use, room for {max_keys}; {size} MiB{saved}")?;
        if *live_evictions > 0 {
            let evictions = counted(*live_evictions, "key");
            writeln!(f, "            {evictions} in use gave way to others: take a larger `max_keys`")?;
        }
        Ok(())
    }
}

impl Head<'_> {
    fn shared_store(&self, shared: &SharedStoreStatus, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedStoreStatus { name, breaker, errors, allowed, denied, local } = shared;
        let state = match breaker {
            Breaker::Closed => "answers",
            Breaker::HalfOpen | Breaker::Open => {
                "does not answer: `on_store_error` says what becomes of requests"
            }
        };
        writeln!(f, "store       {}, {state}", Shown(name))?;
        if *errors > 0 {
            let errors = counted(*errors, "question");
            let allowed = counted(*allowed, "request");
            let [denied, local] = [denied, local].map(|count| Thousands(*count));
            writeln!(
                f,
                "            {errors} without an answer; {allowed} let pass, {denied} denied, {local} judged here"
            )?;
        }
        Ok(())
    }
}

/// What came of requests, and what each rule has done.
pub struct Counts<'s>(pub &'s ServiceStatus);

impl fmt::Display for Counts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(service) = self;
        if !service.domains.is_empty() || service.unknown_domains.allowed > 0 {
            write!(f, "{}", domains(service))?;
            let (what, elsewhere) = ("domains, those with most requests", "metrics have all");
            left_out(f, service.domains.len(), service.domains_left_out, what, elsewhere)?;
            writeln!(f)?;
        }
        if service.rules.is_empty() {
            return writeln!(f, "{NO_RULES}");
        }
        write!(f, "{}", rules(service))?;
        let elsewhere = "`ratelimit rules` has more";
        left_out(f, service.rules.len(), service.rules_left_out, "rules, those that denied most", elsewhere)
    }
}

/// The rules alone, with all that is counted.
pub struct Rules<'s>(pub &'s ServiceStatus);

impl fmt::Display for Rules<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(service) = self;
        if service.rules.is_empty() {
            return writeln!(f, "{NO_RULES}");
        }
        write!(f, "{}", all_of_rules(service))?;
        let elsewhere = "metrics have all";
        left_out(f, service.rules.len(), service.rules_left_out, "rules, those that denied most", elsewhere)?;
        if service.shadow_mode {
            writeln!(f, "\nEvery request passes: `application.shadow_mode` is on.")?;
        }
        Ok(())
    }
}

fn left_out(
    f: &mut fmt::Formatter<'_>,
    shown: usize,
    left_out: usize,
    what: &str,
    elsewhere: &str,
) -> fmt::Result {
    if left_out == 0 {
        return Ok(());
    }
    let all = Thousands(shown.saturating_add(left_out) as u64);
    let shown = Thousands(shown as u64);
    writeln!(f, "({shown} of {all} {what}; {elsewhere})")
}

fn domains(service: &ServiceStatus) -> TextTable {
    let mut table = TextTable::new(["DOMAIN", "ALLOWED", "DENIED", "SHARE", "SHADOWED"]);
    let mut row = |domain: String, counts: &DomainCounts| {
        let DomainCounts { allowed, denied, shadowed } = *counts;
        table.row([
            domain,
            Thousands(allowed).to_string(),
            Thousands(denied).to_string(),
            share(denied, allowed.saturating_add(denied)),
            Thousands(shadowed).to_string(),
        ]);
    };
    for DomainStatus { domain, counts } in &service.domains {
        row(domain.clone(), counts);
    }
    if service.unknown_domains.allowed > 0 {
        row("(no rules)".to_owned(), &service.unknown_domains);
    }
    table
}

fn rules(service: &ServiceStatus) -> TextTable {
    let mut table =
        TextTable::new(["DOMAIN", "RULE", "LIMIT", "ACTION", "ALLOWED", "DENIED", "SHADOWED", "SOFT"]);
    for rule in &service.rules {
        table.row([
            rule.domain.clone(),
            named(rule),
            rule.limit.clone(),
            action(rule.action),
            Thousands(rule.allowed).to_string(),
            Thousands(rule.denied).to_string(),
            Thousands(rule.shadowed).to_string(),
            Thousands(rule.soft).to_string(),
        ]);
    }
    table
}

fn all_of_rules(service: &ServiceStatus) -> TextTable {
    let mut table = TextTable::new([
        "DOMAIN", "RULE", "ACTION", "ALLOWED", "DENIED", "SHARE", "SHADOWED", "SOFT", "NEAR", "CUT",
        "LABELS", "BANS", "BAN", "LIMIT",
    ]);
    for rule in &service.rules {
        let all = rule.allowed.saturating_add(rule.denied).saturating_add(rule.shadowed);
        table.row([
            rule.domain.clone(),
            named(rule),
            action(rule.action),
            Thousands(rule.allowed).to_string(),
            Thousands(rule.denied).to_string(),
            share(rule.denied, all),
            Thousands(rule.shadowed).to_string(),
            Thousands(rule.soft).to_string(),
            Thousands(rule.near_limit).to_string(),
            Thousands(rule.cut).to_string(),
            Thousands(rule.labels as u64).to_string(),
            Thousands(rule.bans_asked).to_string(),
            ban(rule.ban.as_ref()),
            rule.limit.clone(),
        ]);
    }
    table
}

fn action(action: RequestAction) -> String {
    action.name().to_owned()
}

/// The way to a rule, and the limit's name if it has one.
fn named(rule: &RequestRuleStatus) -> String {
    match &rule.name {
        Some(name) => format!("{} ({name})", rule.rule),
        None => rule.rule.clone(),
    }
}

#[cfg(test)]
mod tests;
