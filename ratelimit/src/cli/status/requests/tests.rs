//! What is shown of rules on requests.

use super::*;
use crate::application::Label;

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
        ban: (rule == "user").then(|| "after=100,within=1m,for=10m,ipv4=32,ipv6=64".to_owned()),
        bans_asked: denied / 500,
        label: Label::default(),
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
                 1,234 questions without an answer; 0 requests let pass, 30 denied, 1,204 judged here\n\
                 memory      12 keys in use";
    assert!(shown.contains(lines), "{shown}");
}

#[test]
fn one_of_a_kind_is_one() {
    let mut layer = layer();
    layer.service.request_errors = 0;
    layer.connections_refused = 1;
    layer.upstreams[0].requests = 1;
    layer.service.store = StoreStatus { keys: 1, live_evictions: 1, ..layer.service.store };
    let shown = Head { layer: &layer, has_config: true }.to_string();
    for part in [
        "): 1 request, 2 in flight, 1 failure\n",
        " 1 request made no sense,",
        " 1 connection refused because",
        "store       1 key in use, ",
        " 1 key in use gave way to others",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn nothing_is_shown_as_no_table_of_headers_alone() {
    let mut service = layer().service;
    (service.rules, service.domains) = (Vec::new(), Vec::new());
    let counts = Counts(&service).to_string();
    let domains =
        "DOMAIN      ALLOWED  DENIED  SHARE  SHADOWED\n(no rules)        9       0    0 %         0\n";
    assert_eq!(counts, format!("{domains}\nno rules on requests: every request passes\n"));
    service.unknown_domains = DomainCounts::default();
    assert_eq!(Counts(&service).to_string(), "no rules on requests: every request passes\n");
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
    assert_eq!(columns(0)[7..], ["SOFT", "NEAR", "CUT", "LABELS", "BANS", "BAN", "LIMIT"]);
    let user = ["7", "0", "2,500", "0", "2", "after=100,within=1m,for=10m,ipv4=32,ipv6=64"];
    assert_eq!(columns(1)[9..15], user, "the name and the share are two words");
    assert_eq!(columns(2)[8..], ["7", "0", "2,500", "0", "0", "none", "fixed_window,rate=5/m"]);
    assert!(
        text.ends_with("most; metrics have all)\n\nEvery request passes: `application.shadow_mode` is on.\n"),
        "{text}"
    );
}
