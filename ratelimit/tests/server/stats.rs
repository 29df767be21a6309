//! What the servers count about themselves.

use std::{net::TcpStream, sync::Arc};

use prometheus_client::{encoding::prometheus_text, registry::Registry};
use ratelimit::metrics::RequestMetrics;

use crate::{support::Fixture, wait};

#[test]
fn answers_and_connections_are_counted() {
    let fixture = Fixture::new("");
    let stats = fixture.servers.stats();
    for _ in 0..3 {
        fixture.check("user", "a");
    }
    let [(_, grpc), (_, http)] = stats.answer_times();
    assert_eq!((grpc.counts.iter().sum::<u64>(), http.counts.iter().sum::<u64>()), (0, 3));
    assert!(http.nanos > 0);
    let idle: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(fixture.http()).unwrap()).collect();
    // They are taken in order, so this one comes after them.
    fixture.check("user", "b");
    assert!(stats.open() >= 5, "{}", stats.open());
    drop(idle);
    wait::until("all connections are closed", || (stats.open() == 0).then_some(()));
    assert_eq!(stats.refused(), 0);
}

#[test]
fn what_cannot_be_read_is_counted() {
    let fixture = Fixture::new("");
    let stats = fixture.servers.stats();
    for (path, body) in [
        ("/v1/check", "nonsense".to_owned()),
        ("/v1/check", r#"{"requests": [1]}"#.to_owned()),
        ("/json", "nonsense".to_owned()),
    ] {
        let before = stats.refused_requests();
        fixture.post(path, &body);
        assert_eq!(stats.refused_requests(), before + 1, "{path} {body:.20}");
    }
    // What can be read is for the service to count.
    fixture.post("/v1/check", r#"{"domain": "", "descriptors": []}"#);
    assert_eq!((stats.refused_requests(), fixture.service.request_errors()), (3, 1));
}

#[test]
fn metrics_have_decisions_rules_and_times() {
    let fixture = Fixture::new("");
    for _ in 0..3 {
        fixture.check("user", "a");
    }
    fixture.check("unknown", "x");
    let entries: Vec<_> = (0..33).map(|_| serde_json::json!({"key": "user", "value": "b"})).collect();
    let descriptors = serde_json::json!([{"entries": entries}]);
    fixture.post("/v1/check", serde_json::json!({"domain": "edge", "descriptors": descriptors}).to_string());
    let (service, stats) = (Arc::clone(&fixture.service), Arc::clone(fixture.servers.stats()));
    let proxy = Arc::clone(fixture.servers.proxy());
    let mut registry = Registry::with_prefix("ratelimit");
    let offenders = Arc::clone(fixture.servers.offenders());
    registry.register_collector(Box::new(RequestMetrics { service, stats, proxy, offenders }));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry).unwrap();
    for line in [
        "# TYPE ratelimit_decisions_total counter",
        "ratelimit_decisions_total{domain=\"edge\",decision=\"allowed\"} 3",
        "ratelimit_decisions_total{domain=\"edge\",decision=\"denied\"} 2",
        "ratelimit_rule_hits_total{domain=\"edge\",rule=\"user\"} 3",
        "ratelimit_rule_over_limit_total{domain=\"edge\",rule=\"user\"} 1",
        "ratelimit_request_bans_total{outcome=\"asked\"} 0",
        "ratelimit_answer_seconds_count{protocol=\"http\"} 5",
        "ratelimit_answer_seconds_bucket{protocol=\"http\",le=\"+Inf\"} 5",
        "ratelimit_answer_seconds_count{protocol=\"grpc\"} 0",
        "ratelimit_request_errors_total 0",
        "ratelimit_denied_unjudged_total{reason=\"too_large\"} 0",
        "ratelimit_denied_unjudged_total{reason=\"unreadable\"} 0",
        "ratelimit_denied_unjudged_total{reason=\"no_room\"} 0",
        "ratelimit_denied_unjudged_total{reason=\"too_many\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
}
