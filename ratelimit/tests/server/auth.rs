//! `/v1/auth`: what nginx, Traefik and Caddy send, and what they get.

use std::fs;

use crate::support::Fixture;

const AUTH: &str = "
trusted_hops: 1
auth:
  domain: edge
  descriptors:
    - {client: '{client_address}'}
    - {user: '{header:X-User}', path: '{path}'}
    - {path: '{query:page}'}
";

fn fixture(lines: &str) -> Fixture {
    let rules = "
domain: edge
descriptors:
  - key: client
    rate_limit: {name: per-client, unit: hour, requests_per_unit: 2}
  - key: user
    descriptors:
      - key: path
        value: /buy
        rate_limit: {name: buying, unit: hour, requests_per_unit: 1}
  - key: path
    value: start
    rate_limit: {name: starting, unit: hour, requests_per_unit: 0}
";
    Fixture::with_rules(rules, &format!("{AUTH}{lines}"))
}

#[test]
fn the_client_behind_the_proxy_is_limited() {
    let fixture = fixture("");
    let ask = |forged: &str, client: &str| {
        let forwarded = format!("{forged}{client}");
        fixture.get("/v1/auth", &[("X-Forwarded-For", &forwarded)])
    };
    let first = ask("", "192.0.2.1");
    assert_eq!((first.status, first.header("x-ratelimit-remaining")), (200, Some("1")));
    assert_eq!(first.body, "");
    assert_eq!(ask("6.6.6.6, ", "192.0.2.1").status, 200);
    let denied = ask("7.7.7.7, ", "192.0.2.1");
    assert_eq!((denied.status, denied.header("retry-after")), (403, Some("3600")));
    assert_eq!(denied.json()["violated-policies"], serde_json::json!(["per-client"]));
    assert_eq!(ask("", "192.0.2.2").status, 200);
}

#[test]
fn ipv6_clients_are_taken_by_their_network() {
    let fixture = fixture("");
    let ask = |client: &str| fixture.get("/v1/auth", &[("X-Forwarded-For", client)]).status;
    assert_eq!([ask("2001:db8::1"), ask("[2001:db8::2]:443"), ask("2001:db8::3")], [200, 200, 403]);
    assert_eq!(ask("2001:db8:0:1::1"), 200);
    assert_eq!([ask("192.0.2.1"), ask("::ffff:192.0.2.1"), ask("192.0.2.1:80")], [200, 200, 403]);
}

#[test]
fn what_proxies_show_of_a_request_is_found() {
    for (headers, expected) in [
        (&[("X-Forwarded-Uri", "/buy?x=1"), ("X-User", "a")][..], "buying"),
        (&[("X-Original-URI", "/buy"), ("X-User", "b")], "buying"),
        (&[("X-Original-URL", "https://shop.example/buy?y"), ("X-User", "c")], "buying"),
        (&[("X-Forwarded-Uri", "/?page=%73tart")], "starting"),
    ] {
        let fixture = fixture("");
        fixture.get("/v1/auth", headers);
        let answer = fixture.send("POST", "/v1/auth", headers, "a body that nobody reads");
        assert_eq!(answer.status, 403, "{headers:?}");
        assert_eq!(answer.json()["violated-policies"], serde_json::json!([expected]), "{headers:?}");
    }
    let fixture = fixture("");
    assert_eq!(fixture.get("/v1/auth?page=start", &[]).status, 403);
}

#[test]
fn no_way_of_writing_a_request_takes_it_out_of_its_limit() {
    let lines =
        "auth: {domain: edge, descriptors: [{host: '{host}', path: '{path}'}, {user: '{header:X-User}'}]}";
    let rules = "
domain: edge
descriptors:
  - key: host
    value: shop.example
    descriptors:
      - key: path
        value: /login
        rate_limit: {name: logins, unit: hour, requests_per_unit: 0}
      - key: path
        value: '/jobs:run,@all'
        rate_limit: {name: jobs, unit: hour, requests_per_unit: 0}
  - key: user
    rate_limit: {name: users, unit: hour, requests_per_unit: 0}
";
    let fixture = Fixture::with_rules(rules, lines);
    let ask = |headers: &[(&str, &str)]| fixture.get("/v1/auth", headers).status;
    for target in [
        "/login?next=http://x/home",
        "/login#http://x/home",
        "/login?\u{ff}",
        "//x/..//./%6cogin",
        "http://other.example/login",
        "/jobs%3arun%2C%40all",
    ] {
        assert_eq!(
            ask(&[("X-Forwarded-Uri", target), ("X-Forwarded-Host", "shop.example")]),
            403,
            "{target}"
        );
    }
    for host in ["Shop.Example", "shop.example:443", "SHOP.example.:80", "shop.example:1", "shop.example:"] {
        assert_eq!(ask(&[("X-Forwarded-Uri", "/login"), ("X-Forwarded-Host", host)]), 403, "{host}");
    }
    assert_eq!(ask(&[("X-Forwarded-Uri", "/login"), ("X-Forwarded-Host", "other.example")]), 200);
    assert_eq!(ask(&[("X-User", "\u{ff}")]), 403);
    assert_eq!(ask(&[]), 200);
}

#[test]
fn the_status_of_a_denied_request_is_configured() {
    let lines = "  deny_status: 429";
    let fixture = fixture(lines);
    assert_eq!(fixture.get("/v1/auth?page=start", &[]).status, 429);
}

#[test]
fn a_denied_request_gets_the_body_of_the_operator() {
    let directory = tempfile::tempdir().unwrap();
    let rules = "domain: edge\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 0}}]\n";
    fs::write(directory.path().join("rules.yaml"), rules).unwrap();
    fs::write(directory.path().join("busy.HTML"), "<p>Busy</p>").unwrap();
    let lines = "auth: {domain: edge, descriptors: [{a: b}], deny_status: 429, deny_body: busy.HTML}";
    let fixture = Fixture::in_directory(directory, lines);
    let answer = fixture.get("/v1/auth", &[]);
    assert_eq!((answer.status, answer.body.as_str()), (429, "<p>Busy</p>"));
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(
        (answer.header("cache-control"), answer.header("content-length")),
        (Some("no-store"), Some("11"))
    );
    assert_eq!(fixture.send("HEAD", "/v1/auth", &[], "").body, "");
}

#[test]
fn a_request_that_has_nothing_of_the_template_passes() {
    let fixture = Fixture::new("auth: {domain: edge, descriptors: [{user: '{header:X-User}'}]}");
    let answer = fixture.get("/v1/auth", &[]);
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
    assert_eq!(answer.header("x-ratelimit-limit"), None);
}

#[test]
fn without_a_template_there_is_nothing_to_ask() {
    let answer = Fixture::new("").get("/v1/auth", &[]);
    assert_eq!(answer.status, 404);
    assert!(answer.json()["detail"].as_str().unwrap().contains("application.auth"), "{answer:?}");
}

#[test]
fn every_method_is_judged_alike() {
    let fixture = fixture("");
    let methods = [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "PATCH",
        "OPTIONS",
        "TRACE",
        "CONNECT",
        "PROPFIND",
        "PURGE",
        "QUERY",
        "PRI",
        "M-SEARCH",
        "get",
        "X",
        "!#$%&'*+-.^_`|~09",
    ];
    for (index, method) in methods.into_iter().enumerate() {
        let client = format!("192.0.2.{index}");
        let ask = |body: &str| {
            let answer = fixture.send(method, "/v1/auth", &[("X-Forwarded-For", &client)], body);
            // Whoever asks by HEAD gets no body.
            assert_eq!(
                answer.body.is_empty(),
                method == "HEAD" || answer.status == 200,
                "{method}: {answer:?}"
            );
            (answer.status, answer.header("x-ratelimit-remaining").map(str::to_owned))
        };
        let large = "a body that nobody reads".repeat(1_000);
        let remaining = |number: &str| Some(number.to_owned());
        assert_eq!(ask(""), (200, remaining("1")), "{method}");
        assert_eq!(ask(&large), (200, remaining("0")), "{method}");
        assert_eq!(ask(&large), (403, remaining("0")), "{method}");
        assert_eq!(ask(""), (403, remaining("0")), "{method}");
    }
}
