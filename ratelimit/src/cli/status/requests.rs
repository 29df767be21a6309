//! What `status` and `rules` show of rules on requests, as the daemon answers it.

use std::fmt;

use super::super::{rules::share, table::Table};
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
        let rules = service.rules.len() + service.rules_left_out;
        let domains = service.domains.len() + service.domains_left_out;
        writeln!(f, "requests    {} in {}", number_of(rules, "rule"), number_of(domains, "domain"))?;
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
                failures => {
                    format!(", {}", number_of(usize::try_from(*failures).unwrap_or(usize::MAX), "failure"))
                }
            };
            let at = if addresses.is_empty() { "not used yet".to_owned() } else { addresses.join(", ") };
            let (requests, in_flight) = (Thousands(*requests), Thousands(*in_flight));
            writeln!(f, "upstream    {url} ({at}): {requests} requests, {in_flight} in flight{failures}")?;
        }
        let left_out = self.layer.upstreams.len().saturating_sub(MOST_UPSTREAMS);
        if left_out > 0 {
            writeln!(f, "            and {}; metrics have all", number_of(left_out, "other"))?;
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
            writeln!(f, "            {} requests made no sense, or could not be read", Thousands(errors))?;
        }
        if *connections_refused > 0 {
            let refused = Thousands(*connections_refused);
            writeln!(f, "            {refused} connections refused because there were too many")?;
        }
        let mut no_budgets = service.rules.iter().filter(|rule| rule.is_no_budget);
        if let Some(first) = no_budgets.next() {
            let (first, more) = (named(first), no_budgets.count());
            let others =
                if more > 0 { format!(" (and {})", number_of(more, "other")) } else { String::new() };
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
        let (keys, max_keys, size) = (Thousands(*keys), Thousands(*max_keys), bytes.div_ceil(1 << 20));
        let saved = state_file.as_ref().map_or_else(String::new, |path| format!(", saved in {path}"));
        writeln!(f, "{name:<11} {keys} keys in use, room for {max_keys}; {size} MiB{saved}")?;
        if *live_evictions > 0 {
            let evictions = Thousands(*live_evictions);
            writeln!(f, "            {evictions} keys in use gave way to others: take a larger `max_keys`")?;
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
            let [errors, allowed, denied, local] =
                [errors, allowed, denied, local].map(|count| Thousands(*count));
            writeln!(
                f,
                "            {errors} questions without an answer; {allowed} requests were let pass, {denied} denied, \
                 {local} judged here"
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
        write!(f, "{}", domains(service))?;
        let elsewhere = "metrics have all";
        left_out(
            f,
            service.domains.len(),
            service.domains_left_out,
            "domains, those with most requests",
            elsewhere,
        )?;
        writeln!(f)?;
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
            return writeln!(f, "no rules on requests: every request passes");
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

fn domains(service: &ServiceStatus) -> Table {
    let mut table = Table::new(["DOMAIN", "ALLOWED", "DENIED", "SHARE", "SHADOWED"]);
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

fn rules(service: &ServiceStatus) -> Table {
    let mut table =
        Table::new(["DOMAIN", "RULE", "LIMIT", "ACTION", "ALLOWED", "DENIED", "SHADOWED", "SOFT"]);
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

fn all_of_rules(service: &ServiceStatus) -> Table {
    let mut table = Table::new([
        "DOMAIN", "RULE", "ACTION", "ALLOWED", "DENIED", "SHARE", "SHADOWED", "SOFT", "NEAR", "CUT",
        "LABELS", "LIMIT",
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
            rule.limit.clone(),
        ]);
    }
    table
}

fn number_of(count: usize, what: &str) -> String {
    format!("{} {what}{}", Thousands(count as u64), if count == 1 { "" } else { "s" })
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
mod tests {
    use super::*;

    fn rule(rule: &str, name: Option<&str>, denied: u64) -> RequestRuleStatus {
        RequestRuleStatus {
            domain: "edge".to_owned(),
            rule: rule.to_owned(),
            name: name.map(str::to_owned),
            limit: "fixed_window,rate=5/m".to_owned(),
            action: RequestAction::Deny,
            allowed: 3_000,
            denied,
            shadowed: 0,
            soft: 7,
            cut: 2_500,
            near_limit: 0,
            labels: 0,
            unlabelled: 0,
            is_no_budget: rule == "user",
        }
    }

    fn layer() -> LayerStatus {
        let listener = |protocol: &str, address: &str, tls| ListenerStatus {
            protocol: protocol.to_owned(),
            address: address.to_owned(),
            tls,
        };
        LayerStatus {
            config: "/etc/ratelimit.yaml".to_owned(),
            since: u64::MAX,
            listeners: vec![
                listener("grpc", "127.0.0.1:8081", false),
                listener("http", "[::1]:443", true),
                listener("proxy", "0.0.0.0:80", false),
            ],
            upstreams: vec![UpstreamStatus {
                url: "http://app:3000".to_owned(),
                addresses: vec!["10.0.0.1:3000".to_owned()],
                requests: 3_000,
                in_flight: 2,
                failures: 1,
            }],
            connections: 1,
            connections_refused: 2,
            requests_refused: 1,
            service: ServiceStatus {
                shadow_mode: true,
                quota_mode: false,
                domains: vec![DomainStatus {
                    domain: "edge".to_owned(),
                    counts: DomainCounts { allowed: 3_000, denied: 1_000, shadowed: 5 },
                }],
                domains_left_out: 0,
                unknown_domains: DomainCounts { allowed: 9, ..DomainCounts::default() },
                rules: vec![rule("user", Some("per-user"), 1_000), rule("path_/", None, 0)],
                rules_left_out: 4_998,
                request_errors: 1,
                store: StoreStatus {
                    keys: 12,
                    max_keys: 1_000_000,
                    bytes: 1 << 20,
                    live_evictions: 3,
                    state_file: None,
                    shared: None,
                },
            },
        }
    }

    #[test]
    fn a_store_of_several_daemons_is_shown_with_what_was_done_without_it() {
        let mut layer = layer();
        layer.service.store.shared = Some(SharedStoreStatus {
            name: "redis 127.0.0.1:6379".to_owned(),
            breaker: Breaker::Open,
            errors: 1_234,
            allowed: 0,
            denied: 30,
            local: 1_204,
        });
        let shown = Head { layer: &layer, has_config: true }.to_string();
        let lines = "store       redis 127.0.0.1:6379, does not answer: `on_store_error` says what becomes of requests\n            \
                     1,234 questions without an answer; 0 requests were let pass, 30 denied, 1,204 judged here\n\
                     memory      12 keys in use";
        assert!(shown.contains(lines), "{shown}");
    }

    #[test]
    fn what_is_in_force_about_requests_is_shown() {
        let layer = layer();
        assert_eq!(
            Head { layer: &layer, has_config: false }.to_string(),
            "config      /etc/ratelimit.yaml, in force for 0s\n\
             listening   gRPC at 127.0.0.1:8081\n\
             listening   HTTP at [::1]:443, TLS\n\
             listening   proxy at 0.0.0.0:80\n\
             upstream    http://app:3000 (10.0.0.1:3000): 3,000 requests, 2 in flight, 1 failure\n\
             requests    5,000 rules in 1 domain\n\
             warning     every request passes: `application.shadow_mode` is on\n            \
             2 requests made no sense, or could not be read\n            \
             2 connections refused because there were too many\n            \
             user (per-user) is asked with a cost of 0 and can't be overrun:\n            \
             if it is a budget, give its limit `overrun: true`\n\
             store       12 keys in use, room for 1,000,000; 1 MiB\n            \
             3 keys in use gave way to others: take a larger `max_keys`\n"
        );
        assert_eq!(
            Counts(&layer.service).to_string(),
            "DOMAIN      ALLOWED  DENIED   SHARE  SHADOWED\n\
             edge          3,000   1,000  25.0 %         5\n\
             (no rules)        9       0     0 %         0\n\n\
             DOMAIN  RULE             LIMIT                  ACTION  ALLOWED  DENIED  SHADOWED  SOFT\n\
             edge    user (per-user)  fixed_window,rate=5/m  deny      3,000   1,000         0     7\n\
             edge    path_/           fixed_window,rate=5/m  deny      3,000       0         0     7\n\
             (2 of 5,000 rules, those that denied most; `ratelimit rules` has more)\n"
        );
        let text = Rules(&layer.service).to_string();
        let columns = |line: usize| text.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(columns(0)[7..11], ["SOFT", "NEAR", "CUT", "LABELS"]);
        assert_eq!(columns(1)[9..13], ["7", "0", "2,500", "0"], "the name and the share are two words");
        assert!(
            text.ends_with(
                "most; metrics have all)\n\nEvery request passes: `application.shadow_mode` is on.\n"
            ),
            "{text}"
        );
    }
}
